package calls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

// noticed is by when a connection that has fallen silent must be known to be dead, with the default Timeout of a second.
const noticed = 1500 * time.Millisecond

// within runs fn and fails the test if it takes longer than d.
func within(t *testing.T, d time.Duration, what string, fn func()) {
	t.Helper()
	start := time.Now()
	fn()
	if took := time.Since(start); took > d {
		t.Errorf("%s took %v", what, took)
	}
}

func mustCall(t *testing.T, from *node, to string) {
	t.Helper()
	if got, err := from.Call(ctx, to, echo, []byte("x")); err != nil || string(got) != "x" {
		t.Errorf("call to %s: %q, %v", to, got, err)
	}
}

func TestLostReply(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		a, _ := w.node("a", nil), w.node("b", nil)
		mustCall(t, a, "b")
		net.LoseReplies("b")
		if _, err := a.Call(ctx, "b", echo, nil); !errors.Is(err, ErrNoReply) {
			t.Errorf("%v", err)
		}
		within(t, noticed, "reconnecting", func() { mustCall(t, a, "b") })
	})
}

func TestCut(t *testing.T) {
	for name, cut := range map[string]func(*transport.Memory){
		"both ways": func(m *transport.Memory) { m.Cut("a", "b") },
		"to":        func(m *transport.Memory) { m.CutOneWay("a", "b") },
		"from":      func(m *transport.Memory) { m.CutOneWay("b", "a") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
				a, b := w.node("a", nil), w.node("b", nil)
				var got collect
				if _, err := a.Stream(ctx, "b", later, nil, got.receive); err != nil {
					t.Fatal(err)
				}
				r := <-b.served
				cut(net)
				within(t, noticed, "noticing", func() {
					if _, err := a.Call(ctx, "b", echo, nil); !errors.Is(err, ErrNoReply) {
						t.Errorf("call when the link was cut: %v", err)
					}
				})
				if replies, errs := got.got(); len(replies) != 0 || len(errs) != 1 || !errors.Is(errs[0], ErrNoReply) {
					t.Errorf("stream: %q, %v", replies, errs)
				}
				within(t, noticed, "noticing at the other end", func() { <-r.Done() })
				r.Reply([]byte("nobody hears it"))
				within(t, 2*noticed, "not sending", func() {
					if _, err := a.Call(ctx, "b", echo, nil); !errors.Is(err, ErrNotSent) {
						t.Errorf("call while the link is cut: %v", err)
					}
				})
				net.HealAll()
				deadline := time.Now().Add(3 * time.Second)
				for {
					_, err := a.Call(ctx, "b", echo, nil)
					if err == nil {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("still not connected: %v", err)
					}
				}
			})
		})
	}
}

// A caller in a loop must neither spin nor wait long once the peer is back.
func TestBackoff(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", nil)
		mustCall(t, a, "b")
		b.stop()
		n := 0
		for start := time.Now(); time.Since(start) < time.Minute; n++ {
			if _, err := a.Call(ctx, "b", echo, nil); err == nil {
				t.Fatal("an answer of the dead")
			}
		}
		if n < 30 || n > 150 {
			t.Errorf("%d attempts in a minute", n)
		}
		w.node("b", nil) // at another address
		within(t, 1100*time.Millisecond, "reconnecting", func() { mustCall(t, a, "b") })
	})
}

func TestNoAddress(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", nil)
		if _, err := a.Call(ctx, "nobody", echo, nil); !errors.Is(err, ErrNotSent) || !errors.Is(err, errNoAddress) {
			t.Errorf("%v", err)
		}
		mustCall(t, a, "b")
		w.book.remove("b")
		mustCall(t, a, "b") // it is still connected
		b.stop()
		time.Sleep(time.Second)
		if _, err := a.Call(ctx, "b", echo, nil); !errors.Is(err, ErrNotSent) || !errors.Is(err, errNoAddress) {
			t.Errorf("%v", err)
		}
		if len(a.peers) != 0 {
			t.Errorf("%d peers remembered", len(a.peers))
		}
		w.book.set("c", a.addr)
		if _, err := a.Call(ctx, "c", echo, nil); !errors.Is(err, ErrNotSent) {
			t.Errorf("another node at the address: %v", err)
		}
	})
}

func TestIdleConnectionIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", nil)
		mustCall(t, a, "b")
		time.Sleep(100 * time.Second)
		a.onlyLink(t)
		mustCall(t, a, "b")
		time.Sleep(100 * time.Second)
		l := a.onlyLink(t)
		time.Sleep(25 * time.Second)
		if a.linkCount() != 0 || b.linkCount() != 0 || !errors.Is(l.err, errIdle) {
			t.Errorf("%d and %d connections, %v", a.linkCount(), b.linkCount(), l.err)
		}
		within(t, 10*time.Millisecond, "reconnecting", func() { mustCall(t, a, "b") })
	})
}

func (n *node) linkCount() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.links)
}

func TestRequestsUnderWayAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", func(c *Config) { c.MaxInFlight = 2 }), w.node("b", nil)
		done := make(chan error, 3)
		call := func(ctx context.Context) {
			_, err := a.Call(ctx, "b", later, nil)
			done <- err
		}
		go call(ctx)
		go call(ctx)
		first, second := <-b.served, <-b.served
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		call(short)
		if err := <-done; !errors.Is(err, ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("third call: %v", err)
		}
		if _, err := a.Call(ctx, "b", wire.MethodKeepAlive, nil); err != nil {
			t.Errorf("a renewal must not wait: %v", err)
		}
		go call(ctx)
		synctest.Wait()
		if len(b.served) != 0 {
			t.Fatal("a third request is under way")
		}
		first.End()
		third := <-b.served
		second.End()
		third.End()
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		stop, err := a.Stream(ctx, "b", later, nil, func([]byte, error) {})
		if err != nil {
			t.Fatal(err)
		}
		stop()
		<-(<-b.served).Done()
		mustCall(t, a, "b")
		if out := a.onlyLink(t).side.(*outbound); len(out.slots) != 0 || len(out.urgents) != 0 {
			t.Errorf("%d and %d slots taken", len(out.slots), len(out.urgents))
		}
	})
}

func TestBusyPeer(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", func(c *Config) { c.MaxInFlight = 1 })
		const room = 1 + 2*maxUrgent
		var got collect
		for range room {
			if _, err := a.Stream(ctx, "b", later, nil, got.receive); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Call(ctx, "b", echo, nil); !errors.Is(err, ErrBusy) {
			t.Errorf("%v", err)
		}
		(<-b.served).End()
		mustCall(t, a, "b")
		if replies, errs := got.got(); len(replies) != 0 || len(errs) != 1 {
			t.Errorf("%q, %v", replies, errs)
		}
	})
}

// Callers wait while the peer takes nothing, and get on when it does.
func TestQueuedBytesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		patient := func(c *Config) { c.MaxQueued = 256 << 10; c.Timeout = time.Minute }
		a, _ := w.node("a", patient), w.node("b", patient)
		mustCall(t, a, "b")
		net.CutOneWay("a", "b")
		payload := make([]byte, 64<<10)
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				if _, err := a.Call(ctx, "b", echo, payload); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		l := a.onlyLink(t)
		l.mu.Lock()
		queued := l.queued
		l.mu.Unlock()
		if queued < 256<<10 || queued > 256<<10+65<<10 {
			t.Errorf("%d bytes queued", queued)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := a.Call(short, "b", echo, payload); !errors.Is(err, ErrNotSent) {
			t.Errorf("%v", err)
		}
		net.HealAll()
		wg.Wait()
	})
}

// A renewal leaves before what was queued before it.
func TestRenewalsOvertake(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		var mu sync.Mutex
		var order []wire.Method
		a := w.node("a", func(c *Config) { c.Timeout = time.Minute })
		w.node("b", func(c *Config) {
			c.Timeout = time.Minute
			c.Handler = func(_ context.Context, r *Request) {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, r.Method)
				r.End()
			}
		})
		if _, err := a.Call(ctx, "b", echo, nil); err != nil {
			t.Fatal(err)
		}
		net.CutOneWay("a", "b")
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { _, _ = a.Call(ctx, "b", echo, make([]byte, 64<<10)) })
		}
		time.Sleep(time.Second)
		wg.Go(func() { _, _ = a.Call(ctx, "b", wire.MethodKeepAlive, nil) })
		time.Sleep(time.Second)
		net.HealAll()
		wg.Wait()
		// What had left already, a window of the network and a portion, cannot be overtaken.
		if at := slices.Index(order, wire.MethodKeepAlive); at < 0 || at > 40 || len(order) != 102 {
			t.Errorf("the renewal was number %d of %d", at, len(order))
		}
	})
}

func TestCloseWithPending(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", nil)
		var got collect
		if _, err := a.Stream(ctx, "b", later, nil, got.receive); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		go func() {
			_, err := a.Call(ctx, "b", later, nil)
			failed <- err
		}()
		requests := []*Request{<-b.served, <-b.served}
		go a.Close()
		if err := <-failed; !errors.Is(err, ErrNoReply) || !errors.Is(err, ErrClosed) {
			t.Errorf("call: %v", err)
		}
		a.Close()
		if _, errs := got.got(); len(errs) != 1 || !errors.Is(errs[0], ErrNoReply) || !errors.Is(errs[0], ErrClosed) {
			t.Errorf("stream: %v", errs)
		}
		for _, r := range requests {
			<-r.Done()
			r.Send(nil)
			r.Reply(nil)
		}
		if _, err := a.Call(ctx, "b", echo, nil); !errors.Is(err, ErrNotSent) || !errors.Is(err, ErrClosed) {
			t.Errorf("call after Close: %v", err)
		}
		if _, err := b.Call(ctx, "a", echo, nil); err == nil {
			t.Error("a closed node answers")
		}
	})
}

// Close must not wait for a peer that does not answer the dial.
func TestCloseWhileDialling(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		a, _ := w.node("a", func(c *Config) { c.Timeout = time.Hour }), w.node("b", nil)
		net.Cut("a", "b")
		failed := make(chan error)
		go func() {
			_, err := a.Call(ctx, "b", echo, nil)
			failed <- err
		}()
		synctest.Wait()
		within(t, time.Second, "Close", func() { a.Close() })
		if err := <-failed; !errors.Is(err, ErrNotSent) {
			t.Errorf("%v", err)
		}
	})
}

// G10, G11: nothing leaves a node whose switch was thrown: no request, and no reply to what came before.
func TestG11_SwitchSilences(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", nil)
		var got collect
		if _, err := a.Stream(ctx, "b", later, nil, got.receive); err != nil {
			t.Fatal(err)
		}
		r := <-b.served
		failed := make(chan error)
		go func() {
			_, err := b.Call(ctx, "a", later, nil)
			failed <- err
		}()
		<-a.served
		broken := errors.New("disk broken")
		b.sw.Trip(broken)
		r.Reply([]byte("must not leave"))
		if err := <-failed; !errors.Is(err, ErrNoReply) || !errors.Is(err, broken) {
			t.Errorf("call under way: %v", err)
		}
		if _, err := b.Call(ctx, "a", echo, nil); !errors.Is(err, ErrNotSent) || !errors.Is(err, broken) {
			t.Errorf("later call: %v", err)
		}
		if _, err := a.Call(ctx, "b", echo, nil); err == nil {
			t.Error("an answer of the silenced")
		}
		if replies, errs := got.got(); len(replies) != 0 || len(errs) != 1 || !errors.Is(errs[0], ErrNoReply) {
			t.Errorf("%q, %v", replies, errs)
		}
	})
}

// stranger dials like a node and then says what it likes.
func (w *world) stranger(t *testing.T, id string, to *node) net.Conn {
	t.Helper()
	ep, err := w.net.Listen(ctx, id+":0")
	if err != nil {
		t.Fatal(err)
	}
	mux, err := transport.NewMux(ep, transport.MuxConfig{Cell: "test", Node: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mux.Close() })
	c, err := mux.Dial(ctx, transport.KindCalls, to.addr, to.id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestHostilePeerLosesItsConnectionOnly(t *testing.T) {
	ping := "\x00\x00\x00\x01\x01\x06"
	for name, bytes := range map[string]string{
		"nothing":             "",
		"half a head":         "\x00\x00",
		"half a frame":        "\x00\x00\x01\x00\x01\x06",
		"empty frame":         "\x00\x00\x00\x00\x01",
		"huge frame":          "\xff\xff\xff\xff\x01",
		"frame over limit":    "\x00\x40\x00\x01\x01",
		"version 0":           "\x00\x00\x00\x01\x00\x06",
		"version 2":           "\x00\x00\x00\x01\x02\x06",
		"unknown kind":        "\x00\x00\x00\x01\x01\x08",
		"kind 0":              "\x00\x00\x00\x01\x01\x00",
		"reply":               "\x00\x00\x00\x03\x01\x04\x01\x00",
		"cut number":          "\x00\x00\x00\x02\x01\x01\x80",
		"long number":         "\x00\x00\x00\x0d\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"no length":           "\x00\x00\x00\x03\x01\x01\x01\x01",
		"payload over frame":  "\x00\x00\x00\x05\x01\x01\x01\x01\x7f\x00",
		"method out of range": "\x00\x00\x00\x06\x01\x01\x01\x80\x80\x04\x00",
		"request twice":       "\x00\x00\x00\x0a\x01\x01\x01\xe9\x07\x00\x01\x01\xe9\x07\x00",
		"good, then bad":      ping + "\x00\x00\x00\x01\x01\x09",
		"http":                "GET / HTTP/1.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
				a, b := w.node("a", nil), w.node("b", nil)
				mustCall(t, a, "b")
				before := a.onlyLink(t)
				c := w.stranger(t, "x", b)
				if _, err := io.WriteString(c, bytes); err != nil {
					t.Fatal(err)
				}
				within(t, noticed, "closing", func() { _, _ = io.Copy(io.Discard, c) })
				mustCall(t, a, "b")
				if a.onlyLink(t) != before {
					t.Error("another node's connection was closed")
				}
			})
		})
	}
}

// A peer that asks and does not read the answers must not make the node keep them all.
func TestSlowReaderOfReplies(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		const limit = 4 << 20
		a, b := w.node("a", nil), w.node("b", func(c *Config) { c.MaxReplies = limit })
		c := w.stranger(t, "x", b)
		var f frames
		for i := range 100 {
			f.add(message{kind: kindRequest, id: uint64(i), arg: uint64(later)})
		}
		if _, err := c.Write(f.take(nil)); err != nil {
			t.Fatal(err)
		}
		var requests []*Request
		for range 100 {
			requests = append(requests, <-b.served)
		}
		for _, r := range requests {
			r.Reply(make([]byte, 100<<10))
		}
		synctest.Wait()
		over := 0
		for _, r := range requests {
			select {
			case <-r.Done():
				over++
			default:
			}
		}
		if b.linkCount() != 0 || over != 100 {
			t.Errorf("%d connections, %d of 100 requests are over", b.linkCount(), over)
		}
		mustCall(t, a, "b")

		// One that is only slow has a Timeout for each piece.
		c = w.stranger(t, "y", b)
		f.add(message{kind: kindRequest, id: 1, arg: uint64(later)})
		if _, err := c.Write(f.take(nil)); err != nil {
			t.Fatal(err)
		}
		r := <-b.served
		for range 30 {
			r.Send(make([]byte, 100<<10))
		}
		within(t, noticed, "closing", func() { <-r.Done() })
	})
}

func TestConnectionsOfOnePeerAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		b := w.node("b", nil)
		oldest := w.stranger(t, "x", b)
		time.Sleep(100 * time.Millisecond)
		second, third := w.stranger(t, "x", b), w.stranger(t, "x", b)
		within(t, 100*time.Millisecond, "closing the oldest", func() { _, _ = io.Copy(io.Discard, oldest) })
		for _, c := range []net.Conn{second, third} {
			var pong [frameHead + 1]byte
			if _, err := c.Write([]byte("\x00\x00\x00\x01\x01\x06")); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(c, pong[:]); err != nil || pong[5] != byte(kindPong) {
				t.Errorf("%x, %v", pong, err)
			}
		}
	})
}

func TestReplyTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", nil)
		var got collect
		if _, err := a.Stream(ctx, "b", later, nil, got.receive); err != nil {
			t.Fatal(err)
		}
		(<-b.served).Send(make([]byte, 4<<20))
		time.Sleep(time.Second)
		if replies, errs := got.got(); len(replies) != 0 || len(errs) != 1 || !errors.Is(errs[0], ErrTooLarge) {
			t.Errorf("%d, %v", len(replies), errs)
		}
		mustCall(t, a, "b")
	})
}

// Both nodes call each other while the network does its worst; every call must end, and with the right reply.
func TestStorm(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		nodes := []*node{w.node("a", nil), w.node("b", nil), w.node("c", nil)}
		stop := time.Now().Add(20 * time.Second)
		var wg sync.WaitGroup
		var good, bad [3]int
		for i, from := range nodes {
			for j := range 6 {
				to := nodes[(i+1+j%2)%3].id
				wg.Go(func() {
					for k := 0; time.Now().Before(stop); k++ {
						want := fmt.Sprintf("%d %d %d", i, j, k)
						got, err := from.Call(ctx, to, echo, []byte(want))
						from.mu.Lock()
						if err == nil {
							good[i]++
						} else {
							bad[i]++
						}
						from.mu.Unlock()
						if err == nil && string(got) != want {
							t.Errorf("%q for %q", got, want)
						}
						if err != nil && !errors.Is(err, ErrNoReply) && !errors.Is(err, ErrNotSent) {
							t.Error(err)
						}
					}
				})
			}
		}
		for i := range 8 {
			time.Sleep(2 * time.Second)
			switch i % 4 {
			case 0:
				net.LoseReplies("a", "b", "c")
			case 1:
				net.Cut("a", "b")
			case 2:
				net.CutOneWay("c", "a")
			case 3:
				net.HealAll()
			}
		}
		net.HealAll()
		wg.Wait()
		for i := range nodes {
			if good[i] == 0 || bad[i] == 0 {
				t.Errorf("node %d: %d calls succeeded, %d failed", i, good[i], bad[i])
			}
		}
	})
}

func TestFrames(t *testing.T) {
	var f frames
	var want []message
	grown := 0
	for i := range 1000 {
		m := message{kind: kindRequest, id: uint64(i) << 40, arg: uint64(i), body: bytes.Repeat([]byte{byte(i)}, i)}
		if i%10 == 0 {
			m.body = make([]byte, 70<<10)
		}
		want = append(want, m)
		grown += f.add(m)
	}
	run := f.take(nil)
	if grown != len(run) {
		t.Errorf("%d bytes in the run, %d reported", len(run), grown)
	}
	var got []message
	for pieces := 0; len(run) > 0; pieces++ {
		var front []byte
		front, run = cutFrames(run, portion)
		if len(front) > portion {
			t.Errorf("%d bytes at once", len(front))
		}
		for len(front) > 0 {
			n, err := parseHead(front, 4<<20)
			if err != nil {
				t.Fatal(err)
			}
			body := front[frameHead : frameHead+n]
			front = front[frameHead+n:]
			for len(body) > 0 {
				var m message
				if m, body, err = parseMessage(body); err != nil {
					t.Fatal(err)
				}
				got = append(got, m)
			}
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d messages", len(got))
	}
	for i := range got {
		if got[i].id != want[i].id || got[i].arg != want[i].arg || !bytes.Equal(got[i].body, want[i].body) {
			t.Fatalf("message %d", i)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	var seed frames
	for k := kindRequest; k <= kindPong; k++ {
		seed.add(message{kind: k, id: 300, arg: 5, body: []byte("body")})
	}
	f.Add(seed.take(nil)[frameHead:])
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			m, rest, err := parseMessage(b)
			if err != nil {
				if !errors.Is(err, errFrame) {
					t.Fatal(err)
				}
				return
			}
			if len(rest) >= len(b) {
				t.Fatal("no progress")
			}
			var again frames
			again.add(m)
			if m2, _, err := parseMessage(again.take(nil)[frameHead:]); err != nil || m2.kind != m.kind || m2.id != m.id || !bytes.Equal(m2.body, m.body) {
				t.Fatalf("%+v became %+v, %v", m, m2, err)
			}
			b = rest
		}
	})
}

// Nodes with very different Timeouts must not take each other for dead.
func TestTimeoutsMayDiffer(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a := w.node("a", func(c *Config) { c.Timeout = time.Minute })
		b := w.node("b", func(c *Config) { c.Timeout = 100 * time.Millisecond })
		for _, c := range []struct{ from, to *node }{{a, b}, {b, a}} {
			var got collect
			if _, err := c.from.Stream(ctx, c.to.id, later, nil, got.receive); err != nil {
				t.Fatal(err)
			}
			r := <-c.to.served
			time.Sleep(10 * time.Minute)
			r.Reply([]byte("x"))
			time.Sleep(time.Second)
			if replies, errs := got.got(); len(replies) != 1 || errs[0] != io.EOF {
				t.Errorf("to %s: %q, %v", c.to.id, replies, errs)
			}
		}
	})
}
