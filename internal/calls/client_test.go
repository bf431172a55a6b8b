package calls

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

// parted is by when a connection between a client and a server must be known to be dead if nobody asks anything.
const parted = 30 * time.Second

// inboundOf returns the connection that a peer has dialled.
func (n *node) inboundOf(t *testing.T, id string) *inbound {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.inbound[id]) != 1 {
		t.Fatalf("%d connections of %s", len(n.inbound[id]), id)
	}
	return n.inbound[id][0]
}

// A client that renews needs no pings, neither its own nor the server's.
func TestRenewingClientIsNotPinged(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		b, a := w.node("b", toClients), w.node("client", asClient)
		const n = 100
		for range n {
			if _, err := a.Call(ctx, "b", wire.MethodKeepAlive, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * time.Second)
		}
		if heard := b.inboundOf(t, "client").heard.Load(); heard != n {
			t.Errorf("the server heard %d times of a client that renewed %d times", heard, n)
		}
		if heard := a.onlyLink(t).heard.Load(); heard != n {
			t.Errorf("the client heard %d times of the server", heard)
		}
	})
}

// One that only waits is asked now and then whether it lives, and asks; nobody takes the other for dead.
func TestWaitingClientIsPingedSeldom(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		b, a := w.node("b", toClients), w.node("client", asClient)
		var got collect
		if _, err := a.Stream(ctx, "b", later, nil, got.receive); err != nil {
			t.Fatal(err)
		}
		r := <-b.served
		time.Sleep(10 * time.Minute)
		if heard := b.inboundOf(t, "client").heard.Load(); heard < 10 || heard > 10*60/4 {
			t.Errorf("the server heard %d times of the client", heard)
		}
		r.Reply([]byte("at last"))
		time.Sleep(time.Second)
		if replies, errs := got.got(); len(replies) != 1 || errs[0] != io.EOF {
			t.Errorf("%q, %v", replies, errs)
		}
	})
}

func TestClientNoticesACut(t *testing.T) {
	for name, cut := range map[string]func(*transport.Memory){
		"both ways": func(m *transport.Memory) { m.Cut("client", "b") },
		"to":        func(m *transport.Memory) { m.CutOneWay("client", "b") },
		"from":      func(m *transport.Memory) { m.CutOneWay("b", "client") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
				b, a := w.node("b", toClients), w.node("client", asClient)
				var waits collect
				open := func() *Request {
					waits = collect{}
					if _, err := a.Stream(ctx, "b", later, nil, waits.receive); err != nil {
						t.Fatal(err)
					}
					return <-b.served
				}
				ended := func() bool {
					_, errs := waits.got()
					return len(errs) == 1 && errors.Is(errs[0], ErrNoReply)
				}

				r := open()
				time.Sleep(13 * time.Second)
				cut(net)
				within(t, noticed, "noticing by a renewal", func() {
					if _, err := a.Call(ctx, "b", wire.MethodKeepAlive, nil); !errors.Is(err, ErrNoReply) {
						t.Errorf("%v", err)
					}
				})
				if !ended() {
					t.Error("what else was under way has not ended")
				}
				within(t, parted, "noticing at the server", func() { <-r.Done() })

				net.HealAll()
				time.Sleep(5 * time.Second)
				open()
				time.Sleep(time.Second)
				cut(net)
				if _, err := a.Stream(ctx, "b", later, nil, func([]byte, error) {}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(noticed)
				if !ended() {
					t.Error("a request that waits is not answered, and nobody notices")
				}

				net.HealAll()
				time.Sleep(5 * time.Second)
				open()
				time.Sleep(time.Second)
				cut(net)
				time.Sleep(parted)
				if !ended() {
					t.Error("not noticed though nothing was asked")
				}
			})
		})
	}
}

// A call that waits for long is not forgotten because the server was heard meanwhile.
func TestClientNoticesACutDuringACall(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		w.node("b", toClients)
		a := w.node("client", asClient)
		time.AfterFunc(time.Minute, func() { net.Cut("client", "b") })
		within(t, time.Minute+noticed, "noticing", func() {
			if _, err := a.Call(ctx, "b", later, nil); !errors.Is(err, ErrNoReply) {
				t.Errorf("%v", err)
			}
		})
	})
}

// A server may be taken for a client until it is known.
func TestServerThatWasTakenForAClient(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		var known atomic.Bool
		b := w.node("b", func(c *Config) { c.IsClient = func(string) bool { return !known.Load() } })
		a := w.node("a", nil)
		if _, err := a.Stream(ctx, "b", later, make([]byte, 5000), func([]byte, error) {}); err != nil {
			t.Fatal(err)
		}
		r := <-b.served
		if n, held := b.clientCount(), b.held.Load(); n != 1 || held == 0 {
			t.Errorf("%d clients hold %d bytes", n, held)
		}
		known.Store(true)
		time.Sleep(6 * time.Second)
		if n, held := b.clientCount(), b.held.Load(); n != 0 || held != 0 {
			t.Errorf("%d clients hold %d bytes", n, held)
		}
		net.Cut("a", "b")
		within(t, noticed, "noticing", func() { <-r.Done() })
		synctest.Wait()
		if n, held := b.linkCount(), b.held.Load(); n != 0 || held != 0 {
			t.Errorf("%d connections hold %d bytes", n, held)
		}
	})
}

// A connection with nothing to do is one goroutine at the server, and no buffer but the small one.
func TestIdleClientIsCheap(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		b, a := w.node("b", toClients), w.node("client", asClient)
		if _, err := a.Call(ctx, "b", echo, make([]byte, 3<<20)); err != nil {
			t.Fatal(err)
		}
		mustCall(t, a, "b")
		if _, err := a.Call(ctx, "b", wire.MethodKeepAlive, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		in := b.inboundOf(t, "client")
		in.mu.Lock()
		defer in.mu.Unlock()
		if in.urgent != nil || in.normal != nil || in.urgentRun != nil || in.normalRun != nil || len(in.rest) > 0 || in.held != 0 {
			t.Errorf("it holds %d bytes: %v %v %v %v", in.held, in.urgent, in.normal, in.urgentRun, in.normalRun)
		}
		if len(in.in.buf) != smallBuffer || in.in.pooled != nil {
			t.Errorf("a buffer of %d bytes", len(in.in.buf))
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if n := strings.Count(string(stacks), "calls.(*link).write("); n != 0 {
			t.Errorf("%d writers", n)
		}
		if n := strings.Count(string(stacks), "calls.(*link).read("); n != 2 {
			t.Errorf("%d readers of two ends", n)
		}
	})
}

func TestMeet(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		a, b := w.node("client", asClient), w.node("b", toClients)
		addr := w.addr("b")
		w.book.remove("b")
		if id, err := a.Meet(ctx, addr); id != "b" || err != nil {
			t.Fatalf("%q, %v", id, err)
		}
		first := a.onlyLink(t)
		mustCall(t, a, "b") // though nobody knows its address
		if id, err := a.Meet(ctx, addr); id != "b" || err != nil {
			t.Errorf("%q, %v", id, err)
		}
		time.Sleep(time.Second)
		if a.onlyLink(t) != first || b.linkCount() != 1 {
			t.Error("another connection was opened")
		}
		if id, err := a.Meet(ctx, "nobody:1"); err == nil {
			t.Errorf("met %q", id)
		}
		net.Cut("client", "b")
		within(t, time.Second, "giving up", func() {
			if id, err := a.Meet(ctx, addr); err == nil {
				t.Errorf("met %q", id)
			}
		})
		net.HealAll()
		time.Sleep(5 * time.Second)
		if id, err := a.Meet(ctx, addr); id != "b" || err != nil {
			t.Fatalf("%q, %v", id, err)
		}
		mustCall(t, a, "b")
		a.sw.Trip(errors.New("disk broken"))
		if _, err := a.Meet(ctx, addr); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
		a.Close()
		if _, err := a.Meet(ctx, addr); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

func TestMeetEndsWithTheExchange(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		a := w.node("client", func(c *Config) { c.Client = true; c.Timeout = time.Minute })
		b := w.node("b", nil)
		net.Cut("client", "b")
		time.AfterFunc(time.Second, func() { a.Close() })
		within(t, time.Second, "Meet", func() {
			if _, err := a.Meet(ctx, b.addr); !errors.Is(err, ErrClosed) {
				t.Errorf("%v", err)
			}
		})
	})
}
