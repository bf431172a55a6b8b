package coord_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/lab"
	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

// meter is a network that counts the renewal messages of one node.
type meter struct {
	*lab.Lab
	beginning atomic.Pointer[[]byte] // of each such message; nil: none is counted
	renewals  atomic.Int64
}

// of makes it count the messages of a node from now on.
func (m *meter) of(node string) {
	message := wire.KeepAlive{Node: node}.Append(nil)
	end := bytes.Index(message, []byte(node)) + len(node)
	message = message[:end]
	m.beginning.Store(&message)
}

func (m *meter) Listen(ctx context.Context, addr string) (transport.Endpoint, error) {
	e, err := m.Lab.Listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	return meteredEndpoint{e, m}, nil
}

type meteredEndpoint struct {
	transport.Endpoint
	m *meter
}

func (e meteredEndpoint) Dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := e.Endpoint.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return meteredConn{c, e.m}, nil
}

type meteredConn struct {
	net.Conn
	m *meter
}

func (c meteredConn) Write(b []byte) (int, error) {
	if beginning := c.m.beginning.Load(); beginning != nil {
		c.m.renewals.Add(int64(bytes.Count(b, *beginning)))
	}
	return c.Conn.Write(b)
}

// A server sends one renewal message an interval, whatever the number of its sessions.
func TestOneRenewalMessageAnInterval(t *testing.T) {
	const interval = 10 * time.Second / 3
	m := new(meter)
	metered := func(_ int, cfg *coord.Config) {
		m.Lab = cfg.Transport.(*lab.Lab)
		cfg.Transport = m
	}
	inTunedCell(t, 3, metered, func(t *testing.T, c *cell) {
		far := c.others(c.leader())[0]
		for range 50 {
			c.session(far, coord.WithTTL(10*time.Second))
			time.Sleep(37 * time.Millisecond)
		}
		time.Sleep(6 * interval) // they come to travel together
		m.of(c.nodes[far].ID())
		time.Sleep(20 * interval)
		if n := m.renewals.Load(); n < 18 || n > 24 {
			t.Errorf("%d messages in 20 intervals", n)
		}
	})
}
