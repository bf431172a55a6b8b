package server

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/lab"
)

var _ Laboratory = (*lab.Lab)(nil) // or tests would run at the pace of production, without their disks

// alone runs test in a bubble, with a server that leads a cell of its own.
func alone(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(t.Context(), Config{
			Name: "a", Cell: "cell", InMemory: true, Listen: "a:1", Expect: 1, ElectionTimeout: 250 * time.Millisecond,
			Limits: Limits{}.WithDefaults(), Logger: slog.New(slog.DiscardHandler), Network: lab.New(50 * time.Millisecond),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
}

// A leader whose term ended while it handed on what an ended session held goes on when it leads again, though nothing
// ends anew that would remind it.
func TestG6_ATermGoesOnReaping(t *testing.T) {
	alone(t, func(t *testing.T, s *Server) {
		const locks = 2500 // more than two steps
		x, err := s.Caller().OpenSession(t.Context(), caller.SessionOptions{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for i := range locks {
			if err := s.propose(t.Context(), fsm.Lock{Change: fsm.Change{Session: x.ID(), Seq: 1000 + uint64(i)}, Name: string(rune('a' + i))}); err != nil {
				t.Fatal(err)
			}
		}
		term := s.raft.ActiveTerm()
		s.deactivated(term)
		if err := s.propose(t.Context(), fsm.CloseSession{Change: fsm.Change{Session: x.ID(), Seq: 1}}); err != nil {
			t.Fatal(err)
		}
		<-s.lead.work // as the term that is over took note of it
		left := func() (n int) {
			s.View(func(state *fsm.State) { n = state.Counts().Locks })
			return n
		}
		time.Sleep(time.Second)
		if n := left(); n == 0 || n == locks {
			t.Fatalf("%d of %d locks are left between the terms: this test proves nothing", n, locks)
		}
		s.activated(term)
		time.Sleep(time.Second)
		if n := left(); n != 0 {
			t.Errorf("%d locks are never handed on", n)
		}
	})
}
