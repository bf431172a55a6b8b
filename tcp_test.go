package coord_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// overTCP is a cell over loopback and real directories. Nothing is concluded from how long anything takes.
type overTCP struct {
	t     *testing.T
	ctx   context.Context
	cfgs  []coord.Config
	nodes []*coord.Node
}

// freePorts are ports of loopback that nobody listens on, for now.
func freePorts(t *testing.T, n int) (addrs []string) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs
}

func (c *overTCP) open(i int) {
	c.t.Helper()
	n, err := coord.Start(c.ctx, c.cfgs[i])
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[i] = n
	c.t.Cleanup(func() { n.Close() })
}

func (c *overTCP) allReady() {
	c.t.Helper()
	for i, n := range c.nodes {
		if err := n.WaitReady(c.ctx); err != nil {
			c.t.Fatalf("server %d: %v", i, err)
		}
	}
}

func (c *overTCP) acquireOn(i int) *coord.Lock {
	c.t.Helper()
	s, err := c.nodes[i].NewSession(c.ctx, coord.WithTTL(4*time.Second))
	if err != nil {
		c.t.Fatal(err)
	}
	l, err := s.Lock(c.ctx, "x")
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

func TestTCP(t *testing.T) {
	if testing.Short() {
		t.Skip("real sockets and disks")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := &overTCP{t: t, ctx: ctx, nodes: make([]*coord.Node, 3)}
	addrs := freePorts(t, 3)
	for i := range 3 {
		c.cfgs = append(c.cfgs, coord.Config{
			Name: fmt.Sprint("tcp", i), Dir: t.TempDir(), Listen: addrs[i], Join: addrs, Expect: 3, ElectionTimeout: time.Second,
		})
		c.open(i)
	}
	c.allReady()
	first := 0
	for i, n := range c.nodes {
		if n.Status().Leader == n.ID() {
			first = i
		}
	}
	held := c.acquireOn(first)
	other := (first + 1) % 3
	w, err := c.nodes[other].Watch(ctx, "", coord.Prefix())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	hostile(t, ctx, addrs)
	if _, err := c.nodes[other].Put(ctx, "a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	id := c.nodes[first].ID()
	c.nodes[first].Close() // the leader and the holder at once
	if held.Check() == nil {
		t.Error("the holder on a closed node may act")
	}
	after := c.acquireOn(other)
	if after.Token() <= held.Token() {
		t.Errorf("token %v after %v", after.Token(), held.Token())
	}
	if got := text(next(t, w)); got != "put a=1" {
		t.Errorf("watched: %s", got)
	}
	c.open(first)
	c.allReady()
	if got := c.nodes[first].ID(); got != id {
		t.Errorf("id %s on the Dir of %s", got, id)
	}
	if kv, err := c.nodes[first].Get(ctx, "a"); err != nil || string(kv.Value) != "1" {
		t.Errorf("%q, %v", kv.Value, err)
	}
	if err := after.Check(); err != nil {
		t.Error(err)
	}
	for _, n := range c.nodes {
		if err := n.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}
}

// hostile talks nonsense to every port, and leaves connections open that say nothing more.
func hostile(t *testing.T, ctx context.Context, addrs []string) {
	t.Helper()
	dice := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1<<16)
	for i := range noise {
		noise[i] = byte(dice.Uint32())
	}
	hello := []byte("\x03\xc0crd\x01\x00")
	for _, addr := range addrs {
		for kind := range 5 {
			for _, say := range [][]byte{
				noise, append([]byte{byte(kind)}, noise...), bytes.Repeat([]byte{byte(kind)}, 1000),
				append(bytes.Clone(hello), 0xff, 0xff), append([]byte{byte(kind)}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), {byte(kind)},
			} {
				var d net.Dialer
				conn, err := d.DialContext(ctx, "tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() }) // open to the end
				_, _ = conn.Write(say)
			}
		}
		packets, err := net.Dial("udp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer packets.Close()
		for n := 1; n < 1400; n += 7 {
			_, _ = packets.Write(noise[n : 2*n])
		}
		_, _ = io.WriteString(packets, "")
	}
}
