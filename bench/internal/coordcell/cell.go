package coordcell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coordcell/coord"

	"github.com/coordcell/coord/bench/internal/machine"
	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/proc"
)

// Backend is coord.
type Backend struct {
	Name     string
	Embedded bool // the measuring process is one of the three servers, one that does not lead
}

func (b Backend) About() string {
	where := "callers at a client node in a process of their own"
	if b.Embedded {
		where = "callers in the process of one of them, which does not lead"
	}
	return "3 servers, default settings, synced before the answer; " + where
}

func (Backend) Missing() string { return "" }

func (Backend) Version() string { return "coord " + machine.Module("github.com/coordcell/coord") }

func (b Backend) Start(ctx context.Context, dir string) (peer.Cell, error) {
	addrs, err := proc.FreeAddrs(peer.Servers)
	if err != nil {
		return nil, err
	}
	c := &cell{addrs: addrs, dir: dir, embedded: b.Embedded}
	children := addrs
	if b.Embedded {
		children = addrs[1:]
	}
	for i, addr := range children {
		folder := filepath.Join(dir, childName(i))
		argv, err := proc.Serve(b.Name, "-name", childName(i), "-dir", filepath.Join(folder, "data"),
			"-listen", addr, "-join", strings.Join(addrs, ","))
		if err != nil {
			return nil, err
		}
		c.Add(folder, argv...)
	}
	if err := c.StartAll(); err != nil {
		return nil, err
	}
	if b.Embedded {
		c.node, err = coord.Start(ctx, coord.Config{
			Name: "caller", Dir: filepath.Join(dir, "caller"), Listen: addrs[0], Join: addrs, Expect: peer.Servers, Logger: discard(),
		})
	} else {
		c.node, err = attach(ctx, addrs)
	}
	if err == nil {
		_, _, err = c.Leader(ctx)
	}
	for i := 0; i < len(children) && err == nil; i++ {
		err = c.ready(ctx, i)
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (Backend) Attach(spec string) (peer.Cell, error) {
	c := &cell{}
	return c, json.Unmarshal([]byte(spec), &c.addrs)
}

// childName is the name of the server in the i-th process.
func childName(i int) string { return fmt.Sprint("server", i) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

type cell struct {
	proc.Group
	addrs    []string
	dir      string
	embedded bool
	node     *coord.Node // this process's own, to see who leads, and embedded for all calls
}

func (c *cell) Spec() string {
	text, err := json.Marshal(c.addrs)
	if err != nil {
		return err.Error() // strings always can be
	}
	return string(text)
}

// Lacks: a process that holds sessions and is killed can't be one of the three servers that are measured.
func (c *cell) Lacks(workload string) bool { return c.embedded && workload == "sessions" }

// Leader is always another process: an embedded caller hands leadership over first.
func (c *cell) Leader(ctx context.Context) (number, pid int, err error) {
	err = proc.Until(ctx, 20*time.Second, func(ctx context.Context) error {
		if err := c.node.WaitReady(ctx); err != nil {
			return err
		}
		for _, m := range c.node.Members() {
			if !m.Leader {
				continue
			}
			if m.ID == c.node.ID() {
				return errors.Join(errors.New("this process leads"), c.node.TransferLeadership(ctx, ""))
			}
			if _, err := fmt.Sscanf(m.Name, "server%d", &number); err != nil {
				return fmt.Errorf("a server named %q: %w", m.Name, err)
			}
			pid = c.PID(number)
			return nil
		}
		return errors.New("no leader")
	})
	return number, pid, err
}

// Restart waits until the server has caught up with the leader: until then one more death would be one too many.
func (c *cell) Restart(ctx context.Context, i int) error {
	if err := os.Remove(c.readyFile(i)); err != nil {
		return err
	}
	if err := c.Group.Start(i); err != nil {
		return err
	}
	return c.ready(ctx, i)
}

func (c *cell) readyFile(i int) string { return filepath.Join(c.dir, childName(i), readyFile) }

func (c *cell) ready(ctx context.Context, i int) error {
	return proc.Until(ctx, 20*time.Second, func(context.Context) error {
		_, err := os.Stat(c.readyFile(i))
		return err
	})
}

func (c *cell) Stop() {
	if c.node != nil {
		_ = c.node.Close() // nothing is measured any more
	}
	c.Group.Stop()
}
