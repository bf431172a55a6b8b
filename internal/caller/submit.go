package caller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/cancel"
)

const (
	leastBackoff = 5 * time.Millisecond
	mostBackoff  = 250 * time.Millisecond
	// perPausing is how much longer everybody's back-off becomes with each request that is between two attempts: together
	// they make 8,000 attempts a second at most. Ten thousand waiters whose leader has died would else keep their process
	// so busy with asking the dead one that it takes no part in electing the next. News of a leader ends every back-off.
	perPausing = 250 * time.Microsecond
)

// request is one change on its way to the leader, wherever that is, until it has been answered.
type request struct {
	cmd fsm.Command

	over     <-chan struct{} // closed when nobody wants the answer any more; nil: never
	cause    func() error    // why over was closed
	leaving  func()          // called before the first attempt leaves; may be nil
	attempts int             // that left
}

// submit sends a request to whoever leads, again and again, until the cell has answered it. Repeating it is safe: the
// state machine knows it by its key. It gives up when ctx ends, when nobody wants the answer, and when the node stops.
func (c *Caller) submit(ctx context.Context, r *request) (fsm.Result, error) {
	maybe, led := false, false
	leader := ""
	for try := 0; ; try++ {
		rt := c.cfg.Cell.Route()
		led = led || rt.Leader != ""
		if rt.Leader != leader { // what became of attempts with another one says nothing
			leader, try = rt.Leader, 0
		}
		if rt.Leader != "" && ctx.Err() == nil {
			if r.attempts == 0 && r.leaving != nil {
				r.leaving()
			}
			r.attempts++
			res, err := c.attempt(ctx, rt, r)
			if err == nil {
				return res, nil
			}
			var refused *RefusedError
			switch {
			case errors.As(err, &refused) && maybe:
				return fsm.Result{}, &unknownError{refused.Err}
			case errors.As(err, &refused):
				return fsm.Result{}, refused.Err
			case !errors.Is(err, ErrNotSent):
				maybe = true
			}
		}
		if err := c.pause(ctx, r, rt, try); err != nil {
			return fsm.Result{}, gaveUp(err, maybe, led)
		}
	}
}

// Pause waits before the next attempt of a call that changes nothing, and returns why there is to be none.
func (c *Caller) Pause(ctx context.Context, rt Route, try int) error {
	return c.pause(ctx, &request{}, rt, try)
}

// GaveUp is the error of a call that changes nothing and was given up because of cause. led: somebody led meanwhile.
func GaveUp(cause error, led bool) error { return gaveUp(cause, false, led) }

// pause waits before the next attempt, with full jitter, and no longer than the route is the same. It returns why there
// is to be none.
func (c *Caller) pause(ctx context.Context, r *request, rt Route, try int) error {
	backoff := time.NewTimer(jitter(try, c.pausing.Add(1)))
	defer c.pausing.Add(-1)
	defer backoff.Stop()
	select {
	case <-rt.Changed:
	case <-backoff.C:
	case <-ctx.Done():
	case <-r.over:
	case <-c.cfg.Stop.Done():
	}
	return c.ended(ctx, r)
}

// ended says why no further attempt is to be made; nil: it is.
func (c *Caller) ended(ctx context.Context, r *request) error {
	select {
	case <-c.cfg.Stop.Done():
		return c.cfg.Stopped()
	default:
	}
	select {
	case <-r.over:
		return r.cause()
	default:
	}
	if ctx.Err() != nil {
		return cancel.Reason(ctx)
	}
	return nil
}

// gaveUp is the error of a request that was given up because of cause.
func gaveUp(cause error, maybe, led bool) error {
	switch {
	case maybe:
		return &unknownError{cause}
	case led, errors.Is(cause, ErrClosed), errors.Is(cause, ErrSessionExpired), errors.Is(cause, ErrSessionClosed):
		return cause
	default:
		return fmt.Errorf("%w: %w", ErrNoLeader, cause)
	}
}

// attempt sends a request once, and waits for its answer for as long as the leader stays the same.
func (c *Caller) attempt(ctx context.Context, rt Route, r *request) (fsm.Result, error) {
	// Room for the answer and for a failure: whoever sends one never waits, and the second finds nobody.
	answers := make(chan Answer, 2)
	forget := c.cfg.Cell.Propose(ctx, rt, r.cmd, answers)
	defer forget()
	select {
	case a := <-answers:
		return a.Result, a.Err
	case <-rt.Changed:
		return fsm.Result{}, ErrNotLeader
	case <-ctx.Done():
		return fsm.Result{}, cancel.Reason(ctx)
	case <-r.over:
		return fsm.Result{}, r.cause()
	case <-c.cfg.Stop.Done():
		return fsm.Result{}, ErrClosed
	}
}

// jitter is a random time up to a bound that doubles with each try, and grows with the number of requests that pause.
func jitter(try int, pausing int64) time.Duration {
	most := min(leastBackoff<<min(try, 16), mostBackoff)
	return rand.N(max(most, time.Duration(pausing)*perPausing)) + time.Millisecond
}
