package work

import (
	"context"
	"fmt"
	"time"

	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/stats"
)

func keyMetrics(z Sizes) []Metric {
	return []Metric{
		{Name: "Put, one caller, p50", Unit: "ms"},
		{Name: "Get, one caller, p50", Unit: "ms"},
		{Name: fmt.Sprintf("Put, %d callers", z.Readers), Unit: "puts/s", More: true},
		{Name: fmt.Sprintf("Get, %d callers", z.Readers), Unit: "gets/s", More: true},
	}
}

// keys writes and reads small values.
func keys(ctx context.Context, e *Env) error {
	client, err := e.Cell.Client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	const value = "a value of thirty-two bytes, so."
	put := func(ctx context.Context, i int) error { return client.Put(ctx, fmt.Sprint("kv/", i), value) }
	get := func(ctx context.Context, i int) error {
		got, err := client.Get(ctx, fmt.Sprint("kv/", i))
		if err == nil && got != value && got != peer.NoValue {
			err = fmt.Errorf("got %q of a key that has %q", got, value)
		}
		return err
	}
	for _, kind := range []struct {
		name string
		call func(ctx context.Context, i int) error
	}{{"Put", put}, {"Get", get}} {
		for _, n := range []int{e.Sizes.Readers, 1} { // the many write what is read
			taken, rate, err := e.repeat(ctx, n, kind.call)
			if err != nil {
				return err
			}
			if n == 1 {
				e.Record(kind.name+", one caller, p50", taken.Quantile(.5))
			} else {
				e.Record(fmt.Sprintf("%s, %d callers", kind.name, n), rate)
			}
		}
	}
	return nil
}

// repeat has n callers do the same for one window.
func (e *Env) repeat(ctx context.Context, n int, call func(ctx context.Context, caller int) error) (*stats.Latencies, float64, error) {
	var all stats.Latencies
	if err := parallel(ctx, n, call); err != nil { // each once, unmeasured
		return nil, 0, err
	}
	m := e.measure()
	end := time.Now().Add(e.Sizes.Window)
	err := parallel(ctx, n, func(ctx context.Context, i int) error {
		var taken []time.Duration
		for time.Now().Before(end) {
			begin := time.Now()
			if err := call(ctx, i); err != nil {
				return err
			}
			taken = append(taken, time.Since(begin))
		}
		all.Add(taken...)
		return nil
	})
	return &all, m.done(e).rate(all.Len()), err
}
