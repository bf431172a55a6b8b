//go:build unix

package main

import (
	"context"
	"fmt"
	"time"
)

const fullZone = 40_000

// zone kills two of five servers, the leader among them, with all the sessions that lived there. Each held a lock, for
// which somebody waits elsewhere, or a key, which everybody watches.
func zone(ctx context.Context, p plan, t *table) error {
	c, err := newCell(ctx, p, 5)
	if err != nil {
		return err
	}
	defer c.close()
	leader, err := c.leader(ctx)
	if err != nil {
		return err
	}
	z := lostZone{cell: c, leader: leader, also: (leader + 1) % 5, each: p.scaled(fullZone) / 2, keys: p.watchers > 0}
	if err := z.fill(ctx); err != nil {
		return err
	}
	t.note("sessions that end", "%d, TTL %v, with a %s each; ElectionTimeout %v", 2*z.each, p.ttl,
		map[bool]string{false: "lock", true: "key"}[z.keys], c.election)
	return z.lose(ctx, t)
}

type lostZone struct {
	*cell
	leader, also int // the servers that die
	each         int // sessions of each of the two
	keys         bool
}

func (z *lostZone) dies(i int) bool { return i == z.leader || i == z.also }

// rank numbers the servers that die, or those that live, from 0.
func (z *lostZone) rank(i int) (n int) {
	for j := range i {
		if z.dies(j) == z.dies(i) {
			n++
		}
	}
	return n
}

func (z *lostZone) fill(ctx context.Context) error {
	doomed := func(do func(i int) *order) error {
		_, err := z.all(ctx, func(i int) *order {
			if !z.dies(i) {
				return nil
			}
			return do(i)
		})
		return err
	}
	err := doomed(func(int) *order { return &order{Do: doOpen, N: z.each, Callers: openers, TTL: z.ttl, Keys: z.keys} })
	if err != nil {
		return err
	}
	alive := func(do func(i int) *order) error {
		_, err := z.all(ctx, func(i int) *order {
			if z.dies(i) {
				return nil
			}
			return do(i)
		})
		return err
	}
	switch {
	case z.keys:
		err = alive(func(i int) *order { return &order{Do: doWatch, N: z.watchersOf(i)} })
	default:
		err = doomed(func(i int) *order {
			return &order{Do: doLock, N: z.each, First: z.rank(i) * z.each, Callers: openers}
		})
		if err == nil {
			err = alive(func(i int) *order {
				first, n := z.waited(i)
				return &order{Do: doWait, N: n, First: first, Each: 1, TTL: longTTL}
			})
		}
		if err == nil {
			err = z.until(ctx, z.leader, func(r report) bool { return r.Waiting == 2*z.each })
		}
	}
	if err != nil {
		return err
	}
	return alive(func(int) *order { return &order{Do: doProbe} })
}

// watchersOf is how many of the watchers a server that lives has.
func (z *lostZone) watchersOf(i int) int {
	n := z.rank(i)
	return z.watchers*(n+1)/3 - z.watchers*n/3
}

// waited is the names for which a server that lives has waiters.
func (z *lostZone) waited(i int) (first, n int) {
	k, all := z.rank(i), 2*z.each
	first = all * k / 3
	return first, all*(k+1)/3 - first
}

func (z *lostZone) lose(ctx context.Context, t *table) error {
	if err := wait(ctx, z.ttl/2); err != nil { // the load of the beginning is over
		return err
	}
	if _, err := z.all(ctx, func(int) *order { return &order{Do: doEnds} }); err != nil {
		return err
	}
	before, err := z.status(ctx, false)
	if err != nil {
		return err
	}
	dead := time.Now()
	_ = z.servers[z.leader].Kill()
	_ = z.servers[z.also].Kill()
	z.kill(z.leader)
	z.kill(z.also)
	next, err := z.leaderAlive(ctx)
	if err != nil {
		return err
	}
	z.say("server %d leads after %v", next, round(time.Since(dead)))
	if err := z.over(ctx); err != nil {
		return err
	}
	return z.report(ctx, t, dead, before)
}

// leaderAlive is the next leader.
func (z *lostZone) leaderAlive(ctx context.Context) (int, error) {
	if err := wait(ctx, z.election/2); err != nil { // it is not noticed at once that the old one is dead
		return 0, err
	}
	return z.cell.leader(ctx)
}

// over waits until everything has been handed on, or every watcher has seen everything.
func (z *lostZone) over(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*z.ttl+time.Minute)
	defer cancel()
	for {
		done, err := z.progress(ctx, time.Time{})
		if err != nil {
			return err
		}
		want := 2 * z.each
		if z.keys {
			want *= z.watchers
		}
		if done.Done >= want {
			return nil
		}
		if err := wait(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d: %w", done.Done, want, err)
		}
	}
}

// progress is how many grants or events there have been, and how long after since the last came.
func (z *lostZone) progress(ctx context.Context, since time.Time) (sum report, err error) {
	do := doGranted
	if z.keys {
		do = doWatched
	}
	reports, err := z.all(ctx, func(int) *order { return &order{Do: do, Since: since.UnixNano()} })
	for _, r := range reports {
		sum.Done += r.Done
		sum.Gaps += r.Gaps
		sum.Last = max(sum.Last, r.Last)
		sum.Time = sum.Time.worst(r.Time)
	}
	return sum, err
}

func (z *lostZone) report(ctx context.Context, t *table, dead time.Time, before []report) error {
	done, err := z.progress(ctx, dead)
	if err != nil {
		return err
	}
	ended, err := z.all(ctx, func(int) *order { return &order{Do: doEnded} })
	if err != nil {
		return err
	}
	after, err := z.status(ctx, false)
	if err != nil {
		return err
	}
	first, last := int64(0), int64(0)
	for i, r := range ended {
		if !z.dies(i) && (first == 0 || r.First < first) {
			first = r.First
		}
		last = max(last, r.Last)
	}
	took := time.Duration(last - first)
	rate := float64(2*z.each) / took.Seconds()
	t.check("expiry a second", fmt.Sprintf("%.0f, the first %v after the kill", rate, round(time.Duration(first-dead.UnixNano()))),
		"≥ 25000", rate >= 25_000)
	bar := z.election + z.ttl + 2*time.Second
	if z.keys {
		t.check("events delivered", fmt.Sprintf("%d, %d gaps", done.Done, done.Gaps), fmt.Sprint(2*z.each*z.watchers),
			done.Done == 2*z.each*z.watchers && done.Gaps == 0)
		t.note("first expiry to the last event", "%v", round(time.Duration(done.Last-first)))
		t.note("kill to the last event", "%v", round(time.Duration(done.Last-dead.UnixNano())))
	} else {
		t.atMost("kill to the last lock's next grant", done.Time.Max, bar)
		t.note("kill to the next grant", "%v", done.Time)
	}
	during := time.Duration(done.Last - first)
	others, err := z.probed(ctx, time.Unix(0, first), during)
	if err != nil {
		return err
	}
	t.atMost("others' Lock meanwhile, p99", others.P99, 50*time.Millisecond)
	t.note("others' Lock", "%v in %v", others, round(during))
	var used time.Duration
	entries := uint64(0)
	for i := range after {
		if z.dies(i) {
			continue
		}
		used += after[i].CPU - before[i].CPU
		entries = max(entries, after[i].Applied-before[i].Applied)
	}
	t.note("CPU of the 3 that live, from the kill on", "%v, %v a session", round(used), round(used/time.Duration(2*z.each)))
	t.note("entries written", "%d", entries)
	return nil
}
