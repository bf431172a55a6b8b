package work

import (
	"context"
	"fmt"
	"time"

	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/stats"
)

const handoverOne = "handover, one waiter, p50"

func handoverMany(waiters int) string { return fmt.Sprintf("handover, %d waiters", waiters) }

func handoverMetrics(z Sizes) []Metric {
	return []Metric{
		{Name: handoverOne, Unit: "ms"},
		{Name: handoverMany(z.Waiters) + ", p50", Unit: "ms"},
		{Name: handoverMany(z.Waiters), Unit: "handovers/s", More: true},
	}
}

// handover takes the time from the call of Unlock to the return of the next one's Lock.
func handover(ctx context.Context, e *Env) error {
	client, err := e.Cell.Client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := handoverToOne(ctx, e, client); err != nil {
		return err
	}
	return handoverThrough(ctx, e, client, e.Sizes.Waiters)
}

// grant is a lock that a waiter has got, and when, or why not.
type grant struct {
	lock peer.Lock
	at   time.Time
	err  error
}

// waitFor takes the lock on a goroutine of its own. The channel yields one grant, at the latest when ctx ends.
func waitFor(ctx context.Context, s peer.Session, name string) <-chan grant {
	granted := make(chan grant, 1)
	go func() {
		l, err := s.Lock(ctx, name)
		granted <- grant{l, time.Now(), err}
	}()
	return granted
}

// handoverToOne has two sessions that hand one lock to and fro.
func handoverToOne(ctx context.Context, e *Env, client peer.Client) error {
	const queued = 15 * time.Millisecond // until the waiter waits
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	two, err := openSessions(ctx, client, 2, sessionTTL)
	if err != nil {
		return err
	}
	defer closeSessions(ctx, two)
	held, err := two[0].Lock(ctx, "toandfro")
	if err != nil {
		return err
	}
	var taken stats.Latencies
	m := e.measure()
	for i, end := 1, time.Now().Add(e.Sizes.Window); time.Now().Before(end); i++ {
		next := waitFor(ctx, two[i%2], "toandfro")
		if err := sleep(ctx, queued); err != nil {
			return err
		}
		begin := time.Now()
		if err := held.Unlock(ctx); err != nil {
			return err
		}
		got := <-next
		if got.err != nil {
			return got.err
		}
		taken.Add(got.at.Sub(begin))
		held = got.lock
	}
	m.done(e)
	e.Record(handoverOne, taken.Quantile(.5))
	return held.Unlock(ctx)
}

// handoverThrough passes one lock through a long queue, each holder freeing it at once.
func handoverThrough(ctx context.Context, e *Env, client peer.Client, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	opened, err := openSessions(ctx, client, n+1, 3*sessionTTL)
	if err != nil {
		return err
	}
	defer closeSessions(ctx, opened)
	held, err := opened[n].Lock(ctx, "queue")
	if err != nil {
		return err
	}
	granted := make(chan grant, n)
	for _, s := range opened[:n] {
		go func() { granted <- <-waitFor(ctx, s, "queue") }()
	}
	if err := sleep(ctx, max(500*time.Millisecond, e.Sizes.Window)); err != nil { // all of them wait
		return err
	}
	var taken stats.Latencies
	m := e.measure()
	for range n {
		begin := time.Now()
		if err := held.Unlock(ctx); err != nil {
			return err
		}
		got := <-granted
		if got.err != nil {
			return got.err
		}
		taken.Add(got.at.Sub(begin))
		held = got.lock
	}
	e.Record(handoverMany(n), m.done(e).rate(n))
	e.Record(handoverMany(n)+", p50", taken.Quantile(.5))
	return held.Unlock(ctx)
}
