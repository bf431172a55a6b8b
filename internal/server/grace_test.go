package server

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/lease"
)

// What makes it safe that a suspended session lives again: each of these tests fails without its rule. See rule 8 of
// docs/GUARANTEES.md: the leader never hears of grace.

// graced is a session with a grace period that holds "x", and another one that waits for it.
type graced struct {
	*caller.Session
	hold *lease.Hold
	next <-chan error // answered when the other one is granted "x": what the holder's Check says then
}

func newGraced(t *testing.T, s *Server) graced {
	t.Helper()
	open := func(o caller.SessionOptions) *caller.Session {
		x, err := s.Caller().OpenSession(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x, other := open(caller.SessionOptions{TTL: time.Second, Grace: time.Hour}), open(caller.SessionOptions{TTL: time.Hour})
	if res, _, err := x.Lock(t.Context(), fsm.Lock{Name: "x"}, 0); err != nil || res.Code != fsm.OK {
		t.Fatal(res, err)
	}
	hold, err := x.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	s.Go(func() {
		if _, _, err := other.Lock(ctx, fsm.Lock{Name: "x"}, 0); err == nil {
			next <- hold.Check()
		}
	})
	return graced{x, hold, next}
}

// slowDisk keeps entries from being written until the returned function is called.
func slowDisk(s *Server) (release func()) {
	var mu sync.Mutex
	var held []func()
	write, open := s.packer.start, false
	s.packer.mu.Lock()
	s.packer.start = func(entry []byte, done func(error)) {
		mu.Lock()
		defer mu.Unlock()
		if open {
			write(entry, done)
		} else {
			held = append(held, func() { write(entry, done) })
		}
	}
	s.packer.mu.Unlock()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		open = true
		for _, f := range held {
			f()
		}
	}
}

// A session is marked before its end is proposed, and not acknowledged from then on: while the entry is on its way, no
// renewal revives it.
func TestG3_GraceNotRevivedWhileItsEndIsProposed(t *testing.T) {
	alone(t, func(t *testing.T, s *Server) {
		g := newGraced(t, s)
		time.Sleep(100 * time.Millisecond)
		release := slowDisk(s)
		s.expiry.Hasten(g.ID())
		time.Sleep(3 * time.Second) // it is due to be suspended meanwhile, and its renewals arrive
		if g.Lease().State() != lease.Suspended {
			t.Errorf("the session is %v though its end is on its way", g.Lease().State())
		}
		release()
		if err := <-g.next; err == nil {
			t.Error("the former holder may act when the next one holds")
		}
	})
}

// An end that was decided in an earlier term is ignored, though it comes into the log: the leader of this term has
// acknowledged the session since, and revived it.
func TestG3_GraceRevivedDespiteTheEndOfAnEarlierTerm(t *testing.T) {
	alone(t, func(t *testing.T, s *Server) {
		g := newGraced(t, s)
		term := s.raft.ActiveTerm()
		s.deactivated(term) // nobody acknowledges
		time.Sleep(3 * time.Second)
		if g.Lease().State() != lease.Suspended {
			t.Fatalf("the session is %v: this test proves nothing", g.Lease().State())
		}
		s.activated(term)
		time.Sleep(time.Second)
		if g.Lease().State() != lease.Live || g.hold.Check() != nil {
			t.Fatalf("the session is %v: it was not revived", g.Lease().State())
		}
		if err := s.propose(t.Context(), fsm.Expire{Term: term - 1, Sessions: []fsm.SessionID{g.ID()}}); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-g.next:
			t.Errorf("granted to the next, the holder's Check: %v", err)
		case <-time.After(3 * time.Second):
		}
		if err := g.hold.Check(); err != nil {
			t.Errorf("Check %v", err)
		}
	})
}

// A leader acknowledges nobody before the first entry of its term: what earlier ones have decided may still be before that
// in the log, not applied.
func TestG3_GraceNotRevivedBeforeTheTerm(t *testing.T) {
	alone(t, func(t *testing.T, s *Server) {
		g := newGraced(t, s)
		term := s.raft.ActiveTerm()
		s.deactivated(term)
		time.Sleep(3 * time.Second)
		if reply, err := s.KeepAlive(t.Context(), 1<<40, []fsm.SessionID{g.ID()}); err == nil && len(reply.Again) == 0 {
			t.Errorf("acknowledged between the terms: %+v", reply)
		}
		if err := s.propose(t.Context(), fsm.Expire{Term: term, Sessions: []fsm.SessionID{g.ID()}}); err != nil {
			t.Fatal(err)
		}
		if err := <-g.next; !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("the former holder's Check when the next one holds: %v", err)
		}
		s.activated(term)
		<-g.Lease().Done()
	})
}
