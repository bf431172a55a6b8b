package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/stats"
)

const failoverRow = "kill -9 of the leader to the next grant"

func failoverMetrics(Sizes) []Metric { return []Metric{{Name: failoverRow, Unit: "ms"}} }

// failover kills the leader again and again, and takes the time until anybody gets a lock. It records each kill.
func failover(ctx context.Context, e *Env) error {
	if _, _, err := e.Cell.Leader(ctx); errors.Is(err, peer.ErrUnsupported) {
		return err
	}
	client, err := e.Cell.Client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	for k := range e.Sizes.Kills {
		if err := killLeader(ctx, e, client, k); err != nil {
			return fmt.Errorf("kill %d: %w", k+1, err)
		}
	}
	return nil
}

func killLeader(ctx context.Context, e *Env, client peer.Client, k int) error {
	s, err := client.Session(ctx, 2*sessionTTL)
	if err != nil {
		return err
	}
	if err := pair(ctx, s, "before"); err != nil {
		return err
	}
	// Not in step with heartbeats and renewals.
	if err := sleep(ctx, 300*time.Millisecond+rand.N(time.Second)); err != nil {
		return err
	}
	leader, _, err := e.Cell.Leader(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := e.Cell.Kill(leader); err != nil {
		return err
	}
	granted, err := firstOf(ctx, s, fmt.Sprint("after", k, "-"))
	if err != nil {
		return err
	}
	e.Record(failoverRow, stats.Milliseconds(granted.Sub(begin)))
	if err := e.Cell.Restart(ctx, leader); err != nil {
		return fmt.Errorf("new start: %w", err)
	}
	closing, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_ = s.Close(closing) // or it expires
	return nil
}

// firstOf asks for free locks, another one every 25 ms, without giving up those it has asked for before, and says when the
// first was granted. So no client is slower than it must be by a call that hangs, nor by a pause before a retry.
func firstOf(ctx context.Context, s peer.Session, prefix string) (time.Time, error) {
	const every, limit = 25 * time.Millisecond, 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	granted := make(chan time.Time, 1)
	last := make(chan error, 1)
	ask := func(name string) {
		_, err := s.Lock(ctx, name) // it goes with the session
		if err == nil {
			select {
			case granted <- time.Now():
			default:
			}
			return
		}
		select {
		case last <- err:
		default:
		}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; ; i++ {
		go ask(fmt.Sprint(prefix, i)) // ends with ctx
		select {
		case at := <-granted:
			return at, nil
		case <-tick.C:
		case <-ctx.Done():
			select {
			case err := <-last:
				return time.Time{}, fmt.Errorf("nothing was granted for %v; an attempt said: %w", limit, err)
			default:
				return time.Time{}, fmt.Errorf("nothing was granted for %v", limit)
			}
		}
	}
}
