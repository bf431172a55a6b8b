package raftnode

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A leader that has not applied all that was committed before its election says nothing: it may not know yet that a
// session has ended, or what was written. Its TermStart comes after all that in the log.
func TestG3G5_NothingBeforeTheTermStartIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		old := c.leader()
		f := c.others(old)[0]
		gate := make(chan struct{})
		f.machine.mu.Lock()
		f.machine.fail = func([]byte) error { <-gate; return nil }
		f.machine.mu.Unlock()
		old.propose(t, "committed")
		time.Sleep(election)
		defer close(gate)
		if err := old.Transfer(t.Context(), f.ID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * election)
		leader, term := f.Leader()
		applied, _ := f.Applied()
		if committed, _ := old.Applied(); leader != f.ID() || applied >= committed {
			t.Fatalf("leader %q, applied %d of %d: the test shows nothing", leader, applied, committed)
		}
		if f.ActiveTerm() != 0 {
			t.Error("it is active")
		}
		if index, err := f.ReadIndex(t.Context()); !errors.Is(err, ErrNotActive) {
			t.Errorf("read index %d, %v", index, err)
		}
		if err := f.WaitEvidence(t.Context(), term, f.Stamp(), true); !errors.Is(err, ErrNotActive) {
			t.Errorf("evidence: %v", err)
		}
		if n := len(f.acts.terms); n != 0 {
			t.Errorf("%d terms were activated", n)
		}
		gate <- struct{}{}
		eventually(t, "the term begins", func() bool { return f.ActiveTerm() == term })
		if !f.machine.has("committed") {
			t.Error("it has begun before what was committed was applied")
		}
	})
}

// A TermStart that raft does not take, because its main loop waits for the disk, is proposed again.
func TestG8_TheTermStartIsProposedUntilItIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 1, 0, nil)
		l := c.leader()
		before := l.ActiveTerm()
		l.store.set(func(s *memStore) { s.delay = 5 * election })
		l.inbound.resign(before)
		time.Sleep(4 * election)
		if leader, term := l.Leader(); leader != l.ID() || term <= before {
			t.Fatalf("leader %q of term %d after %d: the test shows nothing", leader, term, before)
		}
		l.store.set(func(s *memStore) { s.delay = 0 })
		eventually(t, "the next term is active", func() bool { return l.ActiveTerm() > before })
	})
}

// What a pipelined AppendEntries proves is of the moment at which it left, however late it is answered.
func TestG3G5_APipelinedAppendIsStampedBeforeItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEvidence("self", func() raft.Configuration {
			return raft.Configuration{Servers: []raft.Server{{ID: "self", Address: "self"}, {ID: "b", Address: "b"}}}
		})
		tr := &transport{evidence: e, superseded: func() {}, sw: newSwitch()}
		inner := &fakePipeline{out: make(chan raft.AppendFuture, 1)}
		p := newPipeline(tr, "b", inner)
		e.open(7)
		before := e.now()
		resp := &raft.AppendEntriesResponse{Term: 7, Success: true}
		if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 7, PrevLogEntry: 3}, resp); err != nil {
			t.Fatal(err)
		}
		after := e.now()
		inner.out <- &fakeFuture{inner.sent, resp, nil}
		<-p.Consumer()
		if r, err := e.join(7, before); r != nil || err != nil {
			t.Errorf("it is no evidence of the time before it left: %v", err)
		}
		if r, _ := e.join(7, after); r == nil {
			t.Error("it is evidence of a time after it left")
		}
		e.close(ErrNotActive)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
