package transporttest

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/coordcell/coord/transport"
)

// dialler opens an endpoint that only dials.
func (b bed) dialler(t *testing.T) transport.Endpoint {
	t.Helper()
	e, err := b.network.Listen(context.Background(), "")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func diallerHasStreamsOnly(t *testing.T, b bed) {
	one, another, server := b.dialler(t), b.dialler(t), b.listen(t)
	if addr := one.Addr(); addr != "" {
		t.Errorf("Addr() = %q", addr)
	}
	for _, e := range []transport.Endpoint{one, another} {
		dialled, accepted := connect(t, e, server)
		send(t, dialled, accepted, pattern(1000, 4))
		send(t, accepted, dialled, pattern(1000, 5))
		if near, far := dialled.LocalAddr().String(), accepted.RemoteAddr().String(); near != far {
			t.Errorf("the dialler is at %s and seen at %s", near, far)
		}
		if c, err := server.Dial(context.Background(), accepted.RemoteAddr().String()); err == nil {
			c.Close()
			t.Error("a stream to an endpoint that only dials")
		}
	}
	if err := one.WritePacket([]byte("x"), server.Addr()); err == nil || errors.Is(err, net.ErrClosed) {
		t.Errorf("WritePacket: %v", err)
	}
	first := one.Now()
	time.Sleep(20 * time.Millisecond)
	if passed := one.Now() - first; passed < 19*time.Millisecond {
		t.Errorf("by its clock 20 ms took %v", passed)
	}
}

func closeEndsADialler(t *testing.T, b bed) {
	one, server := b.dialler(t), b.listen(t)
	dialled, accepted := connect(t, one, server)
	waiting := map[string]func() error{
		"Accept":     func() error { _, err := one.Accept(); return err },
		"ReadPacket": func() error { _, _, err := one.ReadPacket(make([]byte, 10)); return err },
		"Read":       func() error { _, err := dialled.Read(make([]byte, 10)); return err },
	}
	type result struct {
		op  string
		err error
	}
	results := make(chan result, len(waiting))
	for op, wait := range waiting {
		go func() { results <- result{op, wait()} }()
	}
	select {
	case r := <-results:
		t.Errorf("%s did not wait: %v", r.op, r.err)
		results <- r
	case <-time.After(10 * time.Millisecond): // if one does not wait yet, the test is weaker, not wrong
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	for range waiting {
		if r := <-results; !errors.Is(r.err, net.ErrClosed) {
			t.Errorf("%s at the closed endpoint: %v, want net.ErrClosed", r.op, r.err)
		}
	}
	for op, again := range waiting {
		if err := again(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s after Close: %v, want net.ErrClosed", op, err)
		}
	}
	if err := one.WritePacket([]byte("x"), server.Addr()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("WritePacket after Close: %v, want net.ErrClosed", err)
	}
	if _, err := one.Dial(context.Background(), server.Addr()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial after Close: %v, want net.ErrClosed", err)
	}
	if _, err := accepted.Read(make([]byte, 1)); err == nil {
		t.Error("its streams live on")
	}
	if err := one.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

func diallerEndedContext(t *testing.T, b bed) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if e, err := b.network.Listen(ctx, ""); err == nil {
		e.Close()
		t.Error("Listen with an ended context succeeded")
	}
}
