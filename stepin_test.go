package coord_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// A lock with a lease of its own is lost when nobody refreshes it, though its session lives; and not while somebody does.
func TestG3_LockLease(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		s, other := c.session(0, coord.WithTTL(20*ttl)), c.session(1, coord.WithTTL(20*ttl))
		held := c.lock(s, "x", coord.WithLockTTL(2*ttl))
		plain := c.lock(s, "y")
		next := c.queues(ctx, other, "x", coord.WithLockTTL(2*ttl))
		for range 5 {
			time.Sleep(ttl)
			if err := held.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if left := held.Remaining(); left < 3*ttl/2 || left > 2*ttl {
			t.Errorf("%v left after a refresh", left)
		}
		c.waits("while it is refreshed", next)
		refreshed := time.Now()
		select {
		case <-held.Lost():
		case <-next:
			t.Fatal("granted to the next while the holder may act")
		}
		if err := held.Check(); !errors.Is(err, coord.ErrLockExpired) || s.Err() != nil || plain.Check() != nil {
			t.Errorf("Check %v, session %v, another lock %v", err, s.Err(), plain.Check())
		}
		got := c.granted(next)
		if d := time.Since(refreshed); d > 3*ttl {
			t.Errorf("handed on %v after the last refresh", d)
		}
		if left := got.Remaining(); left < ttl {
			t.Errorf("the next has %v left of its lease: it counts from its refresh, not from its call", left)
		}
		for what, err := range map[string]error{"refresh": held.Refresh(ctx), "unlock": held.Unlock(ctx)} {
			if !errors.Is(err, coord.ErrLockExpired) && !errors.Is(err, coord.ErrNotHeld) {
				t.Errorf("%s of a lost lock: %v", what, err)
			}
		}
		if err := plain.Refresh(ctx); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("refresh of a lock without a lease: %v", err)
		}
		if got.Check() != nil {
			t.Errorf("the next lost it: %v", got.Check())
		}
	})
}

// A new leader gives the lease of a lock its full length anew.
func TestG3_LockLeaseOverALeaderChange(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		holder := c.others(leader)[0]
		s := c.session(holder, coord.WithTTL(20*ttl))
		held := c.lock(s, "x", coord.WithLockTTL(4*ttl))
		next := c.queues(c.within(time.Minute), c.session(c.others(leader)[1], coord.WithTTL(20*ttl)), "x")
		time.Sleep(ttl)
		c.kill(leader)
		select {
		case <-held.Lost():
		case <-next:
			t.Fatal("granted to the next while the holder may act")
		}
		if !errors.Is(held.Check(), coord.ErrLockExpired) {
			t.Errorf("Check: %v", held.Check())
		}
		c.granted(next)
	})
}

// What was lost with a delay is nobody's for so long; what was unlocked is free at once.
func TestLockDelay(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(2 * time.Minute)
		holder := c.others(c.leader())[0]
		s, other := c.session(holder), c.session(c.leader(), coord.WithTTL(20*ttl))
		unlocked := c.lock(s, "x", coord.WithLockDelay(5*ttl))
		c.unlock(unlocked)
		c.unlock(c.lock(other, "x"))
		lost := c.lock(s, "x", coord.WithLockDelay(5*ttl))
		c.isolate(holder)
		<-lost.Lost()
		for {
			info, err := c.node(c.leader()).Lookup(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			if info.Freeing {
				break
			}
			time.Sleep(ttl / 10)
		}
		began := time.Now()
		if _, err := other.TryLock(ctx, "x"); !errors.Is(err, coord.ErrLocked) {
			t.Errorf("TryLock during the delay: %v", err)
		}
		c.lock(other, "x")
		if d := time.Since(began); d < 9*ttl/2 || d > 6*ttl {
			t.Errorf("kept back for %v, want 5 s", d)
		}
	})
}

// The holder of a revoked grant stops first, then the next is granted; with Force, at once.
func TestG3_Revoke(t *testing.T) {
	for name, away := range map[string]bool{"its process is told": false, "its process is cut off": true} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, c *cell) {
				ctx := c.within(time.Minute)
				leader := c.leader()
				holder := c.others(leader)[0]
				s, other := c.session(holder, coord.WithTTL(4*ttl)), c.session(leader, coord.WithTTL(20*ttl))
				held, kept := c.lock(s, "x"), c.lock(s, "y")
				next := c.queues(ctx, other, "x")
				if away {
					c.isolate(holder)
				}
				if err := c.node(leader).Revoke(ctx, "x", held.Token()); err != nil {
					t.Fatal(err)
				}
				marked := time.Now()
				select {
				case <-held.Lost():
				case <-next:
					t.Fatal("granted to the next while the holder may act")
				}
				c.granted(next)
				if held.Check() == nil {
					t.Error("the holder may act")
				}
				if d := time.Since(marked); d > 6*ttl || away && d < 2*ttl {
					t.Errorf("handed on after %v", d)
				}
				if !away && (!errors.Is(held.Err(), coord.ErrRevoked) || kept.Check() != nil) {
					t.Errorf("Err %v; another lock %v", held.Err(), kept.Check())
				}
				if err := c.node(leader).Revoke(ctx, "x", held.Token()); !errors.Is(err, coord.ErrNotHeld) {
					t.Errorf("with an old token: %v", err)
				}
			})
		})
	}
}

func TestRevokeWithForce(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		s, other := c.session(0, coord.WithTTL(20*ttl)), c.session(1, coord.WithTTL(20*ttl))
		held := c.lock(s, "x")
		next := c.queues(ctx, other, "x")
		began := time.Now()
		if err := c.node(2).Revoke(ctx, "x", held.Token(), coord.Force()); err != nil {
			t.Fatal(err)
		}
		if got := c.granted(next); got.Token() <= held.Token() || time.Since(began) > ttl/2 {
			t.Errorf("token %v after %v, took %v", got.Token(), held.Token(), time.Since(began))
		}
		if err := c.node(2).ExpireSession(ctx, other.ID(), coord.Force()); err != nil {
			t.Fatal(err)
		}
		c.lock(s, "x")
		if err := c.node(2).ExpireSession(ctx, 1<<60); !errors.Is(err, coord.ErrSessionExpired) {
			t.Errorf("an unknown session: %v", err)
		}
	})
}

// A session that is expired by somebody stops first, then what it held goes to the next.
func TestG3_ExpireSession(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		s, other := c.session(0, coord.WithTTL(4*ttl)), c.session(1, coord.WithTTL(20*ttl))
		held := c.lock(s, "x")
		next := c.queues(ctx, other, "x")
		if err := c.node(2).ExpireSession(ctx, s.ID()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-held.Lost():
		case <-next:
			t.Fatal("granted to the next while the holder may act")
		}
		<-s.Done()
		if !errors.Is(held.Err(), coord.ErrSessionExpired) {
			t.Errorf("Err %v", held.Err())
		}
		c.granted(next)
	})
}

// A leadership is handed to the candidate that is named, past those that wait longer, and to nobody else.
func TestG1_HandOver(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		a, b, d := c.session(0, coord.WithTTL(20*ttl)), c.session(1, coord.WithTTL(20*ttl)), c.session(2, coord.WithTTL(20*ttl))
		leads, err := a.Campaign(ctx, "x", []byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		first, second := c.queues(ctx, b, "x"), c.queues(ctx, d, "x")
		if err := leads.HandOver(ctx, a.ID()); !errors.Is(err, coord.ErrInvalid) || leads.Check() != nil {
			t.Errorf("to a stranger: %v; leads: %v", err, leads.Check())
		}
		if err := leads.HandOver(ctx, d.ID()); err != nil {
			t.Fatal(err)
		}
		if leads.Check() == nil || !errors.Is(leads.Proclaim(ctx, nil), coord.ErrUnlocked) {
			t.Errorf("the former leader: %v", leads.Check())
		}
		got := c.granted(second)
		if got.Token() <= leads.Epoch() {
			t.Errorf("epoch %v after %v", got.Token(), leads.Epoch())
		}
		c.waits("those that were passed", first)
		c.unlock(got)
		c.unlock(c.granted(first))
	})
}
