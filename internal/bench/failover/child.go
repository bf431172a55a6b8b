//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// child is a server in a process of its own. It says "ready" when it is, and from then on answers each line that it
// reads with its CPU time. It ends with its standard input.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed when the process says no more
}

// spawn starts server i.
func (p plan) spawn(i int) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{lines: make(chan string, 1)}
	c.cmd = exec.Command(self, "-server", fmt.Sprint(i), "-dir", p.dir, "-addrs", strings.Join(p.addrs, ","),
		"-election", p.election.String(), "-kills", fmt.Sprint(p.kills), "-idle", p.idle.String())
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
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

// kill is kill -9. It returns once the process is no more.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // "signal: killed", or it has been killed before
}

// ready waits until the server is.
func (c *child) ready(ctx context.Context) error {
	_, err := c.line(ctx)
	return err
}

// cpu is what the process has used so far.
func (c *child) cpu(ctx context.Context) (used time.Duration, err error) {
	if _, err := fmt.Fprintln(c.in, "cpu"); err != nil {
		return 0, err
	}
	text, err := c.line(ctx)
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(text)
}

func (c *child) line(ctx context.Context) (string, error) {
	select {
	case text, ok := <-c.lines:
		if !ok {
			return "", fmt.Errorf("a server has ended by itself")
		}
		return text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// serve is what a child does.
func (p plan) serve(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	asked := make(chan struct{})
	go func() { // ends with standard input, or the process
		defer end()
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			asked <- struct{}{}
		}
	}()
	node, err := p.start(ctx, p.server)
	if err != nil {
		return err
	}
	defer node.Close()
	if err := node.WaitReady(ctx); err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		select {
		case <-asked:
			fmt.Println(cpu())
		case <-node.Done():
			return node.Err()
		case <-ctx.Done():
			return nil
		}
	}
}

// cpu is the CPU time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
