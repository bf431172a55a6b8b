//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/bench/process"
)

// cell is the servers of a run, each a process.
type cell struct {
	plan
	dir      string
	addrs    []string
	servers  []*child // nil: dead
	election time.Duration
}

// newCell starts n servers and waits until they are ready. Its close ends them and removes their disks.
func newCell(ctx context.Context, p plan, n int) (c *cell, err error) {
	c = &cell{plan: p, servers: make([]*child, n), election: coord.DefaultElectionTimeout}
	if c.addrs, err = process.FreeAddrs(n); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp(p.dir, "coord-scale-"); err != nil {
		return nil, err
	}
	for i := range n {
		if err := c.start(i); err != nil {
			c.close()
			return nil, err
		}
	}
	if err := c.ready(ctx); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cell) close() {
	if c.profile != "" {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := c.all(ctx, func(int) *order { return &order{Do: doEnd} }); err != nil {
			c.say("%v", err)
		}
	}
	for i := range c.servers {
		c.kill(i)
	}
	_ = os.RemoveAll(c.dir)
}

// start starts server i, which has been dead.
func (c *cell) start(i int) (err error) {
	p := place{Number: i, Dir: filepath.Join(c.dir, fmt.Sprint(i)), Addrs: c.addrs, Election: c.election}
	if c.profile != "" {
		p.Profile = filepath.Join(c.profile, fmt.Sprintf("server%d.prof", i))
	}
	c.servers[i], err = spawn(p)
	return err
}

// kill is kill -9. It returns once the process is no more.
func (c *cell) kill(i int) {
	if c.servers[i] != nil {
		c.servers[i].kill()
		c.servers[i] = nil
	}
}

// ready waits until every live server knows a leader and has caught up.
func (c *cell) ready(ctx context.Context) error {
	_, err := c.all(ctx, func(int) *order { return &order{Do: doStatus} })
	return err
}

// all gives an order to every live server for which there is one, at once, and returns their reports by number.
func (c *cell) all(ctx context.Context, what func(i int) *order) ([]report, error) {
	reports, errs := make([]report, len(c.servers)), make([]error, len(c.servers))
	var wg sync.WaitGroup
	for i, s := range c.servers {
		o := what(i)
		if s == nil || o == nil {
			continue
		}
		wg.Go(func() {
			if reports[i], errs[i] = s.ask(ctx, *o); errs[i] != nil {
				errs[i] = fmt.Errorf("server %d: %s: %w", i, o.Do, errs[i])
			}
		})
	}
	wg.Wait()
	return reports, errors.Join(errs...)
}

// status is how the live servers are; with gc, after a collection.
func (c *cell) status(ctx context.Context, gc bool) ([]report, error) {
	do := doStatus
	if gc {
		do = doGC
	}
	return c.all(ctx, func(int) *order { return &order{Do: do} })
}

// leader is the number of the server that leads.
func (c *cell) leader(ctx context.Context) (int, error) {
	for {
		reports, err := c.status(ctx, false)
		if err != nil {
			return 0, err
		}
		for i := range reports {
			if reports[i].Leader {
				return i, nil
			}
		}
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// until asks server i for its status until it is as wanted.
func (c *cell) until(ctx context.Context, i int, wanted func(report) bool) error {
	for {
		r, err := c.servers[i].ask(ctx, order{Do: doStatus})
		if err != nil || wanted(r) {
			return err
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// child is a server's process, from outside. One order at a time.
type child struct{ *process.Child }

func spawn(p place) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	c, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	server := &child{c}
	return server, server.tell(p)
}

func (c *child) kill() {
	_ = c.Kill() // or it has ended before
	c.Ended()
}

func (c *child) tell(what any) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return c.Tell(string(line))
}

// ask gives an order and waits for the report. After an error the child is of no use.
func (c *child) ask(ctx context.Context, o order) (r report, err error) {
	if err := c.tell(o); err != nil {
		return r, err
	}
	line, err := c.Line(ctx)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, err
	}
	if r.Err != "" {
		return r, errors.New(r.Err)
	}
	return r, nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
