package work

import (
	"context"
	"fmt"
	"time"

	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/stats"
)

func lockMetrics(z Sizes) (rows []Metric) {
	for _, n := range z.Callers {
		if n == 1 {
			rows = append(rows,
				Metric{Name: "Lock, one caller, p50", Unit: "ms"},
				Metric{Name: "Lock, one caller, p99", Unit: "ms"},
				Metric{Name: "Lock and Unlock, one caller, p50", Unit: "ms"},
				Metric{Name: "Lock and Unlock, one caller, p99", Unit: "ms"})
		}
		rows = append(rows, Metric{Name: pairsRow(n), Unit: "pairs/s", More: true})
	}
	return rows
}

func pairsRow(callers int) string {
	if callers == 1 {
		return "Lock and Unlock, one caller"
	}
	return fmt.Sprintf("Lock and Unlock, %d callers", callers)
}

// locks has callers that each take and free a lock of their own, which nobody else wants.
func locks(ctx context.Context, e *Env) error {
	client, err := e.Cell.Client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, n := range e.Sizes.Callers {
		if err := locksBy(ctx, e, client, n); err != nil {
			return err
		}
	}
	return nil
}

func locksBy(ctx context.Context, e *Env, client peer.Client, n int) error {
	opened, err := openSessions(ctx, client, n, sessionTTL)
	if err != nil {
		return err
	}
	defer closeSessions(ctx, opened)
	first := func(ctx context.Context, i int) error { return pair(ctx, opened[i], fmt.Sprint("own", i)) }
	if err := parallel(ctx, n, first); err != nil {
		return err
	}
	var lock, both stats.Latencies
	m := e.measure()
	end := time.Now().Add(e.Sizes.Window)
	err = parallel(ctx, n, func(ctx context.Context, i int) error {
		var locked, freed []time.Duration
		name := fmt.Sprint("own", i)
		for time.Now().Before(end) {
			begin := time.Now()
			l, err := opened[i].Lock(ctx, name)
			if err != nil {
				return err
			}
			locked = append(locked, time.Since(begin))
			if err := l.Unlock(ctx); err != nil {
				return err
			}
			freed = append(freed, time.Since(begin))
		}
		lock.Add(locked...)
		both.Add(freed...)
		return nil
	})
	if err != nil {
		return err
	}
	e.Record(pairsRow(n), m.done(e).rate(both.Len()))
	if n == 1 {
		e.Record("Lock, one caller, p50", lock.Quantile(.5))
		e.Record("Lock, one caller, p99", lock.Quantile(.99))
		e.Record("Lock and Unlock, one caller, p50", both.Quantile(.5))
		e.Record("Lock and Unlock, one caller, p99", both.Quantile(.99))
	}
	return nil
}
