package coord_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/lab"
	"github.com/coordcell/coord/internal/store"
)

// election is the ElectionTimeout of test cells, ttl the shortest TTL that it allows.
const (
	election = 250 * time.Millisecond
	ttl      = time.Second
)

// cell is a cell of servers in one bubble of virtual time.
type cell struct {
	t     *testing.T
	lab   *lab.Lab
	size  int
	port  int
	mu    sync.Mutex    // guards nodes, for tests that start and kill beside what goes on
	nodes []*coord.Node // nil: not running
	tune  func(i int, cfg *coord.Config)
}

// inCell runs test in a bubble, with a cell of n servers that is ready. Leaving the bubble proves that nothing of the
// cell is left running.
func inCell(t *testing.T, n int, test func(t *testing.T, c *cell)) {
	t.Helper()
	inTunedCell(t, n, nil, test)
}

// inTunedCell is inCell with a say in each server's Config.
func inTunedCell(t *testing.T, n int, tune func(i int, cfg *coord.Config), test func(t *testing.T, c *cell)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cell{t: t, lab: lab.New(50 * time.Millisecond), size: n, port: 1, nodes: make([]*coord.Node, n), tune: tune}
		defer c.stop()
		for i := range n {
			c.start(i)
		}
		c.ready()
		test(t, c)
	})
}

// addr is where server i listens.
func (c *cell) addr(i int) string { return fmt.Sprintf("server%d:%d", i, c.port) }

// addrs are where some servers listen.
func (c *cell) addrs(servers ...int) (out []string) {
	for _, i := range servers {
		out = append(out, c.addr(i))
	}
	return out
}

func (c *cell) config(i int) coord.Config {
	cfg := coord.Config{
		Name: fmt.Sprint("server", i), InMemory: true, Listen: c.addr(i), Expect: c.size,
		ElectionTimeout: election, Transport: c.lab, Logger: slog.New(slog.DiscardHandler),
	}
	if c.size > 1 {
		for j := range c.size {
			cfg.Join = append(cfg.Join, c.addr(j))
		}
	}
	if c.tune != nil {
		c.tune(i, &cfg)
	}
	return cfg
}

// start starts server i, on the disk that it had.
func (c *cell) start(i int) *coord.Node {
	c.t.Helper()
	n, err := coord.Start(c.t.Context(), c.config(i))
	if err != nil {
		c.t.Fatalf("start server %d: %v", i, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[i] = n
	return n
}

// node is server i; nil while it does not run.
func (c *cell) node(i int) *coord.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

// kill ends server i as kill -9 does: its connections are reset, and it says nothing to anybody.
func (c *cell) kill(i int) {
	c.t.Helper()
	c.lab.Kill(c.addr(i))
	n := c.node(i)
	c.mu.Lock()
	c.nodes[i] = nil
	c.mu.Unlock()
	n.Close()
}

// killAll ends every server at the same moment.
func (c *cell) killAll() {
	c.t.Helper()
	for i := range c.size {
		c.lab.Kill(c.addr(i))
	}
	for i := range c.size {
		c.kill(i)
	}
}

// startAll starts every server, on the disks that they had.
func (c *cell) startAll() {
	c.t.Helper()
	for i := range c.size {
		c.start(i)
	}
}

// move gives every server, none of which runs, another address for the disk that it has.
func (c *cell) move() {
	disks := make([]*store.Disk, c.size)
	for i := range disks {
		disks[i] = c.lab.Disk(c.addr(i))
	}
	c.port++
	for i, d := range disks {
		c.lab.SetDisk(c.addr(i), d)
	}
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

// leader is the server that leads and serves.
func (c *cell) leader() int {
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
	for j := range c.size {
		if j != i {
			c.lab.Cut(c.addr(i), c.addr(j))
		}
	}
}

func (c *cell) session(i int, opts ...coord.SessionOption) *coord.Session {
	c.t.Helper()
	s, err := c.nodes[i].NewSession(c.within(time.Minute), append([]coord.SessionOption{coord.WithTTL(ttl)}, opts...)...)
	if err != nil {
		c.t.Fatalf("session on server %d: %v", i, err)
	}
	return s
}

func (c *cell) lock(s *coord.Session, name string, opts ...coord.LockOption) *coord.Lock {
	c.t.Helper()
	l, err := s.Lock(c.within(time.Minute), name, opts...)
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// stop ends what runs, and lets memberlist's timers run out: of a node that has been asked to probe another, one may
// outlive it by half of memberlist's probe interval.
func (c *cell) stop() {
	c.lab.HealAll()
	for _, n := range c.nodes {
		if n != nil {
			n.Close()
		}
	}
	time.Sleep(election)
}
