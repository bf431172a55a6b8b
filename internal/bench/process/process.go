//go:build unix

// Package process is what the programs that measure have in common: processes of their own, which answer lines with
// lines, what a process has used, and addresses for servers.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Child is another process of this program, from outside. It reads lines from its standard input, which it should end
// with, and says lines on its standard output. Its errors go where this process's go. It is for one goroutine.
type Child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed when the process says no more
}

// Start starts a child.
func Start(cmd *exec.Cmd) (*Child, error) {
	c := &Child{cmd: cmd, lines: make(chan string, 1)}
	cmd.Stderr = os.Stderr
	var err error
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	return c, nil
}

// Tell writes a line.
func (c *Child) Tell(line string) error {
	_, err := fmt.Fprintln(c.in, line)
	return err
}

// Line waits for the next line that the child says.
func (c *Child) Line(ctx context.Context) (string, error) {
	select {
	case line, ok := <-c.lines:
		if !ok {
			return "", errors.New("the process has ended by itself")
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Ask is Tell and Line. After an error the child is of no use.
func (c *Child) Ask(ctx context.Context, line string) (string, error) {
	if err := c.Tell(line); err != nil {
		return "", err
	}
	return c.Line(ctx)
}

// Kill is kill -9. It does not wait for the process to be gone.
func (c *Child) Kill() error { return c.cmd.Process.Kill() }

// Stop ends the child's standard input.
func (c *Child) Stop() { c.in.Close() }

// Ended waits until the process is no more. What it says is lost.
func (c *Child) Ended() {
	for range c.lines {
	}
	_ = c.cmd.Wait() // "signal: killed", or that it has been waited for before; the rest it has said itself
}

// CPU is the CPU time of this process so far.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// FreeAddrs are addresses of loopback that nobody listens on, for now.
func FreeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // when all have been picked: they differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
