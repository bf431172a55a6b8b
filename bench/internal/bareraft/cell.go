package bareraft

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/coordcell/coord/bench/internal/machine"
	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/proc"
)

// Backend is bare raft.
type Backend struct {
	Name   string
	Store  string // of the log: "bolt" or "wal"
	Packed bool   // all that wait in one entry
}

func (b Backend) About() string {
	how := "each proposal an entry of its own"
	if b.Packed {
		how = "all waiting proposals in one entry"
	}
	store := map[string]string{"bolt": "raft-boltdb", "wal": "raft-wal"}[b.Store]
	return "3 servers, hashicorp/raft with nothing to do, log in " + store + ", " + how + ", synced before the answer"
}
func (Backend) Missing() string { return "" }
func (b Backend) Version() string {
	module := map[string]string{"bolt": "raft-boltdb/v2", "wal": "raft-wal"}[b.Store]
	return "raft " + machine.Module("github.com/hashicorp/raft") + ", " + module + " " + machine.Module("github.com/hashicorp/"+module)
}

func (b Backend) Start(ctx context.Context, dir string) (peer.Cell, error) {
	addrs, err := proc.FreeAddrs(2 * peer.Servers)
	if err != nil {
		return nil, err
	}
	c := &cell{addrs: addrs[:peer.Servers]}
	for i := range peer.Servers {
		folder := filepath.Join(dir, fmt.Sprint("n", i))
		argv, err := proc.Serve(b.Name, "-id", fmt.Sprint(i), "-dir", filepath.Join(folder, "data"),
			"-servers", strings.Join(addrs[peer.Servers:], ","), "-calls", addrs[i])
		if err != nil {
			return nil, err
		}
		c.Add(folder, argv...)
	}
	if err = c.StartAll(); err == nil {
		_, _, err = c.Leader(ctx)
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

type cell struct {
	proc.Group
	addrs []string
}

// Lacks: locks that exclude nobody have no waiters, and take no memory.
func (*cell) Lacks(workload string) bool {
	return workload == "handover" || workload == "watches" || workload == "sessions" || workload == "held"
}

func (c *cell) Spec() string {
	text, err := json.Marshal(c.addrs)
	if err != nil {
		return err.Error() // strings always can be
	}
	return string(text)
}

func (c *cell) Leader(ctx context.Context) (number, pid int, err error) {
	err = proc.Until(ctx, 20*time.Second, func(ctx context.Context) error {
		conn, i, err := c.dialLeader(ctx)
		if err != nil {
			return err
		}
		conn.close()
		number, pid = i, c.PID(i)
		return nil
	})
	return number, pid, err
}

// dialLeader asks all servers at which of them it should be.
func (c *cell) dialLeader(ctx context.Context) (*conn, int, error) {
	for i, addr := range c.addrs {
		k, err := dial(addr)
		if err != nil {
			continue
		}
		if k.call(ctx, kindLeads, nil) == nil {
			return k, i, nil
		}
		k.close()
	}
	return nil, 0, errors.New("no leader")
}

func (c *cell) Restart(ctx context.Context, i int) error {
	if err := c.Group.Start(i); err != nil {
		return err
	}
	return proc.Until(ctx, 20*time.Second, func(context.Context) error {
		k, err := dial(c.addrs[i])
		if err == nil {
			k.close()
		}
		return err
	})
}
