package server

import (
	"context"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/coordcell/coord/transport"
)

// In front of a process that does not accept, the queue of connections is full after a while. Then Linux drops the next
// ones, or resets them if it was told so: neither is what it does for a process that is dead.
func TestAFullQueueIsNoDeath(t *testing.T) {
	t.Run("dropped", func(t *testing.T) { knockAtAFullQueue(t) })
	t.Run("reset", func(t *testing.T) {
		done := make(chan string)
		go func() { // ends with its thread, which is in a network of its own
			runtime.LockOSThread()
			defer close(done)
			if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
				done <- err.Error()
				return
			}
			if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
				done <- string(out) + err.Error()
				return
			}
			if err := os.WriteFile("/proc/sys/net/ipv4/tcp_abort_on_overflow", []byte("1"), 0o644); err != nil {
				done <- err.Error()
				return
			}
			knockAtAFullQueue(t)
		}()
		if why := <-done; why != "" {
			t.Skip("no network of its own: ", why)
		}
	})
}

// knockAtAFullQueue stays on its goroutine.
func knockAtAFullQueue(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return
	}
	defer l.Close()
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { _ = syscall.Listen(int(fd), 0) }) // as short a queue as there is
	}
	if err != nil {
		t.Error(err)
		return
	}
	ep, err := transport.TCP().Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return
	}
	self, err := transport.NewMux(ep, transport.MuxConfig{Cell: "c", Node: "self", Boot: 1, CellID: [16]byte{1}})
	if err != nil {
		t.Error(err)
		return
	}
	defer self.Close()
	var last error
	for range 10 { // the first few take up the room that there is
		d := net.Dialer{Timeout: 50 * time.Millisecond}
		c, err := d.Dial("tcp", l.Addr().String())
		if err == nil {
			defer c.Close()
			_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			_, err = c.Read(make([]byte, 1))
		}
		last = err
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		if got := knock(ctx, self, l.Addr().String(), "leader", 7); got != unknown {
			t.Errorf("%d, not unknown", got)
		}
		cancel()
	}
	t.Logf("at the end a connection fails with: %v", last)
}
