package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/history"
)

// grant is what a locker or a candidate holds. coord.Lock and coord.Leadership both are one.
type grant interface {
	Check() error
	Lost() <-chan struct{}
}

// holdLock takes a lock, works under it for a while, and lets go.
func (c *client) holdLock(ctx context.Context) {
	name := fmt.Sprint("lock/", c.rng.IntN(c.load.cfg.Locks))
	if c.chance(4) {
		c.lookup(ctx, name)
	}
	l := c.lock(ctx, name)
	if l == nil {
		return
	}
	c.hold(ctx, name, l, uint64(l.Token()), func() {
		if c.chance(2) {
			c.putHeld(ctx, l)
		} else {
			c.lookup(ctx, name)
		}
	})
	if c.chance(8) {
		_, cctx, cancel := c.limited(ctx)
		defer cancel()
		c.close(cctx)
		c.afterwards(name, l)
		return
	}
	op := c.begin(history.Op{Kind: history.Unlock, Name: name, Token: uint64(l.Token())})
	limit, uctx, cancel := c.limited(ctx)
	defer cancel()
	c.end(op, l.Unlock(uctx), limit)
	c.afterwards(name, l)
}

func (c *client) lock(ctx context.Context, name string) *coord.Lock {
	kind := history.Lock
	limit, lctx, cancel := c.limited(ctx)
	defer cancel()
	var call func() (*coord.Lock, error)
	switch c.rng.IntN(5) {
	case 0:
		kind = history.TryLock
		call = func() (*coord.Lock, error) { return c.session.TryLock(lctx, name) }
	case 1:
		wait := 1 + c.upTo(c.load.cfg.TTL)
		call = func() (*coord.Lock, error) { return c.session.Lock(lctx, name, coord.WithMaxWait(wait)) }
	default:
		call = func() (*coord.Lock, error) { return c.session.Lock(lctx, name) }
	}
	op := c.begin(history.Op{Kind: kind, Name: name})
	l, err := call()
	if err == nil {
		op.Token = uint64(l.Token())
	}
	c.end(op, err, limit)
	return l
}

// hold works under a grant for a while.
func (c *client) hold(ctx context.Context, name string, g grant, token uint64, other func()) {
	turns := c.rng.IntN(6)
	if c.chance(10) { // long enough to be cut off, expire and be followed by another
		turns += 30
	}
	for range turns {
		c.check(name, g, token)
		switch c.rng.IntN(4) {
		case 0:
			other()
		case 1, 2:
			c.write(ctx, name, token)
		}
		if c.chance(60) { // it stalls, and finds out only afterwards what has become of its grant
			pause(ctx, c.upTo(3*c.load.cfg.TTL))
			c.write(ctx, name, token)
		}
		pause(ctx, c.upTo(c.load.cfg.TTL/5))
	}
	c.check(name, g, token)
}

func (c *client) check(name string, g grant, token uint64) {
	op := c.begin(history.Op{Kind: history.Check, Name: name, Token: token})
	err := g.Check()
	c.end(op, err, 0)
	if err != nil && !errors.Is(err, coord.ErrSuspended) {
		select {
		case <-g.Lost():
		default:
			c.load.cfg.Complain("G3", fmt.Sprintf("client %d: Check of %s says %v, and Lost is open", c.id, name, err))
		}
	}
}

// afterwards: whoever has let go may not act any more, whatever became of the release.
func (c *client) afterwards(name string, g grant) {
	if g.Check() == nil {
		c.load.cfg.Complain("G3", fmt.Sprintf("client %d: Check of %s is nil after it let go", c.id, name))
	}
}

// write writes to the resource, whether or not this client may still act: the resource has to refuse it.
func (c *client) write(ctx context.Context, name string, token uint64) {
	op := c.begin(history.Op{Kind: history.Write, Name: name, Token: token, Value: c.value()})
	c.end(op, c.load.cfg.Resource.Do(ctx, name, coord.Token(token), func(context.Context) error { return nil }), 0)
}

// putHeld writes a key on the condition that the lock is held.
func (c *client) putHeld(ctx context.Context, l *coord.Lock) {
	key, value := "held/"+l.Name(), c.value()
	limit, ctx, cancel := c.limited(ctx)
	defer cancel()
	op := c.begin(history.Op{
		Kind: history.Put, Name: key, Value: value, Lasting: true,
		If: history.Condition{Lock: l.Name(), Token: uint64(l.Token())},
	})
	res, err := c.node.Txn(ctx, coord.Txn{If: []coord.Condition{l.Held()}, Then: []coord.Op{coord.OpPut(key, []byte(value))}})
	if err == nil && !res.Succeeded {
		err = coord.ErrConflict
	}
	if err == nil {
		op.Revision = uint64(res.Results[0].Changed)
	}
	c.end(op, err, limit)
}

func (c *client) lookup(ctx context.Context, name string) {
	limit, ctx, cancel := c.limited(ctx)
	defer cancel()
	op := c.begin(history.Op{Kind: history.Lookup, Name: name})
	info, err := c.node.Lookup(ctx, name)
	if err == nil && len(info.Holders) > 0 {
		op.Holder, op.Token = uint64(info.Holders[0].Session), uint64(info.Holders[0].Token)
	}
	for _, w := range info.Queue {
		op.Queue = append(op.Queue, uint64(w.Session))
	}
	c.end(op, err, limit)
}

// holdOffice campaigns, leads for a while and resigns.
func (c *client) holdOffice(ctx context.Context) {
	name := fmt.Sprint("election/", c.rng.IntN(c.load.cfg.Elections))
	if c.chance(3) {
		c.leader(ctx, name)
	}
	limit, cctx, cancel := c.limited(ctx)
	defer cancel()
	op := c.begin(history.Op{Kind: history.Campaign, Name: name, Value: c.value()})
	office, err := c.session.Campaign(cctx, name, []byte(op.Value))
	if err == nil {
		op.Token = uint64(office.Epoch())
	}
	c.end(op, err, limit)
	if err != nil {
		return
	}
	epoch := uint64(office.Epoch())
	c.hold(ctx, name, office, epoch, func() {
		if c.chance(3) {
			c.leader(ctx, name)
			return
		}
		limit, ctx, cancel := c.limited(ctx)
		defer cancel()
		op := c.begin(history.Op{Kind: history.Proclaim, Name: name, Token: epoch, Value: c.value()})
		c.end(op, office.Proclaim(ctx, []byte(op.Value)), limit)
	})
	resign := c.begin(history.Op{Kind: history.Resign, Name: name, Token: epoch})
	limit, rctx, cancel := c.limited(ctx)
	defer cancel()
	c.end(resign, office.Resign(rctx), limit)
	c.afterwards(name, office)
}

func (c *client) leader(ctx context.Context, name string) {
	limit, ctx, cancel := c.limited(ctx)
	defer cancel()
	op := c.begin(history.Op{Kind: history.Leader, Name: name})
	leader, err := c.node.Leader(ctx, name)
	if err == nil && leader.Held {
		op.Holder, op.Token, op.Value = uint64(leader.Session), uint64(leader.Epoch), string(leader.Value)
	}
	c.end(op, err, limit)
}

// limited is ctx with a bound that this client chooses, and that bound.
func (c *client) limited(ctx context.Context) (time.Duration, context.Context, context.CancelFunc) {
	limit := c.patience()
	ctx, cancel := context.WithTimeout(ctx, limit)
	return limit, ctx, cancel
}
