//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordcell/coord/internal/bench/process"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/failstop"
	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

const (
	clientPrefix = "client-"
	diallers     = 32 // clients that connect at the same time
	patience     = 5 * time.Second
	// clientTimeout is long, for thousands of clients look at their clocks four times in it, all in one process.
	clientTimeout = 10 * time.Second
	payloadSize   = 48 // bytes, about those of a renewal of one session
)

// child is the process with the clients, as the server sees it.
type child struct{ *process.Child }

// spawn starts the process with the clients.
func (p plan) spawn(ctx context.Context, server string) (child, error) {
	self, err := os.Executable()
	if err != nil {
		return child{}, err
	}
	c, err := process.Start(exec.CommandContext(ctx, self,
		"-server", server, "-n", fmt.Sprint(p.clients), "-renew", p.renew.String(), "-for", p.phase.String()))
	return child{c}, err
}

// ask sends a line and reads the answer into results: numbers and durations.
func (c child) ask(ctx context.Context, line string, results ...any) error {
	answer, err := c.Ask(ctx, line)
	if err != nil {
		return err
	}
	for i, field := range strings.Fields(answer) {
		if d, ok := results[i].(*time.Duration); ok {
			if *d, err = time.ParseDuration(field); err != nil {
				return err
			}
		} else if _, err := fmt.Sscan(field, results[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c child) stop() {
	c.Stop()
	c.Ended()
}

// client is one client node.
type client struct {
	mux *transport.Mux
	x   *calls.Exchange
}

// hold is the process with the clients.
func (p plan) hold(ctx context.Context) error {
	clients := make([]client, p.clients)
	defer func() {
		for _, c := range clients {
			if c.x != nil {
				c.x.Close()
				c.mux.Close()
			}
		}
	}()
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		switch s.Text() {
		case "dial":
			start := time.Now()
			if err := p.dial(ctx, clients); err != nil {
				return err
			}
			fmt.Println(time.Since(start))
		case "renew":
			fmt.Println(p.renewAll(ctx, clients))
		case "silence":
			pause(ctx, p.phase)
			fmt.Println(p.phase)
		}
	}
	return nil
}

// pause waits, and tells whether ctx lives.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// dial connects all clients.
func (p plan) dial(ctx context.Context, clients []client) error {
	next := make(chan int)
	failed := make(chan error, diallers)
	var all sync.WaitGroup
	for range diallers {
		all.Go(func() {
			for i := range next {
				if err := clients[i].dial(ctx, i, p.server); err != nil {
					select {
					case failed <- fmt.Errorf("client %d: %w", i, err):
					default:
					}
				}
			}
		})
	}
	for i := range clients {
		next <- i
	}
	close(next)
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (c *client) dial(ctx context.Context, i int, server string) error {
	ep, err := transport.TCP().Listen(ctx, "")
	if err != nil {
		return err
	}
	id := fmt.Sprint(clientPrefix, i)
	if c.mux, err = transport.NewMux(ep, transport.MuxConfig{Cell: "bench", Node: id, LearnCellID: true}); err != nil {
		return err
	}
	// With all at one address the kernel looks long for a free port for the last ones.
	_, port, err := net.SplitHostPort(server)
	if err != nil {
		return err
	}
	addr := net.JoinHostPort(fmt.Sprintf("127.0.0.%d", 1+i%8), port)
	c.x = calls.New(calls.Config{
		Mux: c.mux, Directory: book{serverID: addr}, Switch: failstop.New(), Client: true,
		Timeout: clientTimeout,
		Handler: func(_ context.Context, r *calls.Request) { r.Fail(calls.ErrUnknownMethod) },
	})
	for attempt := 1; ; attempt++ {
		err := c.renew(ctx)
		if err == nil || attempt == 10 {
			return err
		}
	}
}

func (c *client) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := c.x.Call(ctx, serverID, wire.MethodKeepAlive, make([]byte, payloadSize))
	return err
}

// renewAll lets each client renew at its pace, and returns how many renewals succeeded, how many failed, and how long
// they took, for half of them and for all but one in a hundred.
func (p plan) renewAll(ctx context.Context, clients []client) (renewals, failures int, p50, p99 string) {
	end := time.Now().Add(p.phase)
	took := make([][]time.Duration, len(clients))
	failed := make([]int, len(clients))
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for wait := rand.N(p.renew); pause(ctx, wait) && time.Now().Before(end); wait = p.renew {
				start := time.Now()
				if err := clients[i].renew(ctx); err != nil {
					failed[i]++
					continue
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	all.Wait()
	for _, n := range failed {
		failures += n
	}
	times := slices.Concat(took...)
	if len(times) == 0 {
		return 0, failures, "0s", "0s"
	}
	slices.Sort(times)
	return len(times), failures, times[len(times)/2].String(), times[len(times)*99/100].String()
}
