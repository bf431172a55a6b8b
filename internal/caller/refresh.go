package caller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/wire"
)

// ErrGrantGone says that the cell knows that the session does not hold a grant any more.
var ErrGrantGone = errors.New("the grant has ended")

// Refresh asks the leader for a full TTL of a grant's own lease, and repeats that until it is answered. It returns what
// the lease clock said before the message left that was acknowledged: the lease counts from there (lease.Hold.Refreshed).
// Nothing is written to the log. A grant that is marked may be refreshed; its stop has been called when Refresh returns.
//
// Errors: ErrGrantGone, the session's, ctx's with ErrNoLeader if nobody has led, ErrClosed.
func (x *Session) Refresh(ctx context.Context, g fsm.GrantID) (sent time.Duration, err error) {
	leader, led := "", false
	for try := 0; ; try++ {
		if err := x.lease.Err(); err != nil {
			return 0, err
		}
		rt := x.caller.cfg.Cell.Route()
		if rt.Leader != leader {
			leader, try = rt.Leader, 0
		}
		led = led || rt.Leader != ""
		if rt.Leader != "" && ctx.Err() == nil {
			sent, err := x.refresh(ctx, g)
			if err == nil || errors.Is(err, ErrGrantGone) {
				return sent, err
			}
			x.caller.cfg.Logger.Debug("a lock was not refreshed", "session", x.id, "lock", g.Name, "error", err)
		}
		if err := x.caller.pause(ctx, &request{over: x.lease.Done(), cause: x.lease.Err}, rt, try); err != nil {
			return 0, gaveUp(err, false, led)
		}
	}
}

// refresh makes one attempt.
func (x *Session) refresh(ctx context.Context, g fsm.GrantID) (sent time.Duration, err error) {
	ctx, done := context.WithTimeout(ctx, 2*x.caller.cfg.ElectionTimeout)
	defer done()
	m := wire.Refresh{Session: x.id, Number: x.refreshes.Add(1), Grant: g}
	sent = x.caller.cfg.Now()
	payload, err := x.caller.cfg.Cell.Ask(ctx, wire.AskRefresh, m.Append(nil))
	if err != nil {
		return 0, err
	}
	a, err := wire.DecodeRefreshAnswer(payload)
	switch {
	case err != nil:
		return 0, err
	case a.Number != m.Number: // an answer to another message says nothing of this one
		return 0, fmt.Errorf("answer %d to message %d", a.Number, m.Number)
	}
	x.caller.heed(a.Marks)
	switch a.State {
	case wire.Refreshed:
		return sent, nil
	case wire.RefreshGone:
		return 0, ErrGrantGone
	default:
		return 0, errors.New("not yet")
	}
}
