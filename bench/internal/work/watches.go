package work

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/proc"
	"github.com/coordcell/coord/bench/internal/stats"
)

func watchRow(watchers int, what string) string {
	return fmt.Sprintf("watch, %d watchers, %s", watchers, what)
}

func watchMetrics(z Sizes) (rows []Metric) {
	for _, n := range z.Watchers {
		rows = append(rows,
			Metric{Name: watchRow(n, "put to event, p50"), Unit: "ms"},
			Metric{Name: watchRow(n, "put to event, p99"), Unit: "ms"},
			Metric{Name: watchRow(n, "one put at a time"), Unit: "events/s", More: true},
			Metric{Name: watchRow(n, "puts without a pause"), Unit: "events/s", More: true},
			Metric{Name: watchRow(n, "memory of the servers for each"), Unit: "bytes"})
	}
	return rows
}

// watches has many watchers of one prefix, all told of the same puts.
func watches(ctx context.Context, e *Env) error {
	for _, n := range e.Sizes.Watchers {
		if err := watchesBy(ctx, e, n); err != nil {
			return fmt.Errorf("%d watchers: %w", n, err)
		}
	}
	return nil
}

func watchesBy(ctx context.Context, e *Env, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Second)
	defer cancel()
	client, err := e.Cell.Client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Put(ctx, "w/k", "-1"); err != nil {
		return err
	}
	a := newAudience(n, 2*e.Sizes.Puts)
	before := proc.RSS(e.Cell.PIDs()...)
	err = each(ctx, n, 64, func(armed context.Context, i int) error {
		return client.Watch(ctx, "w/", func(value string) { a.saw(i, value) })
	})
	if err != nil {
		return err
	}
	defer cancel() // before the client is closed
	e.Record(watchRow(n, "memory of the servers for each"), float64(proc.RSS(e.Cell.PIDs()...)-before)/float64(n))
	rate, err := a.show(ctx, e, client, 0, true)
	if err != nil {
		return err
	}
	e.Record(watchRow(n, "one put at a time"), rate)
	e.Record(watchRow(n, "put to event, p50"), a.taken().Quantile(.5))
	e.Record(watchRow(n, "put to event, p99"), a.taken().Quantile(.99))
	if rate, err = a.show(ctx, e, client, e.Sizes.Puts, false); err == nil {
		e.Record(watchRow(n, "puts without a pause"), rate)
	}
	return err
}

// audience is the watchers of a series of puts, whose values are 0, 1, ….
type audience struct {
	watchers int
	begun    []atomic.Int64 // of each put: when, in nanoseconds
	seen     []atomic.Int64 // of each put: by how many
	events   atomic.Int64
	lat      []stats.Latencies // of each watcher
}

func newAudience(watchers, puts int) *audience {
	return &audience{
		watchers: watchers, begun: make([]atomic.Int64, puts), seen: make([]atomic.Int64, puts),
		lat: make([]stats.Latencies, watchers),
	}
}

// saw is called by each watcher's own goroutine.
func (a *audience) saw(watcher int, value string) {
	put, err := strconv.Atoi(value)
	if err != nil || put < 0 || put >= len(a.begun) {
		return
	}
	a.lat[watcher].Add(time.Duration(time.Now().UnixNano() - a.begun[put].Load()))
	a.seen[put].Add(1)
	a.events.Add(1)
}

// taken is all times from the call of Put to the event.
func (a *audience) taken() *stats.Latencies {
	var all stats.Latencies
	for i := range a.lat {
		all.Add(a.lat[i].All()...)
	}
	return &all
}

// show makes puts from the given number on, one after all have seen the one before, or as fast as they are acknowledged,
// and waits for the events. Services that tell of several puts by one event, as is their right, deliver fewer: those that
// came count, until nothing has come for a second.
func (a *audience) show(ctx context.Context, e *Env, client peer.Client, from int, inStep bool) (float64, error) {
	const limit, silence = 12 * time.Second, time.Second
	begun, before := time.Now(), a.events.Load()
	m := e.measure()
	made := 0
	for put := from; put < from+e.Sizes.Puts && time.Since(begun) < limit; put++ {
		a.begun[put].Store(time.Now().UnixNano())
		if err := client.Put(ctx, "w/k", strconv.Itoa(put)); err != nil {
			return 0, err
		}
		made++
		for inStep && a.seen[put].Load() < int64(a.watchers) && time.Since(begun) < limit {
			time.Sleep(50 * time.Microsecond)
		}
	}
	last, lastAt := a.events.Load(), time.Now()
	for last-before < int64(made*a.watchers) && time.Since(lastAt) < silence {
		if err := sleep(ctx, 200*time.Microsecond); err != nil {
			return 0, err
		}
		if now := a.events.Load(); now != last {
			last, lastAt = now, time.Now()
		}
	}
	if last == before {
		return 0, errors.New("no event came")
	}
	m.done(e)
	return float64(last-before) / lastAt.Sub(begun).Seconds(), nil
}
