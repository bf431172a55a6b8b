package coord_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// The holder stops, and stays stopped, before the cell gives the lock to another, whatever is broken between them.
func TestG3_StopBeforeTheNextStarts(t *testing.T) {
	for name, cut := range map[string]func(c *cell, holder int){
		"the holder's server is isolated": func(c *cell, holder int) { c.isolate(holder) },
		"it hears nobody": func(c *cell, holder int) {
			for _, i := range c.others(holder) {
				c.lab.CutOneWay(c.addr(i), c.addr(holder))
			}
		},
		"nobody hears it": func(c *cell, holder int) {
			for _, i := range c.others(holder) {
				c.lab.CutOneWay(c.addr(holder), c.addr(i))
			}
		},
		"replies to it are slow": func(c *cell, holder int) {
			for _, i := range c.others(holder) {
				c.lab.SetDelay(c.addr(i), c.addr(holder), 3*ttl)
			}
		},
		"replies to it are slow, and then nobody hears it": func(c *cell, holder int) {
			for _, i := range c.others(holder) {
				c.lab.SetDelay(c.addr(i), c.addr(holder), ttl/5)
			}
			time.Sleep(2 * ttl)
			for _, i := range c.others(holder) {
				c.lab.CutOneWay(c.addr(holder), c.addr(i))
			}
		},
		"it is paused": func(c *cell, holder int) { c.lab.Pause(c.addr(holder)) },
	} {
		for _, leads := range []bool{true, false} {
			role := map[bool]string{true: ", and leads", false: ", and follows"}[leads]
			t.Run(name+role, func(t *testing.T) {
				inCell(t, 3, func(t *testing.T, c *cell) {
					holder := c.leader()
					if !leads {
						holder = c.others(holder)[0]
					}
					c.stopsBeforeTheNext(holder, func() { cut(c, holder) })
				})
			})
		}
	}
}

// stopsBeforeTheNext locks on one server, breaks it, and sees the lock change hands and the holder stay stopped.
func (c *cell) stopsBeforeTheNext(holder int, breakIt func()) {
	t := c.t
	t.Helper()
	held := c.lock(c.session(holder), "x")
	got := c.acquire(c.within(time.Minute), c.session(c.others(holder)[0], coord.WithTTL(10*ttl)), "x")
	time.Sleep(ttl)
	breakIt()
	broken := time.Now()
	var next grant
	select {
	case <-held.Lost():
		if d := time.Since(broken); d > ttl {
			t.Errorf("lost after %v", d)
		}
		next = <-got
	case next = <-got:
		if held.Check() == nil {
			t.Fatalf("granted while the former holder may act: %v", next.err)
		}
	}
	if err := held.Check(); !errors.Is(err, coord.ErrSessionExpired) {
		t.Errorf("Check: %v", err)
	}
	if next.err != nil {
		t.Fatal(next.err)
	}
	if d := time.Since(broken); d > 2*ttl+time.Second+10*election {
		t.Errorf("replaced after %v", d)
	}
	if next.lock.Token() <= held.Token() {
		t.Errorf("token %v after %v", next.lock.Token(), held.Token())
	}
	c.lab.Resume(c.addr(holder))
	c.lab.HealAll()
	for range 100 {
		time.Sleep(50 * time.Millisecond)
		if err := held.Check(); !errors.Is(err, coord.ErrSessionExpired) {
			t.Fatalf("revived: %v", err)
		}
	}
	if err := next.lock.Check(); err != nil {
		t.Errorf("the new holder: %v", err)
	}
}

// With clocks that err by less than 0.1 % nobody is granted what another believes to hold. The TTL is long enough for
// the error to be more than the cell's own delays. With clocks far beyond that the same test sees two holders: it can.
func TestG3_RatesOfClocks(t *testing.T) {
	for _, test := range []struct {
		name            string
		ttl             time.Duration
		holder, servers float64
		broken          bool
	}{
		{"0.1 % apart each way", 2 * time.Minute, 0.999, 1.001, false},
		{"the holder's is 20 % slow", 10 * time.Second, 0.8, 1, true},
		{"the servers' are 20 % fast", 10 * time.Second, 1, 1.2, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, c *cell) {
				holder := c.others(c.leader())[0]
				c.lab.SetClockRate(c.addr(holder), test.holder)
				for _, i := range c.others(holder) {
					c.lab.SetClockRate(c.addr(i), test.servers)
				}
				held := c.lock(c.session(holder, coord.WithTTL(test.ttl)), "x")
				got := c.acquire(c.within(time.Hour), c.session(c.others(holder)[0]), "x")
				time.Sleep(time.Second)
				c.isolate(holder)
				g := <-got
				if g.err != nil {
					t.Fatal(g.err)
				}
				if both := held.Check() == nil && g.lock.Check() == nil; both != test.broken {
					t.Errorf("both may act: %v", both)
				}
			})
		})
	}
}

// A grant that was on its way to a session that has ended meanwhile is not handed out.
func TestG3_GrantThatComesTooLate(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		waiting := c.others(leader)[0]
		held := c.lock(c.session(leader), "x")
		s := c.session(waiting)
		got := c.acquire(c.within(time.Minute), s, "x")
		time.Sleep(ttl)
		c.lab.SetDelay(c.addr(leader), c.addr(waiting), 2*ttl)
		if err := held.Unlock(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if g := <-got; !errors.Is(g.err, coord.ErrSessionExpired) || s.Err() == nil {
			t.Fatalf("%v, %v", g.lock, g.err)
		}
		c.lab.HealAll()
		c.lock(c.session(leader), "x") // it is not stuck with the dead one
	})
}

// Whatever is lost, killed or handed on, each increment whose success was reported counts once, and each whose outcome
// is unknown at most once.
func TestG7_IncrementsUnderFaults(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		if _, err := c.nodes[0].Put(c.within(time.Minute), "n", []byte{0, 0}); err != nil {
			t.Fatal(err)
		}
		counter := &counter{c: c}
		stop := counter.run(3)
		for i := range 40 {
			time.Sleep(100 * time.Millisecond)
			switch leader := c.leader(); i % 4 {
			case 3:
				c.kill(leader)
				time.Sleep(2 * election)
				c.start(leader)
			case 2:
				if err := c.nodes[leader].TransferLeadership(c.within(10*time.Second), ""); err != nil {
					t.Error(err)
				}
			default:
				c.lab.LoseReplies(c.addr(0), c.addr(1), c.addr(2))
			}
		}
		time.Sleep(5 * time.Second)
		stop()
		kv, err := c.nodes[c.leader()].Get(c.within(time.Minute), "n")
		if err != nil {
			t.Fatal(err)
		}
		n := number(kv.Value)
		if n < counter.done || n > counter.done+counter.unknown {
			t.Errorf("%d after %d increments and %d of unknown outcome", n, counter.done, counter.unknown)
		}
		if counter.done < 100 {
			t.Errorf("%d increments: no progress", counter.done)
		}
		if counter.unknown == 0 {
			t.Error("no increment of unknown outcome: the faults did not meet one")
		}
	})
}

// The leader is killed at some moment between the arrival of a change and its reply. The change is repeated at the next
// leader, and is done once: a second time it would find its own traces.
func TestG7_LeaderKilledBeforeItsReply(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		for i := range 12 {
			leader := c.leader()
			n := c.nodes[c.others(leader)[0]]
			s := c.session(c.others(leader)[0], coord.WithTTL(10*time.Second))
			key := fmt.Sprint("k", i)
			put, try := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := n.Put(c.within(time.Minute), key, nil, coord.IfAbsent())
				put <- err
			}()
			go func() {
				_, err := s.TryLock(c.within(time.Minute), key)
				try <- err
			}()
			time.Sleep(time.Duration(i) * 500 * time.Microsecond)
			c.kill(leader)
			if err := <-put; err != nil {
				t.Errorf("put, %d: %v", i, err)
			}
			if err := <-try; err != nil {
				t.Errorf("lock, %d: %v", i, err)
			}
			c.start(leader)
			c.ready()
		}
	})
}

// An Unlock whose reply was lost is repeated, by then to a cell where others hold the lock.
func TestG7_UnlockRepeatedLate(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		far := c.others(leader)[0]
		mine, others := c.session(far), c.session(leader)
		for range 20 {
			held := c.lock(mine, "x")
			got := c.acquire(c.within(time.Minute), others, "x")
			time.Sleep(10 * time.Millisecond)
			c.lab.LoseReplies(c.addr(leader))
			if err := held.Unlock(c.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
			next := <-got
			if next.err != nil {
				t.Fatal(next.err)
			}
			info, err := c.nodes[far].Lookup(c.within(time.Minute), "x")
			if err != nil || len(info.Holders) != 1 || info.Holders[0].Token != next.lock.Token() {
				t.Fatalf("%v, %v", info, err)
			}
			if err := next.lock.Unlock(c.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
