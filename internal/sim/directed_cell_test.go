package sim_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/lab"
)

// Directed schedules: what has to happen for one rule to be the only thing that stands between a cell and a broken
// guarantee. Faults at random hardly ever meet it.

// election is the ElectionTimeout of these cells, unless a test says otherwise.
const election = 250 * time.Millisecond

// cell is a cell of servers in one bubble of virtual time.
type cell struct {
	t        *testing.T
	lab      *lab.Lab
	election time.Duration
	nodes    []*coord.Node // nil: not running
}

// inCell runs test in a bubble, with a cell of n servers that is ready.
func inCell(t *testing.T, n int, test func(t *testing.T, c *cell)) {
	t.Helper()
	inCellOf(t, n, election, test)
}

// inCellOf is inCell with another ElectionTimeout.
func inCellOf(t *testing.T, n int, election time.Duration, test func(t *testing.T, c *cell)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cell{t: t, lab: lab.New(50 * time.Millisecond), election: election, nodes: make([]*coord.Node, n)}
		defer func() {
			c.lab.HealAll()
			for i := range c.nodes {
				c.close(i)
			}
			time.Sleep(4 * election) // memberlist's timers run out
		}()
		for i := range n {
			c.start(i, c.config(i))
		}
		c.ready()
		test(t, c)
	})
}

func addr(i int) string { return fmt.Sprintf("server%d:1", i) }

func (c *cell) config(i int) coord.Config {
	cfg := coord.Config{
		Name: fmt.Sprint("server", i), InMemory: true, Listen: addr(i), Expect: len(c.nodes),
		ElectionTimeout: c.election, Transport: c.lab, Logger: slog.New(slog.DiscardHandler),
	}
	for j := range c.nodes {
		cfg.Join = append(cfg.Join, addr(j))
	}
	return cfg
}

// start starts server i, on the disk that it had.
func (c *cell) start(i int, cfg coord.Config) {
	c.t.Helper()
	n, err := coord.Start(c.t.Context(), cfg)
	if err != nil {
		c.t.Fatalf("start server %d: %v", i, err)
	}
	for i >= len(c.nodes) {
		c.nodes = append(c.nodes, nil)
	}
	c.nodes[i] = n
}

// close ends server i, if it runs.
func (c *cell) close(i int) {
	if n := c.nodes[i]; n != nil {
		c.nodes[i] = nil
		n.Close()
	}
}

// kill ends server i as kill -9 does.
func (c *cell) kill(i int) {
	c.lab.Kill(addr(i))
	c.close(i)
}

// ready waits until every server that runs is.
func (c *cell) ready() {
	c.t.Helper()
	for i, n := range c.nodes {
		if n == nil {
			continue
		}
		if err := n.WaitReady(c.within(time.Minute)); err != nil {
			c.t.Fatalf("server %d: %v", i, err)
		}
	}
}

// within is a context of so much virtual time.
func (c *cell) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	c.t.Cleanup(cancel)
	return ctx
}

// leads is the server that leads and serves.
func (c *cell) leads() int {
	c.t.Helper()
	for range 600 {
		for i, n := range c.nodes {
			if n != nil && n.Status().IsLeader {
				return i
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatal("nobody leads after a minute")
	return -1
}

// others are the servers that run, but for i.
func (c *cell) others(i int) (out []int) {
	for j, n := range c.nodes {
		if j != i && n != nil {
			out = append(out, j)
		}
	}
	return out
}

// isolate cuts server i off from all others.
func (c *cell) isolate(i int) {
	for _, j := range c.others(i) {
		c.lab.Cut(addr(i), addr(j))
	}
}

func (c *cell) session(i int, ttl time.Duration) *coord.Session {
	c.t.Helper()
	s, err := c.nodes[i].NewSession(c.within(time.Minute), coord.WithTTL(ttl))
	if err != nil {
		c.t.Fatalf("session on server %d: %v", i, err)
	}
	return s
}

func (c *cell) lock(s *coord.Session, name string) *coord.Lock {
	c.t.Helper()
	l, err := s.Lock(c.within(time.Minute), name)
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// granted locks name in the background. Its channel is given what Check of the former holder says at the very moment
// of the grant.
func (c *cell) granted(s *coord.Session, name string, former *coord.Lock) <-chan error {
	stopped := make(chan error, 1)
	ctx := c.within(5 * time.Minute)
	go func() {
		_, err := s.Lock(ctx, name)
		stopped <- former.Check()
		if err != nil {
			c.t.Errorf("the next holder: %v", err)
		}
	}()
	return stopped
}
