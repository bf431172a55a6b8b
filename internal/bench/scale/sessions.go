//go:build unix

package main

import (
	"context"
	"fmt"
	"time"
)

const (
	fullSessions = 120_000
	openers      = 1024 // opening sessions at once, in each process, where the opening is not what is measured
)

// sessions are opened through every server but the leader, and then only renewed.
func sessions(ctx context.Context, p plan, t *table) error {
	c, err := newCell(ctx, p, 5)
	if err != nil {
		return err
	}
	defer c.close()
	leader, err := c.leader(ctx)
	if err != nil {
		return err
	}
	idle, empty, err := c.idle(ctx, leader)
	if err != nil {
		return err
	}
	each := p.scaled(fullSessions) / 4
	begin := time.Now()
	opened, err := c.all(ctx, func(i int) *order {
		if i == leader {
			return nil
		}
		return &order{Do: doOpen, N: each, Callers: openers, TTL: p.ttl}
	})
	if err != nil {
		return err
	}
	total := 0
	for _, r := range opened {
		total += r.Done
	}
	t.note("sessions", "%d through 4 servers, TTL %v, renewed every %v or so; opened in %v",
		total, p.ttl, p.ttl/3, round(time.Since(begin)))
	if err := wait(ctx, p.ttl); err != nil { // the opening is over, every session has been renewed
		return err
	}
	before, err := c.status(ctx, true)
	if err != nil {
		return err
	}
	p.say("nothing but renewals for %v", p.lasts)
	begin = time.Now()
	if err := wait(ctx, p.lasts); err != nil {
		return err
	}
	after, err := c.status(ctx, false)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	renewals := float64(total) * took.Seconds() / renewedEvery(p.ttl).Seconds()
	used := float64(after[leader].CPU-before[leader].CPU) / float64(took)
	perThousand := time.Duration((used - idle) * float64(took) / renewals * 1000)
	entries := after[leader].Applied - before[leader].Applied
	t.check("entries written meanwhile", fmt.Sprintf("%d in %v", entries, took.Round(time.Second)), "0", entries == 0)
	lost := 0
	for _, r := range after {
		lost += r.Lost
	}
	t.check("sessions that ended", fmt.Sprintf("%d; the cell knows %d", lost, after[leader].Sessions), "0",
		lost == 0 && after[leader].Sessions == total)
	t.check("leader's CPU a 1,000 renewals", round(perThousand).String(), "≤ 2ms", perThousand <= 2*time.Millisecond)
	t.note("leader's CPU", "%.1f %% of a core; of it %.1f %% that it takes without sessions", 100*used, 100*idle)
	heapPerSession(t, empty, before, leader, total)
	return nil
}

// idle is how many cores the leader takes without sessions, and how everybody is then.
func (c *cell) idle(ctx context.Context, leader int) (cores float64, after []report, err error) {
	before, err := c.status(ctx, true)
	if err != nil {
		return 0, nil, err
	}
	begin := time.Now()
	if err := wait(ctx, 10*time.Second); err != nil {
		return 0, nil, err
	}
	if after, err = c.status(ctx, false); err != nil {
		return 0, nil, err
	}
	cores = float64(after[leader].CPU-before[leader].CPU) / float64(time.Since(begin))
	after, err = c.status(ctx, true)
	return cores, after, err
}

// renewedEvery is the average time between two renewals of a session: a third of its TTL, and up to a tenth of that less.
func renewedEvery(ttl time.Duration) time.Duration { return ttl/3 - ttl/60 }

func heapPerSession(t *table, empty, full []report, leader, total int) {
	for i := range full {
		per := float64(full[i].Heap-empty[i].Heap) / float64(total)
		figure := fmt.Sprintf("%.0f B (RSS %d MB)", per, full[i].RSS>>20)
		if i == leader {
			t.check("live heap a session, leader", figure, "≤ 400 B", per <= 400)
			continue
		}
		t.note(fmt.Sprintf("live heap a session, server %d, which also is the client of %d", i, full[i].Own), "%s", figure)
	}
}
