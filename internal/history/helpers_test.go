package history

import (
	"strings"
	"testing"
	"time"
)

// script builds histories by hand. Times are in milliseconds.
type script struct {
	h History
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// do notes a call that took effect.
func (s *script) do(call, ret int, op Op) *script {
	op.Outcome = OK
	return s.add(call, ret, op)
}

// fail notes a call that was refused, or whose outcome is unknown.
func (s *script) fail(call, ret int, op Op, outcome Outcome, err string) *script {
	op.Outcome, op.Err = outcome, err
	return s.add(call, ret, op)
}

// hang notes a call that has not returned.
func (s *script) hang(call int, op Op) *script {
	s.add(call, 0, op)
	s.h.Ops[len(s.h.Ops)-1].Return = Pending
	return s
}

func (s *script) add(call, ret int, op Op) *script {
	op.ID, op.Call, op.Return = len(s.h.Ops)+1, ms(call), ms(ret)
	s.h.Ops = append(s.h.Ops, op)
	return s
}

func (s *script) batch(at int, b Batch) *script {
	b.At = ms(at)
	s.h.Batches = append(s.h.Batches, b)
	return s
}

// events notes a batch of the watcher of every key, with one event.
func (s *script) event(at, watcher int, e Event) *script {
	return s.batch(at, Batch{Watcher: watcher, Prefix: true, Revision: e.Revision, Events: []Event{e}})
}

// snapshot notes a whole snapshot of every key.
func (s *script) snapshot(at, watcher int, revision uint64, events ...Event) *script {
	return s.batch(at, Batch{Watcher: watcher, Prefix: true, Snapshot: true, Revision: revision, Events: events})
}

// history is a copy in the order of the calls.
func (s *script) history(t *testing.T) *History {
	t.Helper()
	var b strings.Builder
	if err := s.h.Save(&b); err != nil {
		t.Fatal(err)
	}
	h, err := Read(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// good demands that nothing is found.
func (s *script) good(t *testing.T) {
	t.Helper()
	r := Verify(s.history(t))
	for _, v := range r.Violations {
		t.Errorf("found in a good history: %v", v)
	}
	if r.Undecided > 0 {
		t.Errorf("undecided: %v", r.GivenUp)
	}
}

// bad demands that a violation of the guarantee is found whose text has a part.
func (s *script) bad(t *testing.T, guarantee, part string) {
	t.Helper()
	r := Verify(s.history(t))
	for _, v := range r.Violations {
		if v.Guarantee == guarantee && strings.Contains(v.Text, part) {
			return
		}
	}
	t.Errorf("no violation of %s with %q; found: %v", guarantee, part, r.Violations)
}
