package coord_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// What users of other systems ran into: elections, membership, restarts and reads of a Raft group. docs/FAULTS.md has the
// table, with links.

// voters checks that a server sees as many members, all of them with a vote.
func (c *cell) voters(i, n int) {
	c.t.Helper()
	seen := c.nodes[i].Members()
	for _, m := range seen {
		if !m.Voter {
			c.t.Errorf("server %d: %s has no vote", i, m.Name)
		}
	}
	if len(seen) != n {
		c.t.Errorf("server %d: %d members, want %d", i, len(seen), n)
	}
}

// Saw: all servers come back with other addresses, the log names the old ones, nobody is elected, and the cluster has to
// be recovered by hand.
// Here: servers are known by id. Each comes back where another one was, and they are the same cell.
func TestFault_consul1580_PermutedAddresses(t *testing.T) {
	who := []int{0, 1, 2}
	tune := func(i int, cfg *coord.Config) { cfg.Name = fmt.Sprint("server", who[i]) }
	inTunedCell(t, 3, tune, func(t *testing.T, c *cell) {
		id := c.sameCell()
		rev := c.mustPut(0, "a", "1")
		time.Sleep(5 * time.Second) // the addresses are on the disks
		for range 3 {
			first := c.nodes[0].ID()
			c.killAll()
			disk := c.lab.Disk(c.addr(0))
			c.lab.SetDisk(c.addr(0), c.lab.Disk(c.addr(1)))
			c.lab.SetDisk(c.addr(1), c.lab.Disk(c.addr(2)))
			c.lab.SetDisk(c.addr(2), disk)
			who[0], who[1], who[2] = who[1], who[2], who[0]
			began := time.Now()
			c.startAll()
			c.ready()
			if d := time.Since(began); d > 15*time.Second {
				t.Errorf("ready after %v", d)
			}
			if c.nodes[2].ID() != first || c.sameCell() != id {
				t.Error("another server, or another cell")
			}
			if kv, err := c.nodes[1].Get(c.within(time.Minute), "a"); err != nil || kv.Changed != rev {
				t.Errorf("%+v, %v", kv, err)
			}
			time.Sleep(5 * time.Second)
		}
	})
}

// Saw: a new server has a vote at once, long before it has the log; when one of the old ones dies, nothing gets a
// majority.
// Here: who has not caught up has no vote.
func TestFault_raft404_NewServersCannotVoteYet(t *testing.T) {
	inEmptyCell(t, 5, joining(3), func(t *testing.T, c *cell) {
		for i := range 3 {
			c.start(i)
		}
		c.ready()
		for i := range 200 {
			c.mustPut(i%3, fmt.Sprint("k", i), "")
		}
		c.start(3)
		c.start(4)
		for len(c.nodes[0].Members()) < 5 {
			time.Sleep(time.Millisecond)
		}
		c.isolate(3) // admitted, and cut off before they have the log
		c.isolate(4)
		time.Sleep(time.Minute)
		c.kill(c.leader())
		c.mustPut(c.leader(), "a", "1")
		for i := range 3 {
			if c.nodes[i] == nil {
				c.start(i)
			}
		}
		c.lab.HealAll()
		c.members(c.leader(), 5, 5)
		c.kill(c.leader())
		c.kill(c.leader())
		c.mustPut(c.leader(), "a", "2")
	})
}

// Saw: a channel that tells of leadership blocked Raft's own loop when nobody read it, and changes were missed.
// Here: whatever the program does not read, or does slowly in its hooks, the cell goes on.
func TestFault_raft384_NobodyListens(t *testing.T) {
	tune := func(_ int, cfg *coord.Config) {
		told := 0 // hooks are called one after the other
		slow := func() {
			if told++; told <= 30 {
				<-time.After(3 * time.Second)
			}
		}
		cfg.Hooks.LeaderChanged = func(coord.LeaderInfo) { slow() }
		cfg.Hooks.Granted = func(coord.GrantInfo) { slow() }
	}
	inTunedCell(t, 3, tune, func(t *testing.T, c *cell) {
		for i := range 3 {
			c.watch(i, "k") // never read
			o, err := c.nodes[i].Observe(t.Context(), "boss")
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
		}
		s := c.session(0, coord.WithTTL(time.Minute))
		for i := range 100 {
			leader := c.leader()
			next := c.others(leader)[i%2]
			if err := c.nodes[leader].TransferLeadership(c.within(5*time.Second), c.nodes[next].ID()); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			c.mustPut(i%3, "k", fmt.Sprint(i))
			l := c.elect(s, "boss", fmt.Sprint(i))
			if err := l.Resign(c.within(time.Minute)); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d > time.Second {
				t.Errorf("after transfer %d it took %v", i, d)
			}
		}
	})
}

// Saw: shutting down while a snapshot is taken hangs.
// Here: with snapshots all the time, and under load, Close returns, and the server comes back.
func TestFault_raft268_CloseDuringSnapshots(t *testing.T) {
	inEmptyCell(t, 3, nil, func(t *testing.T, c *cell) {
		c.lab.SetSnapshots(1, 5*time.Millisecond)
		c.startAll()
		c.ready()
		r := &referee{t: t}
		stop := c.contenders(r, "x", 2)
		for i := range 12 {
			time.Sleep(time.Duration(1000+i*37) * time.Millisecond)
			n := c.node(i % 3)
			began := time.Now()
			if i%2 == 0 {
				c.kill(i % 3)
			} else if err := n.Shutdown(c.within(time.Minute)); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("it took %v", d)
			}
			c.start(i % 3)
			c.ready()
		}
		stop()
		r.verdict()
		if r.count() < 20 {
			t.Errorf("%d grants: no progress", r.count())
		}
	})
}

// Saw: a leader that was paused answers reads from what it knew before: there is no read index, and what is there in
// its stead was asked in the wrong order.
// Here: whatever began after a write was acknowledged sees it, also on a leader that wakes up.
func TestFault_raft603_ReadsOfAPausedLeader(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		answered := 0
		for number := 1; number <= 8; number++ {
			old := c.leader()
			n := c.nodes[old]
			time.Sleep(time.Second)
			c.lab.Pause(c.addr(old))
			c.mustPut(c.others(old)[0], "n", strconv.Itoa(number))
			var all sync.WaitGroup
			for i := range 20 {
				if i == 10 {
					time.AfterFunc(5*time.Millisecond, func() { c.lab.Resume(c.addr(old)) })
				}
				all.Go(func() {
					kv, err := n.Get(c.within(10*time.Second), "n")
					if err != nil {
						t.Errorf("round %d: %v", number, err)
					} else if got, _ := strconv.Atoi(string(kv.Value)); got < number {
						t.Errorf("it read %d after %d was acknowledged", got, number)
					}
				})
				time.Sleep(time.Millisecond)
			}
			all.Wait()
			answered++
			c.ready()
		}
		if answered != 8 {
			t.Error("no progress")
		}
	})
}

// Saw: "leadership lost while committing log": nobody knows whether it was done, and the client takes it for a failure.
// Here: the leader is cut off with a change of its own client under way. The change is repeated and is done once: a
// second time it would meet itself.
func TestFault_consul2893_LeadershipLostWhileCommitting(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		for i := range 16 {
			leader := c.leader()
			n := c.nodes[leader]
			key := fmt.Sprint("k", i)
			put := make(chan error, 1)
			go func() {
				_, err := n.Put(c.within(time.Minute), key, nil, coord.IfAbsent())
				put <- err
			}()
			time.Sleep(time.Duration(i) * 250 * time.Microsecond)
			for _, j := range c.others(leader) {
				if i%2 == 0 {
					c.lab.Cut(c.addr(leader), c.addr(j))
				} else { // the entry goes out, and no answer comes
					c.lab.CutOneWay(c.addr(j), c.addr(leader))
				}
			}
			time.Sleep(6 * election)
			c.lab.HealAll()
			if err := <-put; err != nil {
				t.Errorf("round %d: %v", i, err)
			}
			if _, err := n.Get(c.within(time.Minute), key); err != nil {
				t.Errorf("round %d: %v", i, err)
			}
			c.ready()
		}
	})
}

// Saw: servers were restarted one after the other, faster than the cluster judged them stable, and lost their votes; or
// a clean-up of the dead walked from five servers to one.
// Here: a voter that restarts is one at once, and nobody is removed for being dead.
func TestFault_consul8118_RollingRestart(t *testing.T) {
	inCell(t, 5, func(t *testing.T, c *cell) {
		for round := range 2 {
			for i := range 5 {
				c.kill(i)
				time.Sleep(time.Second)
				c.start(i)
				time.Sleep(time.Second)
				c.mustPut((i+1)%5, "k", fmt.Sprint(round, i))
			}
		}
		c.ready()
		for i := range 5 {
			c.voters(i, 5)
		}
		c.kill(c.leader())
		c.kill(c.leader())
		time.Sleep(time.Minute)
		at := c.leader()
		c.voters(at, 5)
		c.mustPut(at, "k", "two are dead")
		c.kill(at)
		last := c.others(at)[0]
		time.Sleep(20 * time.Second)
		if _, err := c.nodes[last].Put(c.within(time.Second), "k", nil); err == nil {
			t.Error("two of five servers took a write")
		}
		c.voters(last, 5)
		for i := range 5 {
			if c.nodes[i] == nil {
				c.start(i)
			}
		}
		c.ready()
		c.mustPut(last, "k", "all are back")
	})
}

// Saw: an API call made from within a callback of the state machine deadlocks.
// Here: hooks may call everything, and wait for it.
func TestFault_dragonboat171_CallsFromHooks(t *testing.T) {
	var n *coord.Node
	var done chan error // made in the bubble
	tune := func(i int, cfg *coord.Config) {
		if i != 0 {
			return
		}
		call := func(key string) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, put := n.Put(ctx, "hook", []byte(key))
			_, get := n.Get(ctx, "hook")
			_, look := n.Lookup(ctx, "x")
			s, open := n.NewSession(ctx)
			if open == nil {
				open = s.Close(ctx)
			}
			done <- errors.Join(put, get, look, open)
		}
		cfg.Hooks.Granted = func(g coord.GrantInfo) { call("granted") }
		cfg.Hooks.Released = func(coord.ReleaseInfo) { call("released") }
	}
	inTunedCell(t, 3, tune, func(t *testing.T, c *cell) {
		n, done = c.nodes[0], make(chan error, 100)
		for i := range 3 {
			s := c.session(i)
			c.unlock(c.lock(s, "x"))
			for range 2 {
				if err := <-done; err != nil {
					t.Errorf("a call from a hook: %v", err)
				}
			}
		}
	})
}

// Saw: a group that was below its majority never recovers, servers that were restarted have to be promoted by hand, and
// clients hang on it.
// Here: when enough servers are back, one by one or all at once, the cell goes on; who waited is served, who held is told.
func TestFault_hazelcast17260_BelowTheMajority(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		for _, atOnce := range []bool{false, true} {
			stays := c.others(c.leader())[0]
			held := c.lock(c.session(stays), "x")
			gone := c.others(stays)
			for _, i := range gone {
				c.kill(i)
			}
			<-held.Lost()
			waiting := make(chan *coord.Session, 1)
			n := c.nodes[stays]
			go func() {
				s, err := n.NewSession(c.within(time.Hour), coord.WithTTL(time.Minute))
				if err != nil {
					t.Error(err)
				}
				waiting <- s
			}()
			time.Sleep(2 * time.Minute)
			for _, i := range gone {
				c.start(i)
				if !atOnce {
					time.Sleep(time.Minute)
				}
			}
			c.ready()
			s := <-waiting
			l := c.lock(s, "x")
			if l.Token() <= held.Token() || held.Check() == nil {
				t.Errorf("token %v after %v, %v", l.Token(), held.Token(), held.Check())
			}
			for i := range 3 {
				c.voters(i, 3)
			}
			if err := s.Close(c.within(time.Minute)); err != nil {
				t.Error(err)
			}
		}
	})
}

// Saw: a server answered reads before it had replayed its log.
// Here: a call that comes before a server is ready waits, and sees everything.
func TestFault_ellanetworks1350_ReadAtOnceAfterAStart(t *testing.T) {
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprint(servers), func(t *testing.T) {
			inCell(t, servers, func(t *testing.T, c *cell) {
				for i := range 5 {
					c.mustPut(0, "n", fmt.Sprint(i))
					c.killAll()
					c.startAll()
					for _, n := range c.nodes {
						kv, err := n.Get(c.within(time.Minute), "n")
						if err != nil || string(kv.Value) != fmt.Sprint(i) {
							t.Errorf("it reads %q, %v; want %d", kv.Value, err, i)
						}
					}
				}
			})
		})
	}
}
