package coord_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// What users of other systems ran into: starting and stopping a server inside a program, addresses, and what they asked
// for and built by hand. docs/FAULTS.md has the table, with links.

// Saw: a server comes back under its name with another address, and for most of a minute the others take it for an
// impostor.
// Here: it is known by its id, at its new address within seconds, also when it has been missed by nobody.
func TestFault_consul733_NewAddressAtOnce(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		moving := c.others(c.leader())[0]
		id := c.nodes[moving].ID()
		for round := range 3 {
			disk := c.lab.Disk(c.nodes[moving].Addr())
			if err := c.nodes[moving].Shutdown(c.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
			cfg := c.config(moving)
			cfg.Listen = fmt.Sprintf("elsewhere%d:1", round)
			c.lab.SetDisk(cfg.Listen, disk)
			n, err := coord.Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			c.nodes[moving] = n
			began := time.Now()
			c.ready()
			c.mustPut(moving, "k", fmt.Sprint(round))
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("it took %v", d)
			}
			time.Sleep(5 * time.Second)
			for i, n := range c.nodes {
				for _, m := range n.Members() {
					if !m.Alive || m.ID == id && m.Addr != cfg.Listen {
						t.Errorf("server %d sees %+v", i, m)
					}
				}
				c.voters(i, 3)
			}
		}
	})
}

// Saw: a server that is embedded hangs while it starts or closes, when the others are not there or the state is odd.
// Here: at whatever stage of forming, joining and electing it is closed, Close returns, and the next Start goes on from
// there.
func TestFault_etcd9533_ClosedAtEveryStage(t *testing.T) {
	inEmptyCell(t, 3, nil, func(t *testing.T, c *cell) {
		for i := range 40 {
			alive := 1 + i%3
			for k := range alive {
				c.start((i + k) % 3)
			}
			time.Sleep(time.Duration(i) * 17 * time.Millisecond)
			ready := make(chan error, 1)
			n := c.node(i % 3)
			go func() { ready <- n.WaitReady(context.Background()) }()
			time.Sleep(time.Millisecond)
			began := time.Now()
			var all sync.WaitGroup
			for k := range alive {
				n := c.node((i + k) % 3)
				c.nodes[(i+k)%3] = nil
				all.Go(func() { n.Close() })
			}
			all.Wait()
			if d := time.Since(began); d > time.Second {
				t.Errorf("closed after %v: it took %v", time.Duration(i)*17*time.Millisecond, d)
			}
			if err := <-ready; err != nil && !errors.Is(err, coord.ErrClosed) {
				t.Errorf("WaitReady: %v", err)
			}
		}
		c.startAll()
		c.ready()
		c.sameCell()
		c.mustPut(0, "a", "1")
	})
}

// Saw: the election does not check that the own entry is still there after it has waited; one whose session has ended
// leads.
// Here: a candidate that dies in the queue is never elected, and the next one is.
func TestFault_etcdCampaign_DeadCandidate(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		dead := c.others(leader)[0]
		first := c.elect(c.session(leader, coord.WithTTL(time.Minute)), "boss", "first")
		campaign := func(s *coord.Session, value string) <-chan error {
			got := make(chan error, 1)
			go func() {
				_, err := s.Campaign(context.Background(), "boss", []byte(value))
				got <- err
			}()
			time.Sleep(100 * time.Millisecond)
			return got
		}
		second := campaign(c.session(dead), "second")
		third := campaign(c.session(leader, coord.WithTTL(time.Minute)), "third")
		c.isolate(dead)
		time.Sleep(2*ttl + time.Second)
		if err := first.Resign(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := <-third; err != nil {
			t.Error(err)
		}
		if err := <-second; !errors.Is(err, coord.ErrSessionExpired) {
			t.Errorf("the dead one: %v", err)
		}
		c.lab.HealAll()
		c.ready()
		if l, err := c.nodes[dead].Leader(c.within(time.Minute), "boss"); err != nil || string(l.Value) != "third" {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

// Saw: users want a context that is valid while the lock is held; where there was one, it ended with the call's own, or
// with the release, and callers took the one for the other.
// Here: the lock's context outlives the call's, has its values, and its cause tells a release from a loss.
func TestFault_tusd1111_ContextOfTheLock(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		far := c.others(c.leader())[0]
		s := c.session(far)
		released, err := s.Lock(ctx, "released")
		if err != nil {
			t.Fatal(err)
		}
		kept, err := s.Lock(ctx, "kept")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(10 * ttl)
		for _, l := range []*coord.Lock{released, kept} {
			if l.Context().Err() != nil || l.Context().Value(key{}) != "value" || l.Check() != nil {
				t.Errorf("%s: %v, %v", l.Name(), l.Context().Err(), l.Check())
			}
		}
		c.unlock(released)
		if cause := context.Cause(released.Context()); !errors.Is(cause, coord.ErrUnlocked) || kept.Context().Err() != nil {
			t.Errorf("released: %v; the other: %v", cause, kept.Context().Err())
		}
		c.isolate(far)
		<-kept.Context().Done()
		if cause := context.Cause(kept.Context()); !errors.Is(cause, coord.ErrSessionExpired) {
			t.Errorf("lost: %v", cause)
		}
	})
}

// Saw: each user builds by hand what tells how long locks are waited for and held, and how many wait.
// Here: hooks and Status say so, on every server, also of a lock that changes hands because its holder died.
func TestFault_opencti17341_HowLongTheyWait(t *testing.T) {
	journals := []*journal{{}, {}, {}}
	tune := func(i int, cfg *coord.Config) { cfg.Hooks = journals[i].hooks() }
	inTunedCell(t, 3, tune, func(t *testing.T, c *cell) {
		dead := c.others(c.leader())[0]
		rest := c.others(dead)
		a, b := c.session(dead, coord.WithLabel("a")), c.session(rest[0], coord.WithLabel("b"), coord.WithTTL(time.Minute))
		held := c.lock(a, "x")
		got := c.acquire(c.within(time.Minute), b, "x")
		time.Sleep(6 * time.Second)
		info, err := c.nodes[rest[1]].Lookup(c.within(time.Minute), "x")
		if err != nil || len(info.Queue) != 1 || info.Queue[0].Label != "b" || info.Queue[0].Waited.Round(time.Second) != 6*time.Second ||
			info.Holders[0].Held.Round(time.Second) != 6*time.Second || c.nodes[rest[1]].Status().Waiting != 1 {
			t.Errorf("%v, %v, %d waiting", info, err, c.nodes[rest[1]].Status().Waiting)
		}
		time.Sleep(2400 * time.Millisecond)
		c.kill(dead) // 8.4 s, and between two thirds of a TTL and two TTLs
		next := (<-got).lock
		c.unlock(next)
		time.Sleep(time.Second)
		for _, i := range rest {
			journals[i].mu.Lock()
			all := strings.Join(journals[i].lines, "\n")
			journals[i].mu.Unlock()
			for _, want := range []string{
				fmt.Sprintf("released x by a, token %v, held 9s: %v", held.Token(), coord.ErrSessionExpired),
				fmt.Sprintf("granted x to b, token %v, waited 9s", next.Token()),
			} {
				if !strings.Contains(all, want) && !strings.Contains(all, strings.ReplaceAll(want, "9s", "10s")) {
					t.Errorf("server %d: no %q in\n%s", i, want, all)
				}
			}
		}
	})
}

// Saw: at the end of a process its leadership is left to run out, or takes as long as that to hand over.
// Here: Shutdown stops the work first and hands over at once.
func TestFault_kubernetes71490_HandOverAtTheEnd(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		for i := range 4 {
			at := c.leader()
			if i%2 == 0 {
				at = c.others(at)[0]
			}
			l := c.elect(c.session(at, coord.WithTTL(time.Minute)), "boss", "old")
			got := c.acquire(c.within(time.Minute), c.session(c.others(at)[0], coord.WithTTL(time.Minute)), "boss")
			time.Sleep(time.Second)
			began := time.Now()
			n := c.nodes[at]
			down := make(chan error, 1)
			go func() { down <- n.Shutdown(c.within(time.Minute)) }()
			g := <-got
			if d := time.Since(began); g.err != nil || l.Check() == nil || d > 100*time.Millisecond {
				t.Errorf("handed over after %v: %v; the former: %v", d, g.err, l.Check())
			}
			if err := <-down; err != nil {
				t.Error(err)
			}
			c.start(at)
			c.ready()
			c.unlock(g.lock)
		}
	})
}

// Saw: no way to ask who holds a lock, nor to verify one's own hold.
// Here: Lookup tells who, Check tells whether this process may act, and Held makes a change of keys depend on the grant.
func TestFault_consul4553_WhoHoldsIt(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		far := c.others(c.leader())[0]
		old := c.lock(c.session(far, coord.WithLabel("old")), "x", coord.WithData([]byte("pid 1")))
		for i, n := range c.nodes {
			info, err := n.Lookup(c.within(time.Minute), "x")
			if err != nil || len(info.Holders) != 1 || info.Holders[0].Label != "old" || string(info.Holders[0].Data) != "pid 1" ||
				info.Holders[0].Token != old.Token() || info.Holders[0].Session != old.Session().ID() {
				t.Errorf("server %d: %v, %v", i, info, err)
			}
		}
		write := func(l *coord.Lock, value string) (bool, error) {
			res, err := l.Session().Txn(c.within(time.Second), coord.Txn{
				If: []coord.Condition{l.Held()}, Then: []coord.Op{coord.OpPut("value", []byte(value))},
			})
			return res.Succeeded, err
		}
		if ok, err := write(old, "old"); !ok || err != nil {
			t.Errorf("the holder's write: %v, %v", ok, err)
		}
		c.isolate(far)
		next := c.lock(c.session(c.leader(), coord.WithTTL(time.Minute)), "x")
		c.lab.HealAll()
		c.ready()
		if ok, err := write(old, "late"); ok || err == nil {
			t.Errorf("the former holder's write: %v, %v", ok, err)
		}
		stale := coord.Txn{If: []coord.Condition{old.Held()}, Then: []coord.Op{coord.OpPut("value", []byte("late"))}}
		if res, err := c.nodes[far].Txn(c.within(time.Second), stale); res.Succeeded || err != nil {
			t.Errorf("a write under the former grant: %v, %v", res, err)
		}
		if ok, err := write(next, "next"); !ok || err != nil || next.Check() != nil || old.Check() == nil {
			t.Errorf("the next: %v, %v, %v, %v", ok, err, next.Check(), old.Check())
		}
	})
}
