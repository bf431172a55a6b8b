package bareraft

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coordcell/coord/bench/internal/peer"
)

// conn is a connection to a server that carries any number of calls at once.
type conn struct {
	c    net.Conn
	out  chan frame
	done chan struct{} // closed when nothing more comes

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan frame
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	k := &conn{c: c, out: make(chan frame, 1024), done: make(chan struct{}), waiting: make(map[uint64]chan frame)}
	go writeFrames(c, k.out, k.done)
	go k.read() // ends with the connection
	return k, nil
}

func (k *conn) close() { _ = k.c.Close() }

func (k *conn) read() {
	defer close(k.done)
	defer k.close()
	in := bufio.NewReaderSize(k.c, 64<<10)
	for {
		f, err := readFrame(in)
		if err != nil {
			return
		}
		k.mu.Lock()
		answer := k.waiting[f.id]
		delete(k.waiting, f.id)
		k.mu.Unlock()
		if answer != nil {
			answer <- f // it has room for the one
		}
	}
}

func (k *conn) call(ctx context.Context, kind byte, payload []byte) error {
	answer := make(chan frame, 1)
	k.mu.Lock()
	k.last++
	id := k.last
	k.waiting[id] = answer
	k.mu.Unlock()
	select {
	case k.out <- frame{id, kind, payload}:
	case <-k.done:
		return io.ErrClosedPipe
	}
	select {
	case f := <-answer:
		if f.kind != kindOK {
			return errors.New(string(f.payload))
		}
		return nil
	case <-k.done:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *cell) Client(context.Context) (peer.Client, error) { return &client{cell: c}, nil }

type client struct {
	cell *cell

	mu   sync.Mutex
	conn *conn // to the leader; nil while it is not known
}

// do calls the leader, whoever that is, until one answers: what is proposed twice does no harm here.
func (c *client) do(ctx context.Context, kind byte, payload []byte) error {
	for {
		k, err := c.leader(ctx)
		if err != nil {
			return err
		}
		if err = k.call(ctx, kind, payload); err == nil || ctx.Err() != nil {
			return err
		}
		c.mu.Lock()
		if c.conn == k {
			c.conn = nil // the next call looks for the leader anew
			k.close()
		}
		c.mu.Unlock()
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (c *client) leader(ctx context.Context) (*conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.conn == nil {
		k, _, err := c.cell.dialLeader(ctx)
		if err == nil {
			c.conn = k
			break
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return c.conn, nil
}

func (c *client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.close()
	}
}

func (c *client) Session(context.Context, time.Duration) (peer.Session, error) {
	return session{c}, nil
}

type session struct{ client *client }

func (session) Close(context.Context) error { return nil }

func (s session) Lock(ctx context.Context, _ string) (peer.Lock, error) {
	return lock(s), s.client.do(ctx, kindApply, make([]byte, 64))
}

type lock struct{ client *client }

func (l lock) Unlock(ctx context.Context) error { return l.client.do(ctx, kindApply, make([]byte, 64)) }

func (c *client) Put(ctx context.Context, key, value string) error {
	return c.do(ctx, kindApply, []byte(key+value))
}

// Get is what a linearizable read takes, with nothing to read.
func (c *client) Get(ctx context.Context, _ string) (string, error) {
	return peer.NoValue, c.do(ctx, kindVerify, nil)
}

// What there is not. Lacks says so before.

func (session) PutEphemeral(context.Context, string, string) error { return peer.ErrUnsupported }

func (*client) Watch(context.Context, string, func(value string)) error { return peer.ErrUnsupported }

func (*client) WatchDeletes(context.Context, string, []string, func(key string)) error {
	return peer.ErrUnsupported
}

func (*client) Renewals(context.Context) int64 { return 0 }
