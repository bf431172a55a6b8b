//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// subnet is the first three bytes of every host's address; the fourth is its index + 1. Nothing outside of the
// namespaces ever sees them.
func subnet() [3]byte { return [3]byte{10, 77, 0} }

func hostAddr(i int) string {
	s := subnet()
	return fmt.Sprintf("%d.%d.%d.%d", s[0], s[1], s[2], i+1)
}

// host is a network namespace of its own with one device, whose other end is a file of this process. It has no name and
// lives as long as a thread of this process, or a process that was started in it: nothing is left to be removed.
type host struct {
	tun  *os.File // the fabric's
	work chan func()
	gone chan struct{}
}

// newHost makes the host with this index.
func newHost(i int) (*host, error) {
	h := &host{work: make(chan func()), gone: make(chan struct{})}
	made := make(chan error)
	go func() {
		defer close(h.gone)
		// The thread ends with this goroutine, for it is never unlocked. Processes that were started on it die then.
		runtime.LockOSThread()
		err := h.enter(i)
		made <- err
		if err != nil {
			return
		}
		for f := range h.work {
			f()
		}
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	return h, nil
}

// start starts a process in the namespace. The kernel kills it when this process dies.
func (h *host) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	result := make(chan error, 1)
	h.work <- func() { result <- cmd.Start() }
	return <-result
}

// close ends the host and all processes in it.
func (h *host) close() {
	close(h.work)
	<-h.gone
}

// enter moves the calling thread into a new namespace and sets up its network.
func (h *host) enter(i int) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("/dev/net/tun: %w", err)
	}
	device, err := unix.NewIfreq("cell0")
	if err == nil {
		device.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, device)
	}
	if err == nil {
		err = configure(i)
	}
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("network device: %w", err)
	}
	h.tun = os.NewFile(uintptr(fd), "tun") // after TUNSETIFF, or it could not be waited on
	return nil
}

// configure gives this namespace's devices their addresses and turns them on.
func configure(i int) error {
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	s := subnet()
	for _, step := range []struct {
		device  string
		request uint
		addr    []byte
	}{
		{"cell0", unix.SIOCSIFADDR, []byte{s[0], s[1], s[2], byte(i + 1)}},
		{"cell0", unix.SIOCSIFNETMASK, []byte{255, 255, 255, 0}},
		{"cell0", unix.SIOCSIFFLAGS, nil},
		{"lo", unix.SIOCSIFFLAGS, nil},
	} {
		r, err := unix.NewIfreq(step.device)
		if err != nil {
			return err
		}
		if step.addr != nil {
			err = r.SetInet4Addr(step.addr)
		} else {
			r.SetUint16(unix.IFF_UP)
		}
		if err == nil {
			err = unix.IoctlIfreq(sock, step.request, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
