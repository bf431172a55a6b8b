package coord_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

func TestSessionLifeAndEnd(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		s := c.session(1, coord.WithLabel("worker"))
		held := c.lock(s, "x", coord.WithData([]byte("d")))
		waiting := c.acquire(c.within(time.Minute), s, "x")
		if s.State() != coord.SessionLive || s.Err() != nil || s.Context().Err() != nil || s.TTL() != ttl {
			t.Errorf("a new session: %v, %v", s.State(), s.Err())
		}
		if left := s.Remaining(); left <= 0 || left >= ttl {
			t.Errorf("%v remaining", left)
		}
		info, err := c.nodes[2].Lookup(c.within(time.Minute), "x")
		if err != nil || len(info.Holders) != 1 || info.Holders[0].Label != "worker" || string(info.Holders[0].Data) != "d" {
			t.Errorf("%v, %v", info, err)
		}
		if err := s.Close(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		ended(t, s, coord.ErrSessionClosed)
		lost(t, held, coord.ErrSessionClosed)
		if g := <-waiting; !errors.Is(g.err, coord.ErrSessionClosed) {
			t.Errorf("a waiter of a closed session: %v", g.err)
		}
		if err := held.Unlock(c.within(time.Minute)); !errors.Is(err, coord.ErrNotHeld) {
			t.Errorf("unlock after the session's end: %v", err)
		}
		if _, err := s.Lock(c.within(time.Minute), "y"); !errors.Is(err, coord.ErrSessionClosed) {
			t.Errorf("lock after the session's end: %v", err)
		}
		if err := s.Close(c.within(time.Minute)); err != nil {
			t.Errorf("second Close: %v", err)
		}
		other := c.session(0)
		next, err := other.TryLock(c.within(time.Minute), "x") // at once
		if err != nil {
			t.Fatal(err)
		}
		c.isolate(0)
		<-other.Done()
		ended(t, other, coord.ErrSessionExpired)
		lost(t, next, coord.ErrSessionExpired)
	})
}

// ended checks that everything says that a session is over, and why.
func ended(t *testing.T, s *coord.Session, why error) {
	t.Helper()
	select {
	case <-s.Done():
	default:
		t.Error("Done is open")
	}
	if err := s.Err(); !errors.Is(err, why) {
		t.Errorf("Err: %v", err)
	}
	if err := context.Cause(s.Context()); !errors.Is(err, why) {
		t.Errorf("Context: %v", err)
	}
	if s.State() != coord.SessionEnded || s.Remaining() > 0 {
		t.Errorf("%v, %v remaining", s.State(), s.Remaining())
	}
}

// lost checks that everything says that a lock is held no longer, and why.
func lost(t *testing.T, l *coord.Lock, why error) {
	t.Helper()
	select {
	case <-l.Lost():
	default:
		t.Error("Lost is open")
	}
	if err := l.Check(); !errors.Is(err, why) {
		t.Errorf("Check: %v", err)
	}
	if err := l.Err(); !errors.Is(err, why) {
		t.Errorf("Err: %v", err)
	}
	if err := context.Cause(l.Context()); !errors.Is(err, why) {
		t.Errorf("Context: %v", err)
	}
	if l.Remaining() > 0 {
		t.Errorf("%v remaining", l.Remaining())
	}
}

// A Close that cannot be told to anybody stops the holder all the same, and the cell frees what it held.
func TestSessionCloseWithoutALeader(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		s, gone := c.session(0), c.session(0)
		held, kept := c.lock(s, "x"), c.lock(gone, "y")
		c.isolate(0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Close: %v", err)
		}
		lost(t, held, coord.ErrSessionClosed)
		if err := gone.Close(c.within(time.Minute)); err != nil { // it waits until the cell must have ended it
			t.Errorf("Close: %v", err)
		}
		lost(t, kept, coord.ErrSessionClosed)
		other := c.session(1)
		c.lock(other, "x")
		c.lock(other, "y")
		c.lab.HealAll()
		if err := s.Close(c.within(time.Minute)); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

// Sessions that can be renewed live on, and hold what they hold, whatever the cell goes through.
func TestG8_RenewedIsNotExpired(t *testing.T) {
	// A leader that dies takes along the sessions of its own process; those of others must find the next one in time.
	for name, disturb := range map[string]func(c *cell, leader, other int){
		"transfer": func(c *cell, leader, other int) {
			if err := c.nodes[leader].TransferLeadership(c.within(10*time.Second), c.nodes[other].ID()); err != nil {
				c.t.Error(err)
			}
		},
		"kill": func(c *cell, leader, other int) {
			c.kill(leader)
			time.Sleep(3 * ttl)
			c.start(leader)
		},
		"pause of the leader": func(c *cell, leader, other int) {
			c.lab.Pause(c.addr(leader))
			time.Sleep(ttl / 2)
			c.lab.Resume(c.addr(leader))
		},
		"isolated follower": func(c *cell, leader, other int) {
			c.isolate(other)
			time.Sleep(ttl / 2)
			c.lab.HealAll()
		},
		"lost replies": func(c *cell, leader, other int) {
			for range 20 {
				c.lab.LoseReplies(c.addr(leader))
				time.Sleep(50 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, c *cell) {
				var sessions []*coord.Session
				var held []*coord.Lock
				for i := range 9 {
					s := c.session(i%3, coord.WithTTL(2*ttl))
					sessions = append(sessions, s)
					held = append(held, c.lock(s, fmt.Sprint(i)))
					time.Sleep(70 * time.Millisecond)
				}
				for range 4 {
					leader := c.leader()
					disturb(c, leader, c.others(leader)[0])
					time.Sleep(3 * ttl)
					for i := range held {
						if err := held[i].Check(); err != nil && !(name == "kill" && errors.Is(err, coord.ErrClosed)) {
							t.Fatalf("session %d: %v", i, err)
						}
						if held[i].Err() != nil {
							sessions[i] = c.session(i%3, coord.WithTTL(2*ttl))
							held[i] = c.lock(sessions[i], fmt.Sprint(i))
						}
					}
				}
			})
		})
	}
}

// What a dead process held is free within a TTL and a second, and the election if it led; many sessions as one.
func TestG8_NotRenewedExpires(t *testing.T) {
	for _, leads := range []bool{false, true} {
		t.Run(fmt.Sprintf("leader %v", leads), func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, c *cell) {
				dead := c.leader()
				most := ttl + time.Second
				if leads {
					most += 4 * election
				} else {
					dead = c.others(dead)[0]
				}
				const sessions = 200
				var opening sync.WaitGroup
				for i := range sessions {
					opening.Go(func() { c.lock(c.session(dead), fmt.Sprint(i)) })
				}
				opening.Wait()
				time.Sleep(2 * ttl)
				next := c.session(c.others(dead)[0], coord.WithTTL(10*time.Second))
				c.kill(dead)
				died := time.Now()
				time.Sleep(ttl / 2) // the last renewal was sent less than that before
				for i := range sessions {
					c.lock(next, fmt.Sprint(i))
				}
				if d := time.Since(died); d > most {
					t.Errorf("everything was free after %v, want %v", d, most)
				}
				if n := c.node(c.others(dead)[0]).Status().Sessions; n > 2 {
					t.Errorf("%d sessions are left", n)
				}
			})
		})
	}
}

// Renewing writes nothing to the log.
func TestRenewalsWriteNothing(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		for i := range 12 {
			c.session(i % 3)
		}
		time.Sleep(5 * time.Second)
		before := c.nodes[0].Status().Committed
		time.Sleep(time.Minute)
		if after := c.nodes[0].Status().Committed; after != before {
			t.Errorf("%d entries in a minute in which nothing happened", after-before)
		}
		if n := c.nodes[0].Status().Sessions; n != 12 {
			t.Errorf("%d sessions live", n)
		}
	})
}

// The errors of calls that cannot be answered say whether anything may have been done.
func TestErrorsWithoutALeader(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		far := c.others(leader)[0]
		s := c.session(far, coord.WithTTL(10*time.Second))
		held := c.lock(s, "x")
		c.isolate(far)
		_, err := s.Put(c.within(100*time.Millisecond), "k", nil) // the leader is still known: it may have arrived
		if !errors.Is(err, coord.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, coord.ErrNoLeader) {
			t.Errorf("sent and not answered: %v", err)
		}
		_, err = s.Lock(c.within(100*time.Millisecond), "z") // whatever becomes of it is withdrawn: nothing is unknown
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, coord.ErrOutcomeUnknown) {
			t.Errorf("a lock: %v", err)
		}
		time.Sleep(2 * time.Second)
		for what, call := range map[string]func(ctx context.Context) error{
			"put":         func(ctx context.Context) error { _, err := s.Put(ctx, "k", nil); return err },
			"get":         func(ctx context.Context) error { _, err := c.nodes[far].Get(ctx, "k"); return err },
			"lock":        func(ctx context.Context) error { _, err := s.Lock(ctx, "y"); return err },
			"lookup":      func(ctx context.Context) error { _, err := c.nodes[far].Lookup(ctx, "y"); return err },
			"leader":      func(ctx context.Context) error { _, err := c.nodes[far].Leader(ctx, "y"); return err },
			"new session": func(ctx context.Context) error { _, err := c.nodes[far].NewSession(ctx); return err },
		} {
			err := call(c.within(500 * time.Millisecond))
			if !errors.Is(err, coord.ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, coord.ErrOutcomeUnknown) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := held.Unlock(c.within(500 * time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("unlock: %v", err)
		}
		lost(t, held, coord.ErrUnlocked)
		put := make(chan error)
		go func() { _, err := s.Put(c.within(time.Minute), "k", nil); put <- err }()
		if err := <-put; !errors.Is(err, coord.ErrSessionExpired) || errors.Is(err, coord.ErrOutcomeUnknown) {
			t.Errorf("the session ended before anything was sent: %v", err)
		}
		c.lab.HealAll()
		c.lock(c.session(leader), "x")
	})
}

// A node that is going opens no further session, and does not try for ever.
func TestNoSessionWhileGoing(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		follower := c.others(c.leader())[0]
		n := c.nodes[follower]
		c.session(follower)
		c.lab.SetDelay(c.addr(follower), c.addr(c.leader()), 300*time.Millisecond) // saying farewell takes a while
		gone := make(chan error, 1)
		go func() { gone <- n.Shutdown(c.within(time.Minute)) }()
		time.Sleep(10 * time.Millisecond)
		if _, err := n.NewSession(c.within(time.Minute)); !errors.Is(err, coord.ErrClosed) {
			t.Errorf("NewSession: %v", err)
		}
		<-gone
		for range 20 { // of the sessions that were opened for it at most one is left, and it expires
			time.Sleep(time.Second)
		}
		if n := c.nodes[c.leader()].Status().Sessions; n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}
