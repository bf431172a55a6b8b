package coord_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/store"
)

// What users of other systems ran into: disks that hang, fill up, fail and lie. docs/FAULTS.md has the table, with links.

// inCellOnDisks is inCell, with disks that can be broken.
func inCellOnDisks(t *testing.T, n int, test func(t *testing.T, c *cell, disks []badDisk)) {
	t.Helper()
	inEmptyCell(t, n, nil, func(t *testing.T, c *cell) {
		disks := make([]badDisk, n)
		for i := range disks {
			disks[i].hung = make(chan struct{})
			c.lab.SetFaults(c.addr(i), disks[i].faults())
			c.start(i)
		}
		c.ready()
		test(t, c, disks)
	})
}

// writer writes one key after the other by way of a server, and remembers what was acknowledged, until it fails.
type writer struct {
	mu    sync.Mutex
	acked []string
}

func (w *writer) run(c *cell, n *coord.Node, prefix string) {
	for i := 0; ; i++ {
		key := fmt.Sprint(prefix, i)
		if _, err := n.Put(c.within(time.Minute), key, nil); err != nil {
			return
		}
		w.mu.Lock()
		w.acked = append(w.acked, key)
		w.mu.Unlock()
	}
}

// lost is how many of the acknowledged keys the cell does not have.
func (w *writer) lost(c *cell, at int) (lost int) {
	c.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	all, err := c.nodes[at].List(c.within(time.Minute), "")
	if err != nil || all.More {
		c.t.Fatalf("more than one page: %v, %v", all.More, err)
	}
	there := make(map[string]bool, len(all.Keys))
	for _, kv := range all.Keys {
		there[kv.Key] = true
	}
	for _, key := range w.acked {
		if !there[key] {
			lost++
		}
	}
	return lost
}

// Saw: the leader's disk hangs, its heartbeats go on, and it leads for ever without doing anything.
// Here: a call of the disk has a time limit; then another one leads, and no session elsewhere has noticed.
func TestFault_raft503_HungDisk(t *testing.T) {
	inCellOnDisks(t, 3, func(t *testing.T, c *cell, disks []badDisk) {
		old := c.leader()
		other := c.others(old)[0]
		held := c.hold(3, 10*election, c.others(old)...)
		disks[old].set(func() error { <-disks[old].hung; return nil }, nil)
		hung := time.Now()
		if _, err := c.nodes[other].Put(c.within(time.Minute), "k", nil); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(hung); d > stall+10*election {
			t.Errorf("nothing was written for %v", d)
		}
		if now := c.leader(); now == old {
			t.Error("it leads on")
		}
		if err := c.stops(old); !strings.Contains(err.Error(), "stalled") {
			t.Errorf("it stopped for %v", err)
		}
		time.Sleep(20 * election)
		c.allHeld(other, held)
		close(disks[old].hung)
		synctest.Wait()
	})
}

// Saw: after a sync that failed the next one reports success, and what the first should have written is not there.
// Here: the first failure is the last: nothing more is synced, nothing is acknowledged, and the directory is given up.
func TestFault_rostam94_SyncFailsOnce(t *testing.T) {
	inCellOnDisks(t, 1, func(t *testing.T, c *cell, disks []badDisk) {
		c.mustPut(0, "before", "")
		var syncs atomic.Int64
		disks[0].set(nil, func() error {
			if syncs.Add(1) == 1 {
				return syscall.EIO
			}
			return nil
		})
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				if _, err := c.nodes[0].Put(c.within(time.Minute), fmt.Sprint(i), nil); err == nil {
					t.Error("acknowledged on a disk whose sync has failed")
				}
			})
			time.Sleep(time.Millisecond / 2)
		}
		if err := c.stops(0); !strings.Contains(err.Error(), syscall.EIO.Error()) {
			t.Errorf("it stopped for %v", err)
		}
		all.Wait()
		if n := syncs.Load(); n != 1 {
			t.Errorf("%d syncs of the log, the first had failed", n)
		}
		c.nodes[0] = nil
		c.refused(0, nil, "directory retired")
	})
}

// Saw: the disk is full, and the process panics, or goes on with entries in its cache that were never written.
// Here: all disks of a cell fill up in the middle of the work. The servers stop and say why; with room again they are the
// same cell, and have everything that was acknowledged.
func TestFault_raft163_AllDisksFull(t *testing.T) {
	inCellOnDisks(t, 3, func(t *testing.T, c *cell, disks []badDisk) {
		id := c.sameCell()
		var w writer
		var all sync.WaitGroup
		for i, n := range c.nodes {
			all.Go(func() { w.run(c, n, fmt.Sprint(i, "/")) })
		}
		held := c.lock(c.session(0), "x")
		time.Sleep(ttl)
		for i := range disks {
			disks[i].set(func() error { return syscall.ENOSPC }, nil)
		}
		full := 0
		for i := range 3 { // the third may be left alone before it writes anything
			select {
			case <-c.nodes[i].Done():
				full++
				if err := c.nodes[i].Err(); !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
					t.Errorf("server %d stopped for %v", i, err)
				}
			case <-time.After(time.Minute):
			}
		}
		if full < 2 {
			t.Errorf("%d servers have stopped", full)
		}
		if held.Check() == nil {
			t.Error("a lock is held in a cell that has stopped")
		}
		c.killAll()
		all.Wait()
		for i := range disks {
			disks[i].set(nil, nil)
		}
		c.startAll()
		c.ready()
		if c.sameCell() != id {
			t.Error("another cell")
		}
		for i := range 3 {
			if n := w.lost(c, i); n > 0 || len(w.acked) < 100 {
				t.Errorf("server %d lacks %d of %d keys", i, n, len(w.acked))
			}
		}
		c.lock(c.session(1), "x")
	})
}

// Saw: the log is never cut when the process is restarted more often than it gets around to it, and the disk fills up.
// Here: what counts is how many entries there are, not how long the process has lived.
func TestFault_openbao3342_RestartsBeforeASnapshot(t *testing.T) {
	inEmptyCell(t, 1, nil, func(t *testing.T, c *cell) {
		const threshold = 100
		c.lab.SetSnapshots(threshold, 0)
		most := uint64(0)
		for range 30 {
			c.start(0)
			c.ready()
			for i := range threshold / 2 {
				c.mustPut(0, fmt.Sprint("k", i), "")
			}
			time.Sleep(ttl) // far less than raft takes to look at it
			first, _ := c.lab.Disk(c.addr(0)).FirstIndex()
			last, _ := c.lab.Disk(c.addr(0)).LastIndex()
			most = max(most, last-first)
			c.kill(0)
		}
		if most > 4*threshold {
			t.Errorf("%d entries on the disk, a snapshot is taken after %d", most, threshold)
		}
	})
}

// Saw: the leader could not read its own snapshot. A follower that needed it never caught up, and the leader led on.
// Here: a server that cannot read what it has written stops; the next leader's snapshot is as good.
func TestFault_raft522_SnapshotCannotBeRead(t *testing.T) {
	inEmptyCell(t, 3, nil, func(t *testing.T, c *cell) {
		c.lab.SetSnapshots(20, time.Second)
		var unreadable atomic.Int64
		unreadable.Store(-1)
		for i := range 3 {
			c.lab.SetFaults(c.addr(i), store.Faults{Before: func(op store.Op) error {
				if unreadable.Load() == int64(i) && op == store.OpOpenSnapshot {
					return syscall.EIO
				}
				return nil
			}})
			c.start(i)
		}
		c.ready()
		old := c.leader()
		away := c.others(old)[0]
		c.isolate(away)
		for i := range 100 {
			c.mustPut(old, fmt.Sprint("k", i%7), fmt.Sprint(i))
		}
		time.Sleep(10 * time.Second) // the logs are compacted
		unreadable.Store(int64(old))
		c.lab.HealAll()
		if err := c.stops(old); !strings.Contains(err.Error(), syscall.EIO.Error()) {
			t.Errorf("it stopped for %v", err)
		}
		c.nodes[old] = nil
		c.ready()
		if kv, err := c.nodes[away].Get(c.within(time.Minute), "k1"); err != nil || string(kv.Value) != "99" {
			t.Errorf("on the server that was away: %q, %v", kv.Value, err)
		}
	})
}

// Saw: a leader that counts its own entry before it is on its disk is fast, and loses acknowledged entries when the power
// fails everywhere.
// Here: nothing is acknowledged before a majority has it on disk. With disks that lie about it the same test finds the
// loss: it can.
func TestFault_raft507_PowerCut(t *testing.T) {
	for name, lies := range map[string]bool{"honest disks": false, "disks that lie": true} {
		t.Run(name, func(t *testing.T) {
			inCellOnDisks(t, 3, func(t *testing.T, c *cell, disks []badDisk) {
				lost, acked := 0, 0
				for round := range 4 {
					var w writer
					var all sync.WaitGroup
					for i, n := range c.nodes {
						all.Go(func() { w.run(c, n, fmt.Sprint(round, "/", i, "/")) })
					}
					time.Sleep(ttl + time.Duration(round)*700*time.Microsecond)
					for i := range disks {
						disks[i].set(nil, func() error {
							if lies {
								return store.ErrSyncLost
							}
							time.Sleep(3 * time.Millisecond) // the power may fail meanwhile
							return nil
						})
					}
					time.Sleep(100*time.Millisecond + time.Duration(round)*900*time.Microsecond)
					var left []*store.Disk
					for i := range disks {
						left = append(left, c.lab.Disk(c.addr(i)).Crash(true))
						c.lab.Kill(c.addr(i)) // at the same moment
					}
					c.killAll()
					all.Wait()
					for i := range disks {
						disks[i].set(nil, nil)
						c.lab.SetDisk(c.addr(i), left[i])
					}
					c.startAll()
					c.ready()
					lost, acked = lost+w.lost(c, round%3), acked+len(w.acked)
				}
				if (lost > 0) != lies || acked < 500 {
					t.Errorf("%d of %d acknowledged keys are lost", lost, acked)
				}
			})
		})
	}
}
