package coord_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord"
)

func TestG1_OneHolder_WaitersInOrder(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		last := c.lock(c.session(0), "x")
		var queue []<-chan grant
		var sessions []*coord.Session
		for i := range 6 {
			s := c.session(i % 3)
			sessions = append(sessions, s)
			queue = append(queue, c.acquire(c.within(time.Minute), s, "x"))
			time.Sleep(100 * time.Millisecond) // they queue in this order
		}
		for i := range queue {
			if err := last.Unlock(c.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
			g := <-queue[i]
			if g.err != nil {
				t.Fatal(g.err)
			}
			info, err := c.nodes[i%3].Lookup(c.within(time.Minute), "x")
			if err != nil {
				t.Fatal(err)
			}
			if len(info.Holders) != 1 || info.Holders[0].Token != g.lock.Token() || len(info.Queue) != len(queue)-1-i {
				t.Errorf("after hand-over %d: %v", i, info)
			}
			if info.Holders[0].Session != sessions[i].ID() {
				t.Errorf("hand-over %d: out of order", i)
			}
			if g.lock.Token() <= last.Token() {
				t.Errorf("token %v after %v", g.lock.Token(), last.Token())
			}
			last = g.lock
		}
	})
}

func TestG1_G2_OneHolderAndRisingTokens(t *testing.T) {
	disturbances := map[string]func(c *cell){
		"transfers": func(c *cell) {
			for i := range 6 {
				if err := c.nodes[c.leader()].TransferLeadership(c.within(10*time.Second), c.nodes[i%3].ID()); err != nil && i%3 != c.leader() {
					c.t.Error(err)
				}
				time.Sleep(time.Second)
			}
		},
		"the leader is killed": func(c *cell) {
			for range 3 {
				leader := c.leader()
				c.kill(leader)
				time.Sleep(2 * time.Second)
				c.start(leader)
				time.Sleep(2 * time.Second)
			}
		},
		"the leader is cut off": func(c *cell) {
			for range 3 {
				c.isolate(c.leader())
				time.Sleep(3 * time.Second)
				c.lab.HealAll()
				time.Sleep(2 * time.Second)
			}
		},
		"all are killed": func(c *cell) {
			for range 2 {
				c.killAll()
				c.startAll()
				time.Sleep(5 * time.Second)
			}
		},
		"all come back elsewhere": func(c *cell) {
			for range 2 {
				c.killAll()
				c.move()
				c.startAll()
				time.Sleep(5 * time.Second)
			}
		},
	}
	for name, disturb := range disturbances {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, c *cell) {
				r := &referee{t: t}
				stop := c.contenders(r, "x", 2)
				time.Sleep(2 * time.Second)
				before := r.count()
				disturb(c)
				after := r.count()
				time.Sleep(5 * time.Second)
				stop()
				if before < 10 || r.count() < after+10 {
					t.Errorf("grants: %d before, %d until the end of the disturbance, %d in all: no progress", before, after, r.count())
				}
				r.verdict()
			})
		})
	}
}

// Whenever the end of ctx meets the grant: an error means that nothing is held, and the lock is free for the next.
func TestG6_CancelAgainstGrant(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		holder, other := c.session(c.leader()), c.session(0)
		handed, cancelled := 0, 0
		for i := range 120 {
			late := time.Duration(i%30) * 200 * time.Microsecond
			held := c.lock(holder, "x")
			var opts []coord.LockOption
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			waiter := c.session(i % 3)
			if i%2 == 0 {
				opts = append(opts, coord.WithMaxWait(100*time.Millisecond))
			} else {
				time.AfterFunc(100*time.Millisecond, cancel)
			}
			got := c.acquire(ctx, waiter, "x", opts...)
			time.Sleep(97*time.Millisecond + late)
			if err := held.Unlock(c.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
			g := <-got
			cancel()
			switch {
			case g.err == nil:
				handed++
				if err := g.lock.Check(); err != nil {
					t.Errorf("granted, but %v", err)
				}
				if err := g.lock.Unlock(c.within(time.Minute)); err != nil {
					t.Errorf("granted, but unlock: %v", err)
				}
			case i%2 == 0 && errors.Is(g.err, coord.ErrLocked), i%2 == 1 && errors.Is(g.err, context.Canceled):
				cancelled++
			default:
				t.Error(g.err)
			}
			next, err := other.Lock(c.within(500*time.Millisecond), "x")
			if err != nil {
				info, _ := c.nodes[0].Lookup(c.within(time.Second), "x")
				t.Fatalf("after %v late (%v): %v; %v", late, g.err, err, info)
			}
			if err := next.Unlock(c.within(time.Minute)); err != nil {
				t.Error(err)
			}
			if err := waiter.Close(c.within(time.Minute)); err != nil {
				t.Error(err)
			}
		}
		if handed == 0 || cancelled == 0 {
			t.Errorf("%d were handed on, %d cancelled: the race was not met", handed, cancelled)
		}
		synctest.Wait()
	})
}
