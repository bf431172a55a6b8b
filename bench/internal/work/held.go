package work

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord/bench/internal/proc"
)

func heldRow(z Sizes) string { return fmt.Sprintf("%d locks held at once", z.Held) }

func heldMetrics(z Sizes) []Metric {
	return []Metric{
		{Name: heldRow(z) + ": taken at", Unit: "locks/s", More: true},
		{Name: heldRow(z) + ": got within the time", Unit: "locks", More: true},
		{Name: heldRow(z) + ": memory of a server for each", Unit: "bytes"},
	}
}

// held takes many locks and frees none: 256 sessions, each with one call under way. It stops when it has them all, or its
// time is up; what it got is what the memory is divided by.
func held(ctx context.Context, e *Env) error {
	const sessions = 256
	client, err := e.Cell.Client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	opened, err := openSessions(ctx, client, sessions, 10*time.Minute)
	if err != nil {
		return err
	}
	pids := e.Cell.PIDs()
	before := proc.RSS(pids...)
	var next, got atomic.Int64
	m := e.measure()
	end := time.Now().Add(e.Sizes.HeldTime)
	err = parallel(ctx, sessions, func(ctx context.Context, i int) error {
		for time.Now().Before(end) {
			n := next.Add(1)
			if n > int64(e.Sizes.Held) {
				return nil
			}
			if _, err := opened[i].Lock(ctx, fmt.Sprintf("held/%019d", n)); err != nil { // 24 bytes
				return err
			}
			got.Add(1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	u := m.done(e)
	if err := sleep(ctx, time.Second); err != nil { // what is garbage may go
		return err
	}
	row, n := heldRow(e.Sizes), int(got.Load())
	e.Record(row+": taken at", u.rate(n))
	e.Record(row+": got within the time", float64(n))
	e.Record(row+": memory of a server for each", float64(proc.RSS(pids...)-before)/float64(n)/float64(len(pids)))
	return nil // they go with the cell
}
