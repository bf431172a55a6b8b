package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/transport"
)

const (
	addrA = "10.0.0.1:7420"
	addrB = "10.0.0.2:7420"
	addrC = "10.0.0.3:7420"
)

// lab is a Memory in a bubble with three endpoints on three hosts.
type lab struct {
	*testing.T
	*transport.Memory
	a, b, c transport.Endpoint
}

func inLab(t *testing.T, body func(l lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := lab{T: t, Memory: transport.NewMemory()}
		l.a, l.b, l.c = l.listen(addrA), l.listen(addrB), l.listen(addrC)
		body(l)
	})
}

func (l lab) listen(addr string) transport.Endpoint {
	l.Helper()
	e, err := l.Memory.Listen(context.Background(), addr)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { e.Close() })
	return e
}

func (l lab) stream(from, to transport.Endpoint) (dialled, accepted net.Conn) {
	l.Helper()
	dialled, err := from.Dial(context.Background(), to.Addr())
	if err != nil {
		l.Fatal(err)
	}
	accepted, err = to.Accept()
	if err != nil {
		l.Fatal(err)
	}
	return dialled, accepted
}

func (l lab) write(c net.Conn, s string) {
	l.Helper()
	if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
		l.Fatalf("Write: %d, %v", n, err)
	}
}

// read wants s to arrive at c exactly after d.
func (l lab) read(c net.Conn, s string, after time.Duration) {
	l.Helper()
	start := time.Now()
	got := make([]byte, len(s))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != s {
		l.Fatalf("read %q, %v, want %q", got, err, s)
	}
	if passed := time.Since(start); passed != after {
		l.Errorf("%q arrived after %v, want %v", s, passed, after)
	}
}

// silence wants nothing to arrive at c for d.
func (l lab) silence(c net.Conn, d time.Duration) {
	l.Helper()
	c.SetReadDeadline(time.Now().Add(d))
	if n, err := c.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		l.Errorf("%d bytes arrived, %v, want silence", n, err)
	}
	c.SetReadDeadline(time.Time{})
}

// broken wants c to end with err, as soon as there is something to hear.
func (l lab) broken(c net.Conn, want error) {
	l.Helper()
	c.SetReadDeadline(time.Now().Add(time.Hour))
	if _, err := c.Read(make([]byte, 10)); !errors.Is(err, want) {
		l.Errorf("Read: %v, want %v", err, want)
	}
	if _, err := c.Write([]byte("x")); want != io.EOF && !errors.Is(err, want) {
		l.Errorf("Write: %v, want %v", err, want)
	}
}

// packets counts what arrives at e within d.
func (l lab) packets(e transport.Endpoint, d time.Duration) int {
	l.Helper()
	n := 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 100)
		for {
			k, _, err := e.ReadPacket(buf)
			if err != nil || string(buf[:k]) == "enough" {
				return
			}
			n++
		}
	}()
	time.Sleep(d)
	// The counting ends with a packet from e to itself.
	if err := e.WritePacket([]byte("enough"), e.Addr()); err != nil {
		l.Fatal(err)
	}
	<-ended
	return n
}

func (l lab) sendPackets(from, to transport.Endpoint, n int) {
	l.Helper()
	for i := range n {
		if err := from.WritePacket(fmt.Appendf(nil, "%d", i), to.Addr()); err != nil {
			l.Fatal(err)
		}
	}
}

// cannotDial wants a dial to wait for as long as its context lets it.
func (l lab) cannotDial(from, to transport.Endpoint) {
	l.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start := time.Now()
	if _, err := from.Dial(ctx, to.Addr()); !errors.Is(err, context.DeadlineExceeded) {
		l.Errorf("Dial: %v, want context.DeadlineExceeded", err)
	}
	if passed := time.Since(start); passed != time.Minute {
		l.Errorf("Dial gave up after %v, want its minute", passed)
	}
}
