//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a server in a process of its own. It says "ready" when it is, and from then on answers each line that it
// reads: cpu with its CPU time, lost with the number of its sessions that it has lost since it was asked last. After stop
// it stops gracefully. It ends with its standard input.
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
		"-election", p.election.String())
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

// kill is kill -9. It does not wait for the process to be gone.
func (c *child) kill() error { return c.cmd.Process.Kill() }

// shutDown begins a graceful stop.
func (c *child) shutDown() error {
	_, err := fmt.Fprintln(c.in, "stop")
	return err
}

// ended waits until the process is no more.
func (c *child) ended() { _ = c.cmd.Wait() } // "signal: killed", or that it has been waited for before

// ready waits until the server is.
func (c *child) ready(ctx context.Context) error {
	_, err := c.line(ctx)
	return err
}

// cpu is what the process has used so far.
func (c *child) cpu(ctx context.Context) (time.Duration, error) {
	text, err := c.ask(ctx, "cpu")
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(text)
}

// lost is how many sessions the process has lost since the last time.
func (c *child) lost(ctx context.Context) (int, error) {
	text, err := c.ask(ctx, "lost")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (c *child) ask(ctx context.Context, what string) (string, error) {
	if _, err := fmt.Fprintln(c.in, what); err != nil {
		return "", err
	}
	return c.line(ctx)
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
	asked := make(chan string)
	go func() { // ends with standard input, or the process
		defer end()
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			asked <- s.Text()
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
	own, err := p.openSessions(ctx, node)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for told := 0; ; {
		select {
		case what := <-asked:
			switch what {
			case "cpu":
				fmt.Println(cpu())
			case "lost":
				all := lostOf(own)
				fmt.Println(all - told)
				told = all
			case "stop":
				return node.Shutdown(ctx)
			}
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
