package transporttest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func portZeroIsFilledIn(t *testing.T, b bed) {
	one, two := b.listen(t), b.listen(t)
	if one.Addr() == two.Addr() {
		t.Errorf("two endpoints at %s", one.Addr())
	}
	if _, port, err := net.SplitHostPort(one.Addr()); err != nil || port == "0" || port == "" {
		t.Errorf("Addr() = %q, %v", one.Addr(), err)
	}
}

func addressInUseIsNamed(t *testing.T, b bed) {
	one := b.listen(t)
	two, err := b.network.Listen(context.Background(), one.Addr())
	if err == nil {
		two.Close()
		t.Fatalf("listening twice on %s succeeded", one.Addr())
	}
	if !strings.Contains(err.Error(), one.Addr()) {
		t.Errorf("%q does not name %s", err, one.Addr())
	}
}

func listenAgainAfterClose(t *testing.T, b bed) {
	one := b.listen(t)
	addr := one.Addr()
	one.Close()
	two, err := b.network.Listen(context.Background(), addr)
	if err != nil {
		t.Fatal(err)
	}
	two.Close()
}

func badAddress(t *testing.T, b bed) {
	for _, addr := range []string{"127.0.0.1", "127.0.0.1:70000", "127.0.0.1:-1"} {
		if e, err := b.network.Listen(context.Background(), addr); err == nil {
			e.Close()
			t.Errorf("Listen(%q) succeeded", addr)
		}
	}
	e := b.listen(t)
	if c, err := e.Dial(context.Background(), "127.0.0.1"); err == nil {
		c.Close()
		t.Error("Dial without a port succeeded")
	}
	if err := e.WritePacket([]byte("x"), "127.0.0.1"); err == nil {
		t.Error("WritePacket without a port succeeded")
	}
}

func dialNobodyListens(t *testing.T, b bed) {
	one, two := b.listen(t), b.listen(t)
	two.Close()
	c, err := one.Dial(context.Background(), two.Addr())
	if err == nil {
		c.Close()
		t.Fatal("Dial to a closed endpoint succeeded")
	}
}

func dialEndedContext(t *testing.T, b bed) {
	one, two := b.listen(t), b.listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c, err := one.Dial(ctx, two.Addr())
	if err == nil {
		c.Close()
		t.Fatal("Dial with an ended context succeeded")
	}
}

func contextBoundsTheAttemptOnly(t *testing.T, b bed) {
	one, two := b.listen(t), b.listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	c, err := one.Dial(ctx, two.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	far, err := two.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	send(t, c, far, []byte("after the end of ctx"))
}

func streamAddresses(t *testing.T, b bed) {
	one, two := b.listen(t), b.listen(t)
	dialled, accepted := connect(t, one, two)
	if got := dialled.RemoteAddr().String(); got != two.Addr() {
		t.Errorf("dialled %s, its far end is %s", two.Addr(), got)
	}
	if got := accepted.LocalAddr().String(); got != two.Addr() {
		t.Errorf("accepted at %s, its near end is %s", two.Addr(), got)
	}
	if near, far := dialled.LocalAddr().String(), accepted.RemoteAddr().String(); near != far {
		t.Errorf("the dialler is at %s and seen at %s", near, far)
	}
}

func packetArrivesWhole(t *testing.T, b bed) {
	one, two := b.listen(t), b.listen(t)
	buf := make([]byte, 2048)
	for _, size := range []int{0, 1, 1400} {
		sent := pattern(size, byte(size))
		if err := one.WritePacket(sent, two.Addr()); err != nil {
			t.Fatal(err)
		}
		n, from, err := two.ReadPacket(buf)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(buf[:n], sent) || from != one.Addr() {
			t.Errorf("%d bytes from %s became %d bytes from %s", size, one.Addr(), n, from)
		}
	}
	one.WritePacket(pattern(100, 0), two.Addr())
	one.WritePacket(pattern(7, 0), two.Addr())
	if n, _, err := two.ReadPacket(buf[:10]); n != 10 && n != 7 || err != nil {
		t.Errorf("a longer packet into 10 bytes: %d, %v", n, err)
	}
}

func packetTooLong(t *testing.T, b bed) {
	one, two := b.listen(t), b.listen(t)
	if err := one.WritePacket(make([]byte, 70_000), two.Addr()); err == nil {
		t.Error("a packet of 70,000 bytes was taken")
	}
}

func packetNobodyListens(t *testing.T, b bed) {
	one, two := b.listen(t), b.listen(t)
	gone := b.listen(t)
	gone.Close()
	one.WritePacket([]byte("to nobody"), gone.Addr())
	if err := one.WritePacket([]byte("to two"), two.Addr()); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	if n, _, err := two.ReadPacket(buf); err != nil || string(buf[:n]) != "to two" {
		t.Errorf("ReadPacket: %q, %v", buf[:n], err)
	}
}

func closeEndsEverything(t *testing.T, b bed) {
	one, two := b.listen(t), b.listen(t)
	dialled, accepted := connect(t, one, two)
	waiting := map[string]func() error{
		"Accept":     func() error { _, err := two.Accept(); return err },
		"ReadPacket": func() error { _, _, err := two.ReadPacket(make([]byte, 10)); return err },
		"Read":       func() error { _, err := accepted.Read(make([]byte, 10)); return err },
		"Write": func() error {
			for {
				if _, err := accepted.Write(make([]byte, 1<<16)); err != nil {
					return err
				}
			}
		},
	}
	type result struct {
		op  string
		err error
	}
	results := make(chan result, len(waiting))
	for op, wait := range waiting {
		go func() { results <- result{op, wait()} }()
	}
	time.Sleep(10 * time.Millisecond) // most of them wait by now; if one does not, the test is weaker, not wrong
	two.Close()
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
	if _, err := two.Dial(context.Background(), one.Addr()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial after Close: %v, want net.ErrClosed", err)
	}
	if err := two.WritePacket([]byte("x"), one.Addr()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("WritePacket after Close: %v, want net.ErrClosed", err)
	}
	for {
		if _, err := dialled.Read(make([]byte, 1<<16)); err != nil {
			break // io.EOF or a reset
		}
	}
}

func closeTwice(t *testing.T, b bed) {
	e := b.listen(t)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

func closeEndsADial(t *testing.T, b bed) {
	one, two := b.listen(t), b.listen(t)
	result := make(chan error)
	go func() {
		for { // one of these dials meets the Close, or comes after it
			if _, err := one.Dial(context.Background(), two.Addr()); err != nil {
				result <- err
				return
			}
		}
	}()
	c, err := two.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	one.Close()
	if err := <-result; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial during Close: %v, want net.ErrClosed", err)
	}
}

func clockNeverGoesBack(t *testing.T, b bed) {
	e := b.listen(t)
	first := e.Now()
	for last, i := first, 0; i < 1000; i++ {
		now := e.Now()
		if now < last {
			t.Fatalf("the clock went from %v to %v", last, now)
		}
		last = now
	}
	time.Sleep(20 * time.Millisecond)
	if passed := e.Now() - first; passed < 19*time.Millisecond {
		t.Errorf("20 ms took %v", passed)
	}
}
