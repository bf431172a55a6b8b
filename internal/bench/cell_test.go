package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// cell is three servers of coord in this process, over loopback, on real disks.
type cell struct {
	nodes  []*coord.Node
	leader int
}

func newCell(b *testing.B, servers int) *cell {
	b.Helper()
	var join []string
	for range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		join = append(join, l.Addr().String())
		l.Close()
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	c := &cell{leader: -1}
	for i, addr := range join {
		cfg := coord.Config{
			Name: fmt.Sprint("server", i), Dir: b.TempDir(), Listen: addr, Expect: servers, Join: join,
			Logger: slog.New(slog.DiscardHandler),
		}
		if servers == 1 {
			cfg.Join = nil
		}
		n, err := coord.Start(ctx, cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { n.Close() })
		c.nodes = append(c.nodes, n)
	}
	for i, n := range c.nodes {
		if err := n.WaitReady(ctx); err != nil {
			b.Fatal(err)
		}
		if n.Status().IsLeader {
			c.leader = i
		}
	}
	if c.leader < 0 {
		b.Fatal("no leader")
	}
	return c
}

// at is a node that leads, or one that does not.
func (c *cell) at(where string) int {
	if where == "leader" {
		return c.leader
	}
	return (c.leader + 1) % len(c.nodes)
}

func (c *cell) session(b *testing.B, node int) *coord.Session {
	b.Helper()
	s, err := c.nodes[node].NewSession(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func lockUnlock(b *testing.B, s *coord.Session, name string) {
	l, err := s.Lock(b.Context(), name)
	if err != nil {
		b.Error(err)
		return
	}
	if err := l.Unlock(b.Context()); err != nil {
		b.Error(err)
	}
}
