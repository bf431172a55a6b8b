package fsm

import (
	"fmt"
	"iter"
	"slices"
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
	if diff := derivedDifference(s, again); diff != "" {
		t.Fatalf("what is derived has drifted: %s", diff)
	}
	return again
}

// derivedDifference compares what no record carries: indexes and counters that Apply keeps up as it goes, and Restore
// builds anew.
func derivedDifference(a, b *State) string {
	switch {
	case a.users != b.users:
		return fmt.Sprintf("%d and %d users", a.users, b.users)
	case a.historyBytes != b.historyBytes:
		return fmt.Sprintf("%d and %d bytes of history", a.historyBytes, b.historyBytes)
	case !slices.Equal(a.ended.Keys(), b.ended.Keys()):
		return "ended sessions"
	case !slices.Equal(a.nonces.Items(), b.nonces.Items()):
		return "nonces"
	case !slices.Equal(a.holds.Items(), b.holds.Items()):
		return "locks of sessions"
	case !slices.Equal(a.owns.Items(), b.owns.Items()):
		return "keys of sessions"
	case !slices.Equal(a.waiting.Items(), b.waiting.Items()):
		return "places of sessions"
	case !slices.Equal(a.stakes.Items(), b.stakes.Items()):
		return "readers and slots of sessions"
	case !slices.Equal(a.crowds.Keys(), b.crowds.Keys()) || !slices.Equal(a.crowds.Values(), b.crowds.Values()):
		return "crowds"
	case !slices.Equal(a.vacant.Items(), b.vacant.Items()):
		return "vacant slots"
	case !slices.Equal(a.leases.Items(), b.leases.Items()):
		return "leases"
	case !slices.Equal(a.declared.Items(), b.declared.Items()):
		return "what is said to be held"
	case !slices.EqualFunc(a.joint.Items(), b.joint.Items(), func(a, b place) bool {
		return a.name == b.name && a.position == b.position && a.seq == b.seq
	}):
		return "places of requests for several names"
	case a.crowded != b.crowded || a.special != b.special || a.grants != b.grants || a.requests != b.requests:
		return "counts of grants and requests"
	case !slices.EqualFunc(a.locks.Values(), b.locks.Values(), func(a, b *lock) bool { return a.waiting == b.waiting && a.crowded == b.crowded }):
		return "lengths of queues"
	case !slices.EqualFunc(a.sessions.Values(), b.sessions.Values(), func(a, b *session) bool {
		return a.end != 0 || a.outstanding == b.outstanding
	}):
		return "outstanding numbers"
	}
	return ""
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
