package coordcell

import (
	"context"
	"sync"
	"time"

	"github.com/coordcell/coord"

	"github.com/coordcell/coord/bench/internal/peer"
)

func (c *cell) Client(ctx context.Context) (peer.Client, error) {
	if c.embedded {
		return NewClient(c.node), nil
	}
	node, err := attach(ctx, c.addrs)
	if err != nil {
		return nil, err
	}
	if err := node.WaitReady(ctx); err != nil {
		_ = node.Close() // it never worked
		return nil, err
	}
	return &client{node: node, own: true}, nil
}

// NewClient is a client of any node, which does not end with it.
func NewClient(node *coord.Node) peer.Client { return &client{node: node} }

type client struct {
	node *coord.Node
	own  bool // node ends with the client

	mu      sync.Mutex
	opened  []*coord.Session
	counter *counter // nil until somebody asks for renewals
}

// Close ends what is the client's own. The sessions of an embedded one end with the cell, unless they have been closed.
func (c *client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counter != nil {
		c.counter.stop()
	}
	if c.own {
		_ = c.node.Close() // a client has nothing on disk
	}
}

func (c *client) Session(ctx context.Context, ttl time.Duration) (peer.Session, error) {
	s, err := c.node.NewSession(ctx, coord.WithTTL(ttl))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = append(c.opened, s)
	return session{s}, nil
}

// Renewals counts from the first call on.
func (c *client) Renewals(context.Context) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counter == nil {
		c.counter = count(c.opened)
	}
	return c.counter.seen.Load()
}

type session struct{ *coord.Session }

func (s session) Lock(ctx context.Context, name string) (peer.Lock, error) {
	l, err := s.Session.Lock(ctx, name)
	if err != nil {
		return nil, err // not a nil *Lock in an interface
	}
	return l, nil
}

func (s session) PutEphemeral(ctx context.Context, key, value string) error {
	_, err := s.Put(ctx, key, []byte(value))
	return err
}

func (c *client) Put(ctx context.Context, key, value string) error {
	_, err := c.node.Put(ctx, key, []byte(value))
	return err
}

// Get is linearizable.
func (c *client) Get(ctx context.Context, key string) (string, error) {
	kv, err := c.node.Get(ctx, key)
	return string(kv.Value), err
}

func (c *client) Watch(ctx context.Context, prefix string, event func(value string)) error {
	return c.watch(ctx, prefix, func(e coord.Event) { event(string(e.Value)) })
}

func (c *client) WatchDeletes(ctx context.Context, prefix string, _ []string, event func(key string)) error {
	return c.watch(ctx, prefix, func(e coord.Event) {
		if e.Type != coord.EventPut {
			event(e.Key)
		}
	})
}

func (c *client) watch(ctx context.Context, prefix string, event func(coord.Event)) error {
	w, err := c.node.Watch(ctx, prefix, coord.Prefix())
	if err != nil {
		return err
	}
	go func() { // ends with ctx, or the node
		for batch := range w.Batches() {
			for _, e := range batch.Events {
				event(e)
			}
		}
	}()
	return nil
}
