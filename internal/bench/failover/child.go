//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/coordcell/coord/internal/bench/process"
)

// child is a server in a process of its own. It says "ready" when it is, and from then on answers each line that it
// reads: cpu with its CPU time, lost with the number of its sessions that it has lost since it was asked last. After stop
// it stops gracefully. It ends with its standard input.
type child struct{ *process.Child }

// spawn starts server i.
func (p plan) spawn(i int) (child, error) {
	self, err := os.Executable()
	if err != nil {
		return child{}, err
	}
	c, err := process.Start(exec.Command(self, "-server", fmt.Sprint(i), "-dir", p.dir, "-addrs", strings.Join(p.addrs, ","),
		"-election", p.election.String()))
	return child{c}, err
}

// shutDown begins a graceful stop.
func (c child) shutDown() error { return c.Tell("stop") }

// ready waits until the server is.
func (c child) ready(ctx context.Context) error {
	_, err := c.Line(ctx)
	return err
}

// cpu is what the process has used so far.
func (c child) cpu(ctx context.Context) (time.Duration, error) {
	text, err := c.Ask(ctx, "cpu")
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(text)
}

// lost is how many sessions the process has lost since the last time.
func (c child) lost(ctx context.Context) (int, error) {
	text, err := c.Ask(ctx, "lost")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
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
				fmt.Println(process.CPU())
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
