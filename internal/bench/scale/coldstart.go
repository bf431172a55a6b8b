//go:build unix

package main

import (
	"context"
	"fmt"
	"time"
)

// coldstart is everybody coming back after an outage longer than the TTL, each after a random part of the time that
// clients back off by then: each opens a session and puts one ephemeral key.
func coldstart(ctx context.Context, p plan, t *table) error {
	c, err := newCell(ctx, p, 5)
	if err != nil {
		return err
	}
	defer c.close()
	leader, err := c.leader(ctx)
	if err != nil {
		return err
	}
	if _, err := c.all(ctx, func(int) *order { return &order{Do: doProbe} }); err != nil {
		return err
	}
	before, err := c.status(ctx, false)
	if err != nil {
		return err
	}
	each := p.scaled(fullSessions) / 4
	begin := time.Now()
	opened, err := c.all(ctx, func(i int) *order {
		if i == leader {
			return nil
		}
		return &order{Do: doOpen, N: each, Callers: each, TTL: p.ttl, Keys: true, Spread: p.spread}
	})
	took := time.Since(begin)
	if err != nil {
		return err
	}
	after, err := c.status(ctx, false)
	if err != nil {
		return err
	}
	var clients latency
	total := 0
	for _, r := range opened {
		total += r.Done
		clients = clients.worst(r.Time)
	}
	t.note("clients", "%d within %v, through 4 servers; a session and a key each", total, p.spread)
	t.atMost("until the last has both", took, 15*time.Second)
	t.note("a client", "%v", clients)
	var used time.Duration
	for i := range after {
		used += after[i].CPU - before[i].CPU
	}
	t.note("CPU a client, all 5 processes", "%v; %.2f cores", round(used/time.Duration(total)), used.Seconds()/took.Seconds())
	t.note("entries a client", "%.3f", float64(after[leader].Applied-before[leader].Applied)/float64(total))
	others, err := c.probed(ctx, begin, took)
	if err != nil {
		return err
	}
	t.atMost("others' Lock, p99", others.P99, 100*time.Millisecond)
	t.note("others' Lock", "%v", others)
	if err := wait(ctx, p.ttl+2*time.Second); err != nil {
		return err
	}
	end, err := c.status(ctx, false)
	if err != nil {
		return err
	}
	lost := 0
	for _, r := range end {
		lost += r.Lost
	}
	t.check("sessions that ended within a TTL", fmt.Sprint(lost), "0", lost == 0 && end[leader].Keys == total)
	return nil
}

// probed stops the probes, and is what they saw in the time given.
func (c *cell) probed(ctx context.Context, begin time.Time, took time.Duration) (latency, error) {
	reports, err := c.all(ctx, func(int) *order { return &order{Do: doProbed, Since: begin.UnixNano(), For: took} })
	var sum latency
	for _, r := range reports {
		sum = sum.worst(r.Time)
	}
	return sum, err
}
