package caller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/cancel"
	"github.com/coordcell/coord/internal/lease"
)

// Lock waits until the session holds what is asked for, whose Change it fills in; at most for maxWait, 0: as long as ctx.
// The result's code is OK with the token as its revision, Locked, or a refusal. When it returns an error, what it may have
// left in the queue is withdrawn in the background: the number of the request is refused from then on, so that not even a
// copy of it that is still under way can take the lock.
//
// sent is what the lease clock said before the first attempt left: what the cell gave with a grant it gave later.
func (x *Session) Lock(ctx context.Context, asked fsm.Lock, maxWait time.Duration) (res fsm.Result, sent time.Duration, err error) {
	res, err = x.lock(ctx, asked, maxWait, &sent)
	return res, sent, err
}

func (x *Session) lock(ctx context.Context, asked fsm.Lock, maxWait time.Duration, sent *time.Duration) (fsm.Result, error) {
	if err := x.lease.Err(); err != nil {
		return fsm.Result{}, err
	}
	waiting := ctx
	if maxWait > 0 {
		var done context.CancelFunc
		waiting, done = context.WithTimeoutCause(ctx, maxWait, errMaxWait)
		defer done()
	}
	c := x.author.begin(x.id)
	asked.Change = c
	r := request{cmd: asked, leaving: func() { *sent = x.caller.cfg.Now() }}
	res, err := x.carry(waiting, c, &r)
	attempts := r.attempts
	if err == nil {
		return res, nil
	}
	// From here on the number is not acknowledged by others: if the lock has been granted meanwhile, the cell must still
	// know the grant by that number, or the withdrawal would find nothing to free.
	if attempts == 0 {
		x.author.settled(c.Seq)
		return fsm.Result{}, err
	}
	if errors.Is(err, errMaxWait) {
		if res, ok := x.leaveQueue(ctx, c.Seq); ok {
			return res, nil
		}
		if ctx.Err() != nil {
			err = cancel.Reason(ctx)
		} else { // nobody could say that others are ahead
			err = fmt.Errorf("%w: %w", ErrNoLeader, errMaxWait)
		}
	}
	if x.lease.Err() == nil {
		x.caller.cfg.Go(func() { x.withdraw(c.Seq) })
	}
	// Nothing is left to be unknown: whatever becomes of the request, it is being withdrawn.
	var unknown *unknownError
	if errors.As(err, &unknown) {
		err = unknown.cause
	}
	return fsm.Result{}, err
}

// Hold is called with a grant. The lease decides, at this moment, whether it may still be handed out: one that arrives at
// or after the end of the lease may already be somebody else's. While the session is suspended nobody can say, and Hold
// waits; an error while the session has not ended is ctx's, and the grant is the caller's to release.
func (x *Session) Hold(ctx context.Context) (*lease.Hold, error) {
	return x.onceItMay(ctx, func() (*lease.Hold, error) { return x.lease.Hold(ctx) })
}

// onceItMay makes a hold, and waits with that while the session is suspended.
func (x *Session) onceItMay(ctx context.Context, hold func() (*lease.Hold, error)) (*lease.Hold, error) {
	for {
		h, err := hold()
		if !errors.Is(err, ErrSuspended) {
			return h, err
		}
		select {
		case <-x.lease.Resumed():
		case <-ctx.Done():
			return nil, cancel.Reason(ctx)
		}
	}
}

// HoldFor is Hold for a grant with a lease of its own, of which sent is what the lease clock said before the first attempt
// to ask for it left. One that has waited for its turn is refreshed first: the cell gave it a full lease with the grant,
// but nobody here knows when that was. ErrLockExpired: it came too late.
func (x *Session) HoldFor(ctx context.Context, g fsm.GrantID, ttl, sent time.Duration) (*lease.Hold, error) {
	return x.onceItMay(ctx, func() (*lease.Hold, error) {
		if x.caller.cfg.Now()-sent > ttl/4 {
			var err error
			if sent, err = x.Refresh(ctx, g); errors.Is(err, ErrGrantGone) {
				return nil, lease.ErrLockExpired
			} else if err != nil {
				return nil, err
			}
		}
		return x.lease.HoldFor(ctx, ttl, sent)
	})
}

// leaveQueue takes a request out of the queue that has waited long enough. If it has been granted meanwhile, so be it.
func (x *Session) leaveQueue(ctx context.Context, target uint64) (fsm.Result, bool) {
	ctx, done := context.WithTimeout(ctx, x.caller.cfg.ElectionTimeout)
	defer done()
	res, err := x.Change(ctx, func(c fsm.Change) fsm.Command {
		return fsm.Withdraw{Change: c, Target: target, OnlyQueued: true}
	})
	switch {
	case err != nil:
		return fsm.Result{}, false
	case res.Code == fsm.Granted:
		x.author.settled(target)
		return fsm.Result{Code: fsm.OK, Revision: res.Revision}, true
	case res.Code == fsm.UnknownSession:
		return res, true
	case res.Code == fsm.LimitReached:
		return fsm.Result{}, false
	default:
		return fsm.Result{Code: fsm.Locked}, true
	}
}

// withdraw repeats until the cell knows that nobody wants the lock any more, or the session has ended.
func (x *Session) withdraw(target uint64) {
	_, err := x.Change(context.Background(), func(c fsm.Change) fsm.Command {
		return fsm.Withdraw{Change: c, Target: target}
	})
	if err != nil && x.lease.Err() == nil {
		x.caller.cfg.Logger.Warn("a lock request could not be withdrawn", "session", x.id, "request", target, "error", err)
	}
}

// Release frees a grant in the background, and calls done, once, when the cell has answered or can answer no more. The
// holder has stopped before it calls Release.
func (x *Session) Release(name string, token fsm.Revision, done func(fsm.Result, error)) {
	free := func() { done(x.unlock(name, token)) }
	if !x.caller.cfg.Go(free) {
		done(fsm.Result{}, ErrClosed)
	}
}

// HandOver is Release to a session that waits for the name. If it does not wait any more the answer is NotQueued, and the
// grant is freed all the same: its holder has stopped.
func (x *Session) HandOver(name string, token fsm.Revision, to fsm.SessionID, done func(fsm.Result, error)) {
	give := func() {
		res, err := x.Change(context.Background(), func(c fsm.Change) fsm.Command {
			return fsm.HandOver{Change: c, Name: name, Token: token, To: to}
		})
		if err == nil && res.Code != fsm.OK && res.Code != fsm.NotHeld && res.Code != fsm.UnknownSession {
			if freed, err := x.unlock(name, token); err != nil || freed.Code != fsm.OK {
				done(freed, err)
				return
			}
		}
		done(res, err)
	}
	if !x.caller.cfg.Go(give) {
		done(fsm.Result{}, ErrClosed)
	}
}

func (x *Session) unlock(name string, token fsm.Revision) (fsm.Result, error) {
	return x.Change(context.Background(), func(c fsm.Change) fsm.Command {
		return fsm.Unlock{Change: c, Name: name, Token: token}
	})
}
