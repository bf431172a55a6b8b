//go:build unix

package main

import (
	"context"
	"fmt"
	"time"
)

const (
	fullLocks     = 1_000_000
	lockSessions  = 1_000 // of the process whose locks they are
	longQueues    = 1_000 // locks with a queue
	waitersOnEach = 100
	waitersOnOne  = 200
	longTTL       = 10 * time.Minute // nobody is to expire where expiry is not what is measured
)

// locks are taken by one process that is not the leader, so that the other two show what a server needs for them.
func locks(ctx context.Context, p plan, t *table) error {
	c, err := newCell(ctx, p, 3)
	if err != nil {
		return err
	}
	defer c.close()
	leader, err := c.leader(ctx)
	if err != nil {
		return err
	}
	holder, other := (leader+1)%3, (leader+2)%3
	if err := c.takeMany(ctx, t, leader, holder); err != nil {
		return err
	}
	if err := c.restartWithLocks(ctx, t, other); err != nil {
		return err
	}
	if err := c.oneQueue(ctx, t, leader, other); err != nil {
		return err
	}
	return c.manyQueues(ctx, t, leader, holder, other)
}

func (c *cell) takeMany(ctx context.Context, t *table, leader, holder int) error {
	n := c.scaled(fullLocks)
	if _, err := c.servers[holder].ask(ctx, order{Do: doOpen, N: lockSessions, Callers: lockSessions, TTL: longTTL}); err != nil {
		return err
	}
	before, err := c.status(ctx, true)
	if err != nil {
		return err
	}
	r, err := c.servers[holder].ask(ctx, order{Do: doLock, N: n, Callers: c.callers})
	if err != nil {
		return err
	}
	loaded, err := c.status(ctx, false)
	if err != nil {
		return err
	}
	after, err := c.status(ctx, true)
	if err != nil {
		return err
	}
	rate := float64(n) / r.Took.Seconds()
	t.note("locks", "%d of 24-byte names, taken through one follower by %d callers in %v", after[leader].Locks, c.callers, round(r.Took))
	t.check("taken a second", fmt.Sprintf("%.0f", rate), "≥ 40000", rate >= 40_000)
	t.note("a Lock", "%v", r.Time)
	var used time.Duration
	for i := range loaded {
		used += loaded[i].CPU - before[i].CPU
		who := map[int]string{leader: "leader", holder: "follower and client"}[i]
		if who == "" {
			who = "follower"
		}
		t.note("CPU a lock, "+who, "%v", round((loaded[i].CPU-before[i].CPU)/time.Duration(n)))
	}
	t.note("CPU a lock, all 3 processes", "%v; %.2f cores", round(used/time.Duration(n)), used.Seconds()/r.Took.Seconds())
	t.note("entries a lock", "%.4f", float64(loaded[leader].Applied-before[leader].Applied)/float64(n))
	for i := range after {
		per := float64(after[i].Heap-before[i].Heap) / float64(n)
		figure := fmt.Sprintf("%.0f B; RSS grew by %.0f B a lock to %d MB", per,
			float64(after[i].RSS-before[i].RSS)/float64(n), after[i].RSS>>20)
		switch i {
		case holder:
			t.note("live heap a lock, server and client", "%s", figure)
		case leader:
			t.check("live heap a lock, leader", figure, "≤ 250 B", per <= 250)
		default:
			t.check("live heap a lock, follower", figure, "≤ 250 B", per <= 250)
		}
	}
	return nil
}

// restartWithLocks kills a follower and starts it anew.
func (c *cell) restartWithLocks(ctx context.Context, t *table, i int) error {
	n := c.scaled(fullLocks)
	c.kill(i)
	begin := time.Now()
	if err := c.start(i); err != nil {
		return err
	}
	err := c.until(ctx, i, func(r report) bool { return r.Ready && r.Locks >= n })
	t.atMost("restart of a follower until it is ready and knows all", time.Since(begin), 15*time.Second)
	return err
}

// oneQueue passes one lock through a long queue.
func (c *cell) oneQueue(ctx context.Context, t *table, leader, other int) error {
	name := 2 * fullLocks // nobody else's
	if _, err := c.servers[leader].ask(ctx, order{Do: doOpen, N: 1, Callers: 1, TTL: longTTL}); err != nil {
		return err
	}
	if _, err := c.servers[leader].ask(ctx, order{Do: doLock, N: 1, First: name, Callers: 1}); err != nil {
		return err
	}
	if _, err := c.servers[other].ask(ctx, order{Do: doWait, N: 1, First: name, Each: waitersOnOne, TTL: longTTL, Pass: true}); err != nil {
		return err
	}
	if err := c.until(ctx, leader, func(r report) bool { return r.Waiting == waitersOnOne }); err != nil {
		return err
	}
	before, err := c.servers[leader].ask(ctx, order{Do: doStatus})
	if err != nil {
		return err
	}
	begin := time.Now()
	if _, err := c.servers[leader].ask(ctx, order{Do: doRelease, N: 1, Callers: 1}); err != nil {
		return err
	}
	if err := c.granted(ctx, other, waitersOnOne); err != nil {
		return err
	}
	took := time.Since(begin)
	if err := wait(ctx, time.Second); err != nil { // the last one's Unlock
		return err
	}
	after, err := c.servers[leader].ask(ctx, order{Do: doStatus})
	if err != nil {
		return err
	}
	// 200 handovers, and the last holder's Unlock.
	entries := after.Applied - before.Applied
	t.check(fmt.Sprintf("entries for %d handovers of one lock, and an unlock", waitersOnOne), fmt.Sprint(entries),
		fmt.Sprint(waitersOnOne+1), entries == waitersOnOne+1)
	t.note("a handover", "%v", round(took/waitersOnOne))
	return nil
}

// manyQueues has long queues on many of the locks that are held, and hands all of them on to the last.
func (c *cell) manyQueues(ctx context.Context, t *table, leader, holder, other int) error {
	before, err := c.status(ctx, true)
	if err != nil {
		return err
	}
	already, err := c.servers[other].ask(ctx, order{Do: doGranted})
	if err != nil {
		return err
	}
	names := c.scaled(longQueues)
	total := names * waitersOnEach
	begin := time.Now()
	if _, err := c.servers[other].ask(ctx, order{Do: doWait, N: names, Each: waitersOnEach, TTL: longTTL, Pass: true}); err != nil {
		return err
	}
	if err := c.until(ctx, leader, func(r report) bool { return r.Waiting == total }); err != nil {
		return err
	}
	t.note("waiters", "%d on each of %d locks, queued in %v", waitersOnEach, names, round(time.Since(begin)))
	full, err := c.status(ctx, true)
	if err != nil {
		return err
	}
	t.note("live heap a waiter", "%.0f B at the leader, %.0f B where it is called", float64(full[leader].Heap-before[leader].Heap)/float64(total),
		float64(full[other].Heap-before[other].Heap)/float64(total))
	begin = time.Now()
	if _, err := c.servers[holder].ask(ctx, order{Do: doRelease, N: names, Callers: names}); err != nil {
		return err
	}
	if err := c.granted(ctx, other, already.Done+total); err != nil {
		return err
	}
	took := time.Since(begin)
	t.note("until each had its turn", "%v, %.0f handovers a second", round(took), float64(total)/took.Seconds())
	return nil
}

// granted waits until n waiters of server i have had a grant.
func (c *cell) granted(ctx context.Context, i, n int) error {
	for {
		r, err := c.servers[i].ask(ctx, order{Do: doGranted})
		if err != nil || r.Done >= n {
			return err
		}
		if err := wait(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}
