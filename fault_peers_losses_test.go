package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// What users of other systems ran into: the lock or the leadership is lost, and its holder is told late or never, or
// told without it being so. docs/FAULTS.md has the table, with links.

// Saw: packets vanish without any error, and the holder does not notice for minutes that the lock is somebody else's.
// Here: silence is enough. The holder's own deadline closes Lost before the cell may hand the lock on.
func TestFault_consul18271_Blackhole(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		const long = 3 * time.Second
		far := c.others(c.leader())[0]
		held := c.lock(c.session(far, coord.WithTTL(long)), "x")
		next := c.acquire(c.within(time.Minute), c.session(c.leader()), "x")
		time.Sleep(long)
		left := held.Remaining()
		c.isolate(far)
		cut := time.Now()
		<-held.Lost()
		told := time.Since(cut)
		if told > left || left > long-30*time.Millisecond {
			t.Errorf("told after %v, with %v remaining of a TTL of %v and a margin of 1 %%", told, left, long)
		}
		g := <-next
		if d := time.Since(cut); g.err != nil || d < told || d < long*2/3 {
			t.Errorf("the next got it after %v: %v", d, g.err)
		}
		time.Sleep(3 * long)
		lost(t, held, coord.ErrSessionExpired)
	})
}

// Saw: the holder and the server that it talks to are in a minority; what it runs goes on for up to five minutes.
// Here: an answer of a server without a majority behind it renews nothing.
func TestFault_consul1843_HolderInAMinority(t *testing.T) {
	inCell(t, 5, func(t *testing.T, c *cell) {
		leader := c.leader() // it is on the small side too, and reachable
		holder := c.others(leader)[0]
		rest := slices.DeleteFunc(c.others(holder), func(i int) bool { return i == leader })
		held, own := c.lock(c.session(holder), "x"), c.lock(c.session(leader), "y")
		next := c.session(rest[0], coord.WithTTL(time.Minute))
		time.Sleep(ttl)
		c.lab.Partition(c.addrs(leader, holder), c.addrs(rest...))
		cut := time.Now()
		for _, l := range []*coord.Lock{held, own} {
			<-l.Lost()
		}
		if d := time.Since(cut); d > ttl {
			t.Errorf("told after %v", d)
		}
		for _, l := range []*coord.Lock{held, own} {
			g := c.lock(next, l.Name())
			if g.Token() <= l.Token() || l.Check() == nil {
				t.Errorf("%s: token %v after %v, %v", l.Name(), g.Token(), l.Token(), l.Check())
			}
		}
	})
}

// Saw: no way to know that this lock, of several of a session, is held no longer.
// Here: each grant has a channel and a context of its own.
func TestFault_etcd6127_SignalOfEachLock(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		s := c.session(0)
		one, two := c.lock(s, "one"), c.lock(s, "two")
		c.unlock(one)
		lost(t, one, coord.ErrUnlocked)
		select {
		case <-two.Lost():
			t.Error("the other one is told as well")
		default:
		}
		if two.Context().Err() != nil || two.Check() != nil || s.Err() != nil {
			t.Errorf("the other one: %v, %v", two.Check(), s.Err())
		}
		c.kill(0)
		<-two.Lost()
		<-two.Context().Done()
	})
}

// Saw: a listener hears that a lock was lost, not why; or renewal fails and nobody hears.
// Here: whatever ends it, the context's cause, Err and Check say the same.
func TestFault_redisson3854_LossesHaveACause(t *testing.T) {
	for name, tc := range map[string]struct {
		end   func(c *cell, l *coord.Lock, far int)
		cause error
	}{
		"unlocked":        {func(c *cell, l *coord.Lock, _ int) { _ = l.Unlock(c.within(time.Minute)) }, coord.ErrUnlocked},
		"session closed":  {func(c *cell, l *coord.Lock, _ int) { _ = l.Session().Close(c.within(time.Minute)) }, coord.ErrSessionClosed},
		"session expired": {func(c *cell, _ *coord.Lock, far int) { c.isolate(far) }, coord.ErrSessionExpired},
		"cell is gone": {func(c *cell, _ *coord.Lock, far int) {
			for _, i := range c.others(far) {
				c.kill(i)
			}
		}, coord.ErrSessionExpired},
		"node closed":    {func(c *cell, _ *coord.Lock, far int) { _ = c.nodes[far].Close() }, coord.ErrClosed},
		"node shut down": {func(c *cell, _ *coord.Lock, far int) { _ = c.nodes[far].Shutdown(c.within(time.Minute)) }, coord.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, c *cell) {
				far := c.others(c.leader())[0]
				l := c.lock(c.session(far), "x")
				began := time.Now()
				tc.end(c, l, far)
				<-l.Context().Done()
				if d := time.Since(began); d > ttl {
					t.Errorf("told after %v", d)
				}
				lost(t, l, tc.cause)
			})
		})
	}
}

// Saw: the loop that keeps the session alive hangs in a call, or stops; the channel that should tell is never closed.
// Here: the deadline does not depend on the loop, and the loop comes back for the next session.
func TestFault_etcd5571_KeepAliveHangs(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		far := c.others(leader)[0]
		for range 3 {
			s := c.session(far)
			l := c.lock(s, "x")
			time.Sleep(ttl)
			c.lab.CutOneWay(c.addr(leader), c.addr(far)) // calls leave, and are neither answered nor refused
			cut := time.Now()
			<-s.Done()
			if d := time.Since(cut); d > ttl || l.Check() == nil {
				t.Errorf("told after %v: %v", d, l.Check())
			}
			c.lab.HealAll()
			again := c.session(far)
			time.Sleep(5 * ttl)
			if err := again.Err(); err != nil {
				t.Errorf("the next session is not renewed: %v", err)
			}
			if err := again.Close(c.within(time.Minute)); err != nil {
				t.Error(err)
			}
			leader = c.leader()
			if leader == far {
				far = c.others(leader)[0]
			}
		}
	})
}

// Saw: sessions end although their owners live and renew, each time when the leader changes.
// Here: leaders die one after the other, and no session on a server that lives is lost.
func TestFault_etcd8181_LeadersDie(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		const long = 10 * election
		const keeper = 2
		var held []*coord.Lock
		for i := range 10 {
			held = append(held, c.lock(c.session(keeper, coord.WithTTL(long)), fmt.Sprint(i)))
		}
		for i := range 20 {
			leader := c.leader()
			if leader == keeper {
				if err := c.nodes[keeper].TransferLeadership(c.within(10*time.Second), c.nodes[i%2].ID()); err != nil {
					t.Fatal(err)
				}
				leader = c.leader()
			}
			c.kill(leader)
			time.Sleep(time.Duration(i) * long / 20)
			c.start(leader)
			c.ready()
			time.Sleep(long / 2) // each renews before the next one dies
			for _, l := range held {
				if err := l.Check(); err != nil {
					t.Fatalf("after %d leaders: lock %s: %v", i+1, l.Name(), err)
				}
			}
		}
		for _, l := range held {
			if c.holder(keeper, l.Name()) != l.Token() {
				t.Errorf("lock %s is another's for the cell", l.Name())
			}
		}
	})
}

// Saw: the store's own leader fails, and the application's leader goes on or stops without anybody agreeing.
// Here: the two have nothing to do with each other: one that lives leads on with the same epoch, one that died with the
// cell's leader is replaced.
func TestFault_curator68_StoreLeaderFails(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		cellLeader := c.leader()
		app, other := c.others(cellLeader)[0], c.others(cellLeader)[1]
		one := c.elect(c.session(app, coord.WithTTL(10*election)), "boss", "one")
		c.kill(cellLeader)
		time.Sleep(20 * election)
		for _, i := range []int{app, other} {
			l, err := c.nodes[i].Leader(c.within(time.Minute), "boss")
			if err != nil || l.Epoch != one.Epoch() || one.Check() != nil {
				t.Errorf("server %d: epoch %v, want %v: %v, %v", i, l.Epoch, one.Epoch(), err, one.Check())
			}
		}
		c.start(cellLeader)
		c.ready()
		if err := one.Resign(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		both := c.leader() // now one process leads the cell and the application
		two := c.elect(c.session(both), "boss", "two")
		got := make(chan *coord.Leadership, 1)
		s := c.session(c.others(both)[0], coord.WithTTL(time.Minute))
		go func() { got <- c.elect(s, "boss", "three") }()
		time.Sleep(ttl)
		c.isolate(both)
		cut := time.Now()
		three := <-got
		if d := time.Since(cut); three.Epoch() <= two.Epoch() || two.Check() == nil || d > 2*ttl+time.Second+4*election {
			t.Errorf("after %v: epoch %v after %v; the former: %v", d, three.Epoch(), two.Epoch(), two.Check())
		}
	})
}

// Saw: an election client that could not be stopped while it waited, that stopped for good after one update that failed,
// and that said "lost" without ever having led.
// Here: Campaign ends with its context, a Proclaim that fails changes nothing, and nothing is lost that was not held.
func TestFault_kubernetes118790_CampaignCanBeStopped(t *testing.T) {
	released := make(chan coord.ReleaseInfo, 10)
	tune := func(_ int, cfg *coord.Config) {
		cfg.Hooks.Released = func(r coord.ReleaseInfo) { released <- r }
	}
	inTunedCell(t, 3, tune, func(t *testing.T, c *cell) {
		far := c.others(c.leader())[0]
		first := c.elect(c.session(c.leader(), coord.WithTTL(time.Minute)), "boss", "one")
		s := c.session(far, coord.WithTTL(time.Minute))
		for _, cut := range []bool{false, true} {
			if cut {
				c.isolate(far)
			}
			began := time.Now()
			if _, err := s.Campaign(c.within(ttl), "boss", nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Campaign: %v", err)
			}
			if d := time.Since(began); d != ttl {
				t.Errorf("stopped after %v", d)
			}
		}
		c.lab.HealAll()
		time.Sleep(ttl)
		if n := len(released); n > 0 {
			t.Errorf("%d times something was lost that nobody held: %+v", n, <-released)
		}
		if err := first.Resign(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		second := c.elect(s, "boss", "two")
		c.isolate(far)
		if err := second.Proclaim(c.within(ttl), []byte("three")); err == nil {
			t.Error("Proclaim without a cell succeeded")
		}
		c.lab.HealAll()
		c.ready()
		if err := second.Proclaim(c.within(time.Minute), []byte("four")); err != nil || second.Check() != nil {
			t.Errorf("after an update that failed: %v, %v", err, second.Check())
		}
		c.leaderIs("boss", "four", second.Epoch())
	})
}

// Saw: the library ends the process when leadership is lost, and users want to carry on; or the work goes on beside the
// next leader's.
// Here: lost and won again, 50 times in one process; the work has ended before Do returns, and never overlaps.
func TestFault_kuma11123_LostAndWonAgain(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		working, terms, lost := 0, 0, 0
		for i := range 50 {
			s := c.session(i % 2)
			err := s.Do(t.Context(), "boss", func(ctx context.Context, l *coord.Lock) error {
				working++
				defer func() { working-- }()
				if working != 1 {
					t.Error("two work at once")
				}
				terms++
				switch {
				case i%5 == 0:
					c.isolate(i % 2)
				case i%2 == 0:
					time.AfterFunc(ttl/10, func() { _ = s.Close(context.Background()) })
				default:
					return nil
				}
				<-ctx.Done()
				time.Sleep(ttl / 10) // it takes a while to stop
				return context.Cause(ctx)
			})
			if errors.Is(err, coord.ErrSessionExpired) || errors.Is(err, coord.ErrSessionClosed) {
				lost++
			} else if err != nil {
				t.Errorf("term %d: %v", i, err)
			}
			c.lab.HealAll()
			c.ready()
		}
		if terms != 50 || lost != 30 || working != 0 {
			t.Errorf("%d terms, %d of them lost, %d still at work", terms, lost, working)
		}
	})
}
