package caller

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/cancel"
	"github.com/coordcell/coord/internal/lease"
)

// Session is a session of this process.
type Session struct {
	caller *Caller
	id     fsm.SessionID
	ttl    time.Duration
	lease  *lease.Lease
	author author
	marks  marks

	refreshes atomic.Uint64 // the number of the last one

	closing sync.Once
	closed  chan struct{} // the cell knows, or has ended the session by itself by now
}

// openSession opens a session. Its lease counts from the first attempt that left, whichever was answered: the leader
// may have begun to count then. An answer that comes after that lease has run out is worth nothing; the session it
// made ends by itself, and another one is asked for.
func (c *Caller) openSession(ctx context.Context, o SessionOptions, internal bool) (*Session, error) {
	for {
		cmd := fsm.OpenSession{TTL: int64(o.TTL), Label: o.Label, Node: c.cfg.Node, Internal: internal}
		if _, err := rand.Read(cmd.Nonce[:]); err != nil {
			return nil, err
		}
		var sent time.Duration
		late := make(chan struct{})
		var timer *time.Timer
		r := request{cmd: cmd, over: late, cause: func() error { return errTooLate }}
		r.leaving = func() {
			sent = c.cfg.Now()
			timer = time.AfterFunc(o.TTL, func() { close(late) })
		}
		res, err := c.submit(ctx, &r)
		if timer != nil {
			timer.Stop()
		}
		switch {
		case errors.Is(err, errTooLate):
			continue
		case err != nil:
			return nil, err
		case res.Code == fsm.LimitReached:
			return nil, c.cfg.Cell.LimitError(res.Limit)
		case res.Code != fsm.OK:
			return nil, fmt.Errorf("%w: the cell refused the session (%d)", ErrInvalid, res.Code)
		}
		if x, err := c.newSession(res.Session, o, sent); x != nil || err != nil {
			return x, err
		}
	}
}

// newSession begins to keep a session alive. It returns nil if its lease has run out already. A node that is going lets
// no further session in: what the cell has opened for it is left to expire.
func (c *Caller) newSession(id fsm.SessionID, o SessionOptions, sent time.Duration) (*Session, error) {
	x := &Session{caller: c, id: id, ttl: o.TTL, closed: make(chan struct{}), lease: lease.New(o.TTL, o.Grace, c.cfg.Now, sent)}
	if !c.sessions.add(x) {
		x.lease.End(ErrClosed)
		return nil, ErrClosed
	}
	context.AfterFunc(x.lease.Life(), func() { c.sessions.remove(x) })
	if !x.lease.Alive() {
		return nil, nil
	}
	c.renewer.Add(id, x.lease)
	return x, nil
}

// ID is the session's id.
func (x *Session) ID() fsm.SessionID { return x.id }

// TTL is the session's TTL.
func (x *Session) TTL() time.Duration { return x.ttl }

// Lease is how long this process may act for the session.
func (x *Session) Lease() *lease.Lease { return x.lease }

// Change makes a change of the session, once however often it has to be sent, and returns what the cell answered.
// Errors: the session's, ctx's with ErrNoLeader or ErrOutcomeUnknown, ErrClosed, ErrLimit.
func (x *Session) Change(ctx context.Context, build func(fsm.Change) fsm.Command) (fsm.Result, error) {
	if err := x.lease.Err(); err != nil {
		return fsm.Result{}, err
	}
	c := x.author.begin(x.id)
	res, attempts, err := x.submit(ctx, c, build(c))
	if err != nil {
		x.author.settled(c.Seq) // nobody will ask for its result any more
		return res, err
	}
	if res.Code == fsm.UnknownSession && attempts > 1 {
		return res, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ErrSessionExpired) // an earlier attempt may have been in time
	}
	return res, nil
}

// submit sends a numbered change until it is answered, and takes note of what that says about the session.
func (x *Session) submit(ctx context.Context, c fsm.Change, cmd fsm.Command) (res fsm.Result, attempts int, err error) {
	r := request{cmd: cmd}
	res, err = x.carry(ctx, c, &r)
	return res, r.attempts, err
}

// carry sends a request that is c until it is answered, at most as long as the session lasts.
func (x *Session) carry(ctx context.Context, c fsm.Change, r *request) (fsm.Result, error) {
	r.over, r.cause = x.lease.Done(), x.lease.Err
	res, err := x.caller.submit(ctx, r)
	switch {
	case err != nil:
		x.author.unanswered(c)
	case res.Code == fsm.UnknownSession:
		x.lease.End(ErrSessionExpired) // the log has it that the session is gone
	default:
		x.author.answered(c)
	}
	return res, err
}

// Close ends the session: first for this process, then for the cell, which is told in the background until it knows,
// or until it must have ended the session by itself.
func (x *Session) Close(ctx context.Context) error { return x.close(ctx, ErrSessionClosed) }

func (x *Session) close(ctx context.Context, cause error) error {
	x.closing.Do(func() {
		x.caller.sessions.leave(x)
		live := x.lease.End(cause)
		x.caller.renewer.Remove(x.id)
		if !live || !x.caller.cfg.Go(x.tellClosed) {
			x.left()
		}
	})
	select {
	case <-x.closed:
		return nil
	default:
	}
	select {
	case <-x.closed:
		return nil
	case <-ctx.Done():
		return cancel.Reason(ctx)
	}
}

func (x *Session) tellClosed() {
	defer x.left()
	ctx, done := context.WithTimeout(context.Background(), x.ttl)
	defer done()
	c := x.author.begin(x.id)
	r := request{cmd: fsm.CloseSession{Change: c}}
	if _, err := x.caller.submit(ctx, &r); err != nil {
		x.caller.cfg.Logger.Debug("a closed session is left to expire", "session", x.id, "error", err)
	}
}

// left is called when nothing more will be told to the cell.
func (x *Session) left() {
	x.caller.sessions.gone(x)
	close(x.closed)
}
