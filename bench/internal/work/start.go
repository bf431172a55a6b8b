package work

import (
	"context"
	"time"

	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/stats"
)

const firstGrant = "new cell: processes started to first Lock"

func startMetrics(Sizes) []Metric { return []Metric{{Name: firstGrant, Unit: "ms"}} }

// start takes the first lock of a cell that has just come up, and warms it up for the others.
func start(ctx context.Context, e *Env) error {
	client, err := e.Cell.Client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := client.Session(ctx, sessionTTL)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	l, err := s.Lock(ctx, "first")
	if err != nil {
		return err
	}
	e.Record(firstGrant, stats.Milliseconds(time.Since(e.Began)))
	if err := l.Unlock(ctx); err != nil {
		return err
	}
	d := e.Sizes.Window / 2
	if slow, ok := e.Cell.(peer.Warm); ok {
		d = slow.Warm()
	}
	return warm(ctx, client, d)
}
