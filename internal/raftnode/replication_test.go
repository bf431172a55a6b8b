package raftnode

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A leader's replication is about to send what follows entry p, and has just read p, when the node becomes a follower,
// and the next leader replaces p and all that follows. What it reads then does not follow p. A server that still is in
// the old term, and holds the old p, must not be sent that: it would apply p, which the cell has dropped.
func TestG10_AFormerLeaderMixesNoLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 5, 0, nil)
		old := c.leader()
		old.propose(t, "base")
		time.Sleep(time.Second)
		left, rest := c.others(old)[0], c.others(old)[1:]
		c.cut(old, rest...)
		c.cut(left, rest...)
		left.wire.cut(old.ID(), true)        // from an answer to its requests for votes it would learn of the next term
		old.wire.slow(left.ID(), election/3) // its answer: meanwhile more entries come than are kept in memory

		var proposals sync.WaitGroup
		for i := range 2 * logsCached {
			proposals.Go(func() { _ = old.Propose(t.Context(), fmt.Appendf(nil, "dropped%d", i)) })
			if i == 0 {
				time.Sleep(10 * latency) // it travels by itself
			}
		}
		p := left.raft.Load().LastIndex() // the last entry that got there
		resume := make(chan struct{})
		old.store.set(func(s *memStore) {
			s.read = func(index uint64) {
				if index == p+1 && old.raft.Load().State() == raft.Leader {
					<-resume
				}
			}
		})

		next := c.leader(old, left)
		for i := range 2 * logsCached {
			next.propose(t, fmt.Sprint("kept", i))
		}
		proposals.Wait()
		for _, m := range rest {
			old.wire.cut(m.ID(), false)
			m.wire.cut(old.ID(), false)
		}
		eventually(t, "the former leader has the next one's log", func() bool { return old.machine.has(fmt.Sprint("kept", 2*logsCached-1)) })
		close(resume)
		time.Sleep(election)
		// A leader looks for where a log parts from its own from the end of what it had when it was elected.
		if err := next.Transfer(t.Context(), c.others(old, left, next)[0].ID()); err != nil {
			t.Fatal(err)
		}
		c.heal()
		eventually(t, "everybody has everything", func() bool { return left.machine.has(fmt.Sprint("kept", 2*logsCached-1)) })
		if got, want := left.machine.list(), next.machine.list(); !slices.Equal(got, want) {
			t.Errorf("the server that was left with the former leader applied %v", got[:3])
		}
	})
}

// A proposal that is being written when a transfer begins is committed first, by the old leader: one that reached another
// voter only would cost the target its election.
func TestATransferWaitsForProposals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		f := c.others(l)[0]
		time.Sleep(election)
		l.store.set(func(s *memStore) { s.delay = election / 4 })
		for name, propose := range map[string]func(done chan<- error){
			"Propose": func(done chan<- error) { go func() { done <- l.Propose(t.Context(), []byte("x")) }() },
			"Start":   func(done chan<- error) { l.Start([]byte("y"), func(err error) { done <- err }) },
		} {
			proposed := make(chan error, 1)
			propose(proposed)
			time.Sleep(latency)
			if err := l.Transfer(t.Context(), f.ID()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := <-proposed; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			eventually(t, "the target leads", func() bool { return f.ActiveTerm() != 0 })
			if err := f.Transfer(t.Context(), l.ID()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the first leads again", func() bool { return l.ActiveTerm() != 0 })
		}
		if l.proposing.Load() != 0 {
			t.Errorf("%d proposals are under way", l.proposing.Load())
		}
	})
}
