package load

import (
	"context"
	"errors"
	"fmt"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/history"
)

// useKeys makes a few calls on keys.
func (c *client) useKeys(ctx context.Context) {
	key := fmt.Sprint("key/", c.rng.IntN(c.load.cfg.Keys))
	switch c.rng.IntN(8) {
	case 0:
		c.put(ctx, key, history.Condition{})
	case 1:
		c.put(ctx, key, history.Condition{Absent: true})
	case 2:
		c.delete(ctx, key, 0)
	case 3, 4:
		if rev, ok := c.get(ctx, key); ok && rev > 0 {
			if c.chance(3) {
				c.delete(ctx, key, rev)
			} else {
				c.put(ctx, key, history.Condition{Revision: rev})
			}
		}
	case 5:
		c.count(ctx, fmt.Sprint("counter/", c.rng.IntN(2)))
	default:
		c.own(ctx, fmt.Sprint("own/", c.rng.IntN(c.load.cfg.Keys)))
	}
	if c.chance(12) {
		_, ctx, cancel := c.limited(ctx)
		defer cancel()
		c.close(ctx)
	}
}

// put writes a plain key.
func (c *client) put(ctx context.Context, key string, cond history.Condition) {
	limit, ctx, cancel := c.limited(ctx)
	defer cancel()
	var opts []coord.WriteOption
	if cond.Absent {
		opts = append(opts, coord.IfAbsent())
	}
	if cond.Revision > 0 {
		opts = append(opts, coord.IfRevision(coord.Revision(cond.Revision)))
	}
	op := c.begin(history.Op{Kind: history.Put, Name: key, Value: c.value(), If: cond, Lasting: true})
	rev, err := c.node.Put(ctx, key, []byte(op.Value), opts...)
	op.Revision = uint64(rev)
	c.end(op, err, limit)
}

// own writes an ephemeral key, or takes a look at one.
func (c *client) own(ctx context.Context, key string) {
	if c.chance(3) {
		c.get(ctx, key)
		return
	}
	limit, ctx, cancel := c.limited(ctx)
	defer cancel()
	op := c.begin(history.Op{Kind: history.Put, Name: key, Value: c.value()})
	rev, err := c.session.Put(ctx, key, []byte(op.Value))
	op.Revision = uint64(rev)
	c.end(op, err, limit)
}

func (c *client) delete(ctx context.Context, key string, at uint64) {
	limit, ctx, cancel := c.limited(ctx)
	defer cancel()
	var opts []coord.WriteOption
	if at > 0 {
		opts = append(opts, coord.IfRevision(coord.Revision(at)))
	}
	op := c.begin(history.Op{Kind: history.Delete, Name: key, If: history.Condition{Revision: at}, Lasting: true})
	rev, err := c.node.Delete(ctx, key, opts...)
	op.Revision = uint64(rev)
	c.end(op, err, limit)
}

// get reads a key: the revision of its last change, 0 if there is no such key.
func (c *client) get(ctx context.Context, key string) (rev uint64, ok bool) {
	limit, ctx, cancel := c.limited(ctx)
	defer cancel()
	op := c.begin(history.Op{Kind: history.Get, Name: key})
	kv, err := c.node.Get(ctx, key)
	if errors.Is(err, coord.ErrKeyNotFound) {
		err = nil
	}
	rev = uint64(kv.Changed)
	op.Value, op.Revision = string(kv.Value), rev
	c.end(op, err, limit)
	return rev, err == nil
}

// count reads a counter and writes it anew if nobody did meanwhile. What it writes is not a number but a value of its
// own: that no two writes follow the same one is what makes it a counter.
func (c *client) count(ctx context.Context, key string) {
	rev, ok := c.get(ctx, key)
	switch {
	case !ok:
	case rev == 0:
		c.put(ctx, key, history.Condition{Absent: true})
	default:
		c.put(ctx, key, history.Condition{Revision: rev})
	}
}
