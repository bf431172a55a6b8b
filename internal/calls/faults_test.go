package calls

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

		// All is forgiven after a while: one more failure is the first again.
		time.Sleep(time.Minute)
		mustCall(t, a, "b")
		net.Kill(w.addr("b"))
		time.Sleep(10 * time.Millisecond)
		if _, err := a.Call(ctx, "b", echo, nil); !errors.Is(err, ErrNotSent) {
			t.Errorf("%v", err)
		}
		w.node("b", nil)
		within(t, 100*time.Millisecond, "reconnecting after one failure", func() { mustCall(t, a, "b") })
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
	return len(n.all())
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

// A thrown switch ends what is under way at once, although there is nothing to send.
func TestSwitchClosesConnections(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", nil)
		failed := make(chan error)
		go func() {
			_, err := a.Call(ctx, "b", later, nil)
			failed <- err
		}()
		r := <-b.served
		time.Sleep(100 * time.Millisecond)
		within(t, 10*time.Millisecond, "closing", func() {
			b.sw.Trip(errors.New("disk broken"))
			<-r.Done()
			if err := <-failed; !errors.Is(err, ErrNoReply) {
				t.Errorf("%v", err)
			}
		})
		synctest.Wait()
		if n := b.linkCount(); n != 0 {
			t.Errorf("%d connections", n)
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
	silent := map[string]string{
		"nothing":      "",
		"half a head":  "\x00\x00",
		"half a frame": "\x00\x00\x01\x00\x01\x06",
	}
	bad := map[string]string{
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
	}
	test := func(name, bytes string, patience time.Duration) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
				a, b := w.node("a", nil), w.node("b", nil)
				mustCall(t, a, "b")
				before := a.onlyLink(t)
				c := w.stranger(t, "x", b)
				if _, err := io.WriteString(c, bytes); err != nil {
					t.Fatal(err)
				}
				within(t, patience, "closing", func() { _, _ = io.Copy(io.Discard, c) })
				mustCall(t, a, "b")
				if a.onlyLink(t) != before {
					t.Error("another node's connection was closed")
				}
			})
		})
	}
	for name, bytes := range silent {
		test(name, bytes, noticed)
	}
	for name, bytes := range bad {
		test(name, bytes, 50*time.Millisecond)
	}
}

// Both nodes call each other while the network does its worst; every call must end, and with the right reply.
func TestStorm(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		nodes := []*node{w.node("a", nil), w.node("b", nil), w.node("c", nil)}
		stop := time.Now().Add(6 * time.Second)
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
		for i := range 4 {
			time.Sleep(1300 * time.Millisecond)
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

// Who is heard of is dialled at once, whatever failed before; and who is given up keeps nobody waiting.
func TestHurryAndGiveUp(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", nil)
		mustCall(t, a, "b")
		b.stop()
		for range 8 { // the pauses have become long
			_, _ = a.Call(ctx, "b", echo, nil)
		}
		begin := func() (done chan error) {
			done = make(chan error, 1)
			go func() {
				_, err := a.Call(ctx, "b", echo, nil)
				done <- err
			}()
			synctest.Wait()
			return done
		}
		given := begin()
		within(t, 10*time.Millisecond, "giving up", func() {
			a.GiveUp("b")
			if err := <-given; !errors.Is(err, ErrNotSent) {
				t.Error(err)
			}
		})
		w.node("b", nil)
		pausing := begin()
		within(t, 10*time.Millisecond, "the attempt that pauses", func() {
			a.Hurry("b")
			if err := <-pausing; err != nil {
				t.Error(err)
			}
		})
		a.Hurry("nobody")
		a.GiveUp("nobody")
	})
}
