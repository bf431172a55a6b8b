package coord_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// A cell that loses its majority for longer than a TTL suspends a session that has a grace period, and gives it back.
func TestG3_GraceOutlastsALostMajority(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		plain, s := c.session(0), c.session(0, coord.WithGrace(time.Minute))
		lost, held := c.lock(plain, "plain"), c.lock(s, "x")
		token, before := held.Token(), held.Context()
		for i := range 3 {
			c.isolate(i)
		}
		if state := <-s.Changes(); state != coord.SessionSuspended {
			t.Fatalf("state %v", state)
		}
		if err := held.Check(); !errors.Is(err, coord.ErrSuspended) || held.Err() != nil || s.Err() != nil || s.State() != coord.SessionSuspended {
			t.Errorf("Check %v, Err %v and %v, state %v", err, held.Err(), s.Err(), s.State())
		}
		if !errors.Is(context.Cause(before), coord.ErrSuspended) || !errors.Is(context.Cause(s.Context()), coord.ErrSuspended) {
			t.Errorf("the contexts' causes are %v and %v", context.Cause(before), context.Cause(s.Context()))
		}
		<-plain.Done()
		time.Sleep(5 * ttl)
		c.lab.HealAll()
		if state := <-s.Changes(); state != coord.SessionLive {
			t.Fatalf("state %v", state)
		}
		if err := held.Check(); err != nil || held.Token() != token || held.Context().Err() != nil || s.Context().Err() != nil {
			t.Errorf("Check %v, token %v was %v", err, held.Token(), token)
		}
		// The session that ended for this process lives on in the cell until its TTL is over: nobody was granted its lock.
		if err := lost.Check(); !errors.Is(err, coord.ErrSessionExpired) {
			t.Errorf("Check without grace: %v", err)
		}
		other := c.session(1, coord.WithTTL(10*ttl))
		if _, err := other.TryLock(c.within(time.Minute), "x"); !errors.Is(err, coord.ErrLocked) {
			t.Errorf("TryLock: %v", err)
		}
		if err := held.Unlock(c.within(time.Minute)); err != nil {
			t.Error(err)
		}
		c.lock(other, "x")
	})
}

// A suspended session whose end the cell has decided does not live again, however long its grace period is.
func TestG3_NoGraceOnceTheCellHasHandedOn(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		holder := c.others(c.leader())[0]
		s := c.session(holder, coord.WithGrace(time.Hour))
		held := c.lock(s, "x")
		got := c.acquire(c.within(time.Minute), c.session(c.leader()), "x")
		c.isolate(holder)
		next := <-got
		if next.err != nil || held.Check() == nil {
			t.Fatalf("granted to the next: %v; the former holder's Check: %v", next.err, held.Check())
		}
		select {
		case <-held.Lost():
			t.Error("Lost is closed, and nobody has told")
		default:
		}
		time.Sleep(5 * ttl)
		c.lab.HealAll()
		<-held.Lost()
		if !errors.Is(held.Check(), coord.ErrSessionExpired) || !errors.Is(s.Err(), coord.ErrSessionExpired) || next.lock.Check() != nil {
			t.Errorf("Check %v, session %v; the next: %v", held.Check(), s.Err(), next.lock.Check())
		}
	})
}
