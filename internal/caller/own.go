package caller

import (
	"context"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/cancel"
)

// own is the session under which a node makes the changes of calls that name none. It is opened when it is first needed,
// and anew when it has ended.
type own struct {
	turn    chan struct{} // of one: held while a session is looked up or opened
	room    chan struct{} // a place for each change under way: the callers know of no session, and of no limit of one
	session *Session
}

func newOwn() *own {
	return &own{turn: make(chan struct{}, 1), room: make(chan struct{}, fsm.MaxOutstanding/2)}
}

// Change makes a change under the node's own session.
func (c *Caller) Change(ctx context.Context, build func(fsm.Change) fsm.Command) (fsm.Result, error) {
	if err := c.enter(ctx, c.own.room); err != nil {
		return fsm.Result{}, err
	}
	defer func() { <-c.own.room }()
	for {
		x, err := c.ownSession(ctx)
		if err != nil {
			return fsm.Result{}, err
		}
		res, err := x.Change(ctx, build)
		if err == nil && res.Code == fsm.UnknownSession {
			continue // it had ended before its only attempt: nothing was changed
		}
		return res, err
	}
}

// enter takes a place in one of own's channels.
func (c *Caller) enter(ctx context.Context, places chan<- struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return gaveUp(cancel.Reason(ctx), false, c.cfg.Cell.Route().Leader != "")
	case <-c.cfg.Stop.Done():
		return c.cfg.Stopped()
	}
}

func (c *Caller) ownSession(ctx context.Context) (*Session, error) {
	if err := c.enter(ctx, c.own.turn); err != nil {
		return nil, err
	}
	defer func() { <-c.own.turn }()
	if x := c.own.session; x != nil && x.lease.Alive() {
		return x, nil
	}
	x, err := c.openSession(ctx, SessionOptions{TTL: c.defaultTTL(), Label: c.cfg.Name}, true)
	if err == nil {
		c.own.session = x
	}
	return x, err
}
