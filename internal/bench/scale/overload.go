//go:build unix

package main

import (
	"context"
	"fmt"
	"time"
)

// overload has several times more callers than are needed to keep the cell busy, and sessions that must live on.
func overload(ctx context.Context, p plan, t *table) error {
	c, err := newCell(ctx, p, 3)
	if err != nil {
		return err
	}
	defer c.close()
	leader, err := c.leader(ctx)
	if err != nil {
		return err
	}
	each := p.scaled(10_000)
	_, err = c.all(ctx, func(int) *order { return &order{Do: doOpen, N: each, Callers: openers, TTL: p.ttl} })
	if err != nil {
		return err
	}
	var enough float64
	for _, times := range []int{1, 5} {
		callers := times * p.callers
		before, err := c.status(ctx, true)
		if err != nil {
			return err
		}
		loads, err := c.all(ctx, func(i int) *order {
			return &order{Do: doLoad, N: callers, First: i * fullLocks, For: p.lasts}
		})
		if err != nil {
			return err
		}
		after, err := c.status(ctx, true)
		if err != nil {
			return err
		}
		var sum report
		for _, r := range loads {
			sum.Done, sum.Limited, sum.Failed = sum.Done+r.Done, sum.Limited+r.Limited, sum.Failed+r.Failed
			sum.Time = sum.Time.worst(r.Time)
		}
		rate := float64(sum.Done) / p.lasts.Seconds()
		what := fmt.Sprintf("%d callers: ", 3*callers)
		t.note(what+"pairs a second", "%.0f; a pair: %v", rate, sum.Time)
		if times == 1 {
			enough = rate
		} else {
			t.check(what+"of that with a fifth of the callers", fmt.Sprintf("%.2f", rate/enough), "≥ 0.8", rate >= 0.8*enough)
		}
		t.check(what+"ErrLimit, other errors", fmt.Sprintf("%d, %d", sum.Limited, sum.Failed), "no others", sum.Failed == 0)
		lost := 0
		for i, r := range after {
			lost += r.Lost
			grown := int64(r.Heap) - int64(before[i].Heap)
			t.note(what+"server "+fmt.Sprint(i), "live heap %d MB, %+d MB afterwards; most RSS %d MB", r.Heap>>20, grown>>20, r.PeakRSS>>20)
		}
		t.check(what+"sessions lost", fmt.Sprint(lost), "0", lost == 0 && after[leader].Sessions >= 3*each)
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}
