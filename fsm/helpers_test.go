package fsm

import (
	"iter"
	"testing"
)

// withNil makes of records what Restore reads.
func withNil(records iter.Seq[Record]) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// restored returns what comes out of a snapshot of s.
func restored(t testing.TB, s *State) *State {
	t.Helper()
	again, err := Restore(withNil(s.Records()))
	if err != nil {
		t.Fatal(err)
	}
	if again.Hash() != s.Hash() {
		t.Fatal("the restored state has another hash")
	}
	return again
}

// replica applies commands to a State, one or several an entry, with ascending indexes in term 1.
type replica struct {
	*State
	t     testing.TB
	index uint64
}

func newReplica(t testing.TB) *replica { return &replica{State: New(), t: t} }

func (r *replica) do(cmds ...Command) Output {
	r.index++
	return r.Apply(r.index, 1, cmds)
}

// open opens a session and returns its id.
func (r *replica) open(name string) SessionID {
	r.t.Helper()
	c := OpenSession{TTL: 10e9, Label: name, Node: "n1"}
	copy(c.Nonce[:], name)
	return r.result(r.do(c)).Session
}

// result returns the result of the only reply.
func (r *replica) result(out Output) Result {
	r.t.Helper()
	if len(out.Replies) != 1 {
		r.t.Fatalf("%d replies, want 1: %+v", len(out.Replies), out.Replies)
	}
	return out.Replies[0].Result
}
