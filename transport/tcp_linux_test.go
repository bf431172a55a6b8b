package transport

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTCPKeepsNoClosedStream(t *testing.T) {
	one, two := openEndpoint(t, TCP()).(*tcpEndpoint), openEndpoint(t, TCP()).(*tcpEndpoint)
	near, err := one.Dial(context.Background(), two.Addr())
	if err != nil {
		t.Fatal(err)
	}
	far, err := two.Accept()
	if err != nil {
		t.Fatal(err)
	}
	near.Close()
	far.Close()
	if len(one.conns)+len(two.conns) != 0 {
		t.Errorf("%d and %d closed streams are kept", len(one.conns), len(two.conns))
	}
}

// A stream may come into being while its endpoint is being closed.
func TestTCPClosesAStreamThatComesTooLate(t *testing.T) {
	one, two := openEndpoint(t, TCP()).(*tcpEndpoint), openEndpoint(t, TCP())
	raw, err := net.Dial("tcp", two.Addr())
	if err != nil {
		t.Fatal(err)
	}
	one.Close()
	if _, err := one.track(raw.(*net.TCPConn)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("track: %v, want net.ErrClosed", err)
	}
	if _, err := raw.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write: %v, want net.ErrClosed", err)
	}
}

func TestTCPPortTakenForPacketsOnly(t *testing.T) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	addr := socket.LocalAddr().String()
	if _, err := TCP().Listen(context.Background(), addr); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("Listen: %v, want an error that names %s", err, addr)
	}
	socket.Close()
	e, err := TCP().Listen(context.Background(), addr) // the first attempt has left nothing behind
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
}

func TestTCPPacketToAName(t *testing.T) {
	one, two := openEndpoint(t, TCP()), openEndpoint(t, TCP())
	_, port, _ := net.SplitHostPort(two.Addr())
	if err := one.WritePacket([]byte("x"), "localhost:"+port); err != nil {
		t.Fatal(err)
	}
	if _, from, err := two.ReadPacket(make([]byte, 10)); from != one.Addr() || err != nil {
		t.Errorf("ReadPacket: from %s, %v", from, err)
	}
}

// A listener with a full backlog lets a dial wait; Close must end it.
func TestTCPCloseEndsADialThatWaits(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	to := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*unix.SockaddrInet4).Port}
	e := openEndpoint(t, TCP())
	ended := make(chan error)
	for waits := false; !waits; {
		go func() {
			_, err := e.Dial(context.Background(), to.String())
			ended <- err
		}()
		select {
		case err := <-ended: // the backlog had room
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(50 * time.Millisecond):
			waits = true
		}
	}
	e.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial: %v, want net.ErrClosed", err)
	}
}
