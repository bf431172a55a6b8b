package calls

import (
	"context"
	"errors"
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
		short, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := a.Call(short, "b", wire.MethodKeepAlive, nil); !errors.Is(err, ErrNoReply) {
			t.Errorf("a renewal must not wait: %v", err)
		}
		net.HealAll()
		wg.Wait()
		if out := l.side.(*outbound); len(out.slots) != 0 {
			t.Errorf("%d slots taken", len(out.slots))
		}
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

// An acknowledgement leaves before replies that were queued before it.
func TestAcknowledgementsOvertake(t *testing.T) {
	bubble(t, func(t *testing.T, net *transport.Memory, w *world) {
		patient := func(c *Config) { c.Timeout = time.Minute }
		a, b := w.node("a", patient), w.node("b", patient)
		const n = 100
		var mu sync.Mutex
		replies, at := 0, -1
		for range n {
			if _, err := a.Stream(ctx, "b", later, nil, func(_ []byte, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					replies++
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		var requests []*Request
		for range n {
			requests = append(requests, <-b.served)
		}
		net.CutOneWay("b", "a")
		for _, r := range requests {
			r.Reply(make([]byte, 64<<10))
		}
		if _, err := a.Stream(ctx, "b", wire.MethodKeepAlive, nil, func(_ []byte, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				at = replies
			}
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		net.HealAll()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if at < 0 || at > 40 || replies != n {
			t.Errorf("the acknowledgement came after %d of %d replies", at, replies)
		}
	})
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
		if _, err := c.Write(f.run()); err != nil {
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
		f.clear()
		f.add(message{kind: kindRequest, id: 1, arg: uint64(later)})
		if _, err := c.Write(f.run()); err != nil {
			t.Fatal(err)
		}
		r := <-b.served
		for range 30 {
			r.Send(make([]byte, 100<<10))
		}
		within(t, noticed, "closing", func() { <-r.Done() })
	})
}

// A peer that lives and does not read loses its connection; one that reads slowly keeps it.
func TestReadersThatAreSlow(t *testing.T) {
	for name, pace := range map[string]time.Duration{"slow": 300 * time.Millisecond, "dead slow": time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
				b := w.node("b", nil)
				c := w.stranger(t, "y", b)
				var f frames
				f.add(message{kind: kindRequest, id: 1, arg: uint64(later)})
				if _, err := c.Write(f.run()); err != nil {
					t.Fatal(err)
				}
				r := <-b.served
				const size = 4 << 20 // a quarter of it is on its way
				for range 4 {
					r.Send(make([]byte, size/4))
				}
				stop := make(chan struct{})
				defer close(stop)
				go func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(200 * time.Millisecond):
							_, _ = c.Write([]byte("\x00\x00\x00\x01\x01\x06"))
						}
					}
				}()
				if pace == time.Hour {
					within(t, noticed, "closing", func() { <-r.Done() })
					return
				}
				for read := 0; read < size; read += 200 << 10 {
					time.Sleep(pace)
					if _, err := io.ReadFull(c, make([]byte, 200<<10)); err != nil {
						t.Fatalf("after %d bytes: %v", read, err)
					}
				}
			})
		})
	}
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
