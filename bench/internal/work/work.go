package work

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordcell/coord/bench/internal/peer"
)

// Sizes says how much of everything.
type Sizes struct {
	Window   time.Duration // of each timed part
	Callers  []int         // at once, each with a session and a lock of its own
	Waiters  int           // in one queue
	Readers  int           // and writers, at once
	Watchers []int         // of one prefix
	Puts     int           // that they watch
	Sessions int           // kept alive at once, and then ended at once
	TTL      time.Duration // of those; whole seconds
	Held     int           // locks at once
	HeldTime time.Duration // to take them in, at most
	Kills    int           // of the leader, in one round
}

// Workload is one kind of load on one cell.
type Workload struct {
	Name    string
	Fresh   bool          // it wants a cell that nothing has been done with
	Limit   time.Duration // it takes no longer, or has hung
	Metrics func(Sizes) []Metric
	Run     func(ctx context.Context, e *Env) error
}

// Metric is a row of the table.
type Metric struct {
	Name string
	Unit string
	More bool // more is better
}

// All workloads, in the order in which they run.
func All() []Workload {
	return []Workload{
		{Name: "start", Limit: 2 * time.Minute, Metrics: startMetrics, Run: start},
		{Name: "locks", Limit: time.Minute, Metrics: lockMetrics, Run: locks},
		{Name: "handover", Limit: time.Minute, Metrics: handoverMetrics, Run: handover},
		{Name: "keys", Limit: time.Minute, Metrics: keyMetrics, Run: keys},
		{Name: "watches", Limit: 2 * time.Minute, Metrics: watchMetrics, Run: watches},
		{Name: "failover", Limit: 10 * time.Minute, Metrics: failoverMetrics, Run: failover},
		{Name: "sessions", Limit: 4 * time.Minute, Metrics: sessionMetrics, Run: sessions},
		{Name: "held", Fresh: true, Limit: 5 * time.Minute, Metrics: heldMetrics, Run: held},
	}
}

// Env is what a workload runs on.
type Env struct {
	Backend string // its name, for the processes that hold its sessions
	Cell    peer.Cell
	Sizes   Sizes
	Began   time.Time // when the cell's processes were started
	Record  func(metric string, value float64)
	Usage   func(Usage) // told what each timed part used
}

// warm does what is measured later, unmeasured.
func warm(ctx context.Context, client peer.Client, d time.Duration) error {
	end := time.Now().Add(d)
	return parallel(ctx, 32, func(ctx context.Context, i int) error {
		s, err := client.Session(ctx, sessionTTL)
		if err != nil {
			return err
		}
		defer s.Close(ctx)
		for time.Now().Before(end) {
			if err := pair(ctx, s, fmt.Sprint("warm", i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// sessionTTL is for sessions whose life is not what is measured.
const sessionTTL = 12 * time.Second

// pair is a lock and its unlock.
func pair(ctx context.Context, s peer.Session, name string) error {
	l, err := s.Lock(ctx, name)
	if err != nil {
		return err
	}
	return l.Unlock(ctx)
}

// openSessions opens n sessions, 64 at a time.
func openSessions(ctx context.Context, client peer.Client, n int, ttl time.Duration) ([]peer.Session, error) {
	opened := make([]peer.Session, n)
	err := each(ctx, n, 64, func(ctx context.Context, i int) (err error) {
		opened[i], err = client.Session(ctx, ttl)
		return err
	})
	return opened, err
}

// closeSessions ends them as well as it can: what is left over expires.
func closeSessions(ctx context.Context, opened []peer.Session) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_ = each(ctx, len(opened), 128, func(ctx context.Context, i int) error {
		_ = opened[i].Close(ctx)
		return nil
	})
}

// parallel runs n callers at once and waits for them. The first error ends the context of the others and is returned.
func parallel(ctx context.Context, n int, call func(ctx context.Context, caller int) error) error {
	return each(ctx, n, n, call)
}

// each calls do for 0 … n-1, at most so many at once, as parallel does.
func each(ctx context.Context, n, atOnce int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan int)
	var wg sync.WaitGroup
	for range min(n, atOnce) {
		wg.Go(func() {
			for i := range todo {
				if err := do(ctx, i); err != nil {
					cancel(err) // the first one counts
					return
				}
			}
		})
	}
feeding:
	for i := range n {
		select {
		case todo <- i:
		case <-ctx.Done():
			break feeding
		}
	}
	close(todo)
	wg.Wait()
	return context.Cause(ctx)
}

// sleep waits, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
