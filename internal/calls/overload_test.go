package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/transport"
)

// toClients makes a node treat those whose id begins with "client" as clients.
func toClients(c *Config) {
	c.IsClient = func(id string) bool { return strings.HasPrefix(id, "client") }
}

func asClient(c *Config) { c.Client = true }

func (n *node) clientCount() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.clients
}

func TestClientsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		b := w.node("b", func(c *Config) { toClients(c); c.MaxClients = 3 })
		var clients []*node
		for i := range 3 {
			clients = append(clients, w.node(fmt.Sprint("client-", i), asClient))
			mustCall(t, clients[i], "b")
		}
		late := w.node("client-late", asClient)
		for range 20 {
			if _, err := late.Call(ctx, "b", echo, nil); !errors.Is(err, ErrBusy) || errors.Is(err, ErrNoReply) {
				t.Errorf("%v", err)
			}
		}
		mustCall(t, w.node("server", nil), "b")
		for _, c := range clients {
			mustCall(t, c, "b")
		}
		time.Sleep(time.Second)
		if n := b.linkCount(); n != 4 || b.refusals != 0 {
			t.Errorf("%d connections, %d refused ones", n, b.refusals)
		}
		clients[0].stop()
		time.Sleep(time.Second)
		mustCall(t, late, "b")
		if n := b.clientCount(); n != 3 {
			t.Errorf("%d clients", n)
		}
	})
}

// Those that are refused and stay do not stay long, and are few.
func TestRefusedConnectionsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		b := w.node("b", func(c *Config) { toClients(c); c.MaxClients = 1 })
		mustCall(t, w.node("client-0", asClient), "b")
		var strangers []net.Conn
		for i := range 3 * maxRefusals {
			strangers = append(strangers, w.stranger(t, fmt.Sprint("client-s", i), b))
		}
		synctest.Wait()
		if n := b.linkCount(); n > 1+maxRefusals {
			t.Errorf("%d connections", n)
		}
		within(t, noticed, "closing", func() {
			for _, c := range strangers {
				_, _ = io.Copy(io.Discard, c)
			}
		})
		synctest.Wait()
		if n := b.linkCount(); n != 1 || b.refusals != 0 {
			t.Errorf("%d connections, %d refused ones", n, b.refusals)
		}
	})
}

// ask writes requests for later, with payloads of a size.
func ask(t *testing.T, c net.Conn, first, n, size int) {
	t.Helper()
	var f frames
	for i := range n {
		f.add(message{kind: kindRequest, id: uint64(first + i), arg: uint64(later), body: make([]byte, size)})
	}
	if _, err := c.Write(f.run()); err != nil {
		t.Error(err)
	}
}

// Of all clients the one that makes the node hold the most loses its connection, in whatever way it does.
func TestGreediestClientGoes(t *testing.T) {
	const limit = 1 << 20
	for name, greed := range map[string]func(t *testing.T, b *node, c net.Conn){
		"large requests": func(t *testing.T, b *node, c net.Conn) { ask(t, c, 1, 20, 100_000) },
		"many requests":  func(t *testing.T, b *node, c net.Conn) { ask(t, c, 1, limit/requestCost, 0) },
		"replies that it does not read": func(t *testing.T, b *node, c net.Conn) {
			ask(t, c, 1, 40, 0)
			for range 40 {
				(<-b.served).Reply(make([]byte, 100_000))
			}
		},
		"pings": func(t *testing.T, b *node, c net.Conn) {
			var f frames
			for range 9 << 18 { // above what the network takes
				f.add(message{kind: kindPing})
			}
			_, _ = c.Write(f.run())
		},
		"half a frame": func(t *testing.T, b *node, c net.Conn) {
			if _, err := c.Write(append([]byte{0, 0x40, 0, 0, frameVersion}, make([]byte, 900_000)...)); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
				b := w.node("b", func(c *Config) { toClients(c); c.MaxHeld = limit })
				modest := func(id string) *Request {
					if _, err := w.node(id, asClient).Stream(ctx, "b", later, make([]byte, 1000), func([]byte, error) {}); err != nil {
						t.Fatal(err)
					}
					return <-b.served
				}
				first := modest("client-1")
				c := w.stranger(t, "client-greedy", b)
				last := modest("client-2")
				before := b.held.Load()
				within(t, noticed, "closing", func() {
					greed(t, b, c)
					for b.clientCount() > 2 {
						time.Sleep(time.Millisecond)
					}
				})
				for _, r := range []*Request{first, last} {
					select {
					case <-r.Done():
						t.Error("another client's request is over")
					default:
					}
				}
				synctest.Wait()
				if held := b.held.Load(); held != before {
					t.Errorf("%d bytes held, %d before", held, before)
				}
			})
		})
	}
}

// Servers among each other are not measured by what clients may.
func TestServersAreNotShed(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		b := w.node("b", func(c *Config) { toClients(c); c.MaxHeld = 1 << 10 })
		a := w.node("a", nil)
		if _, err := a.Call(ctx, "b", echo, make([]byte, 1<<20)); err != nil {
			t.Error(err)
		}
		if held := b.held.Load(); held != 0 {
			t.Errorf("%d bytes held", held)
		}
	})
}

func TestPayloadsUnderWayAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", func(c *Config) { c.MaxPayload = 300_000 })
		stream := func(size int) *collect {
			got := new(collect)
			if _, err := a.Stream(ctx, "b", later, make([]byte, size), got.receive); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			return got
		}
		var all []*collect
		for _, size := range []int{100_000, 100_000, 100_000, smallPayload, 0} {
			all = append(all, stream(size))
		}
		for i, got := range all {
			if _, errs := got.got(); len(errs) != 0 {
				t.Errorf("request %d: %v", i, errs)
			}
		}
		if _, errs := stream(smallPayload + 1).got(); len(errs) != 1 || !errors.Is(errs[0], ErrBusy) {
			t.Errorf("one too many: %v", errs)
		}
		(<-b.served).End()
		time.Sleep(100 * time.Millisecond)
		if _, errs := stream(100_000).got(); len(errs) != 0 {
			t.Errorf("in the place of one that is over: %v", errs)
		}
	})
}

// A client that asks five times what the node can do, and does not wait, gets refusals; others do not notice.
func TestFloodOfRequests(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		b := w.node("b", func(c *Config) {
			toClients(c)
			c.MaxInFlight = 100
			handle := c.Handler
			c.Handler = func(ctx context.Context, r *Request) {
				if r.Peer == "client-flood" { // a hundredth of a second of work each, one at a time
					time.AfterFunc(10*time.Millisecond, r.End)
					return
				}
				handle(ctx, r)
			}
		})
		modest := w.node("client-modest", asClient)
		mustCall(t, modest, "b")
		c := w.stranger(t, "client-flood", b)
		answers := make(chan int)
		go func() {
			n, _ := io.Copy(io.Discard, c)
			answers <- int(n)
		}()
		for i := range 500 {
			ask(t, c, i*500, 500, 100)
			within(t, 10*time.Millisecond, "another client's call", func() { mustCall(t, modest, "b") })
		}
		if held, most := b.held.Load(), int64(100+2*maxUrgent)*(requestCost+100)+1<<20; held > most {
			t.Errorf("%d bytes held", held)
		}
		c.Close()
		if n := <-answers; n == 0 {
			t.Error("no answer at all")
		}
	})
}
