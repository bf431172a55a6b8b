package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/coordcell/coord/bench/internal/machine"
	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/proc"
)

// Backend is etcd.
type Backend struct{}

func (Backend) About() string {
	return "3 servers, default settings, synced before the answer"
}
func (Backend) Missing() string { return "" }
func (Backend) Version() string { return "etcd " + machine.Module("go.etcd.io/etcd/server/v3") }

func (Backend) Start(ctx context.Context, dir string) (peer.Cell, error) {
	addrs, err := proc.FreeAddrs(2 * peer.Servers)
	if err != nil {
		return nil, err
	}
	c := &cell{}
	var members []string
	for i := range peer.Servers {
		c.endpoints = append(c.endpoints, "http://"+addrs[i])
		members = append(members, fmt.Sprintf("n%d=http://%s", i, addrs[peer.Servers+i]))
	}
	for i := range peer.Servers {
		folder := filepath.Join(dir, fmt.Sprint("n", i))
		argv, err := proc.Serve("etcd", "-name", fmt.Sprint("n", i), "-dir", filepath.Join(folder, "data"),
			"-client", c.endpoints[i], "-peer", "http://"+addrs[peer.Servers+i], "-cluster", strings.Join(members, ","))
		if err != nil {
			return nil, err
		}
		c.Add(folder, argv...)
	}
	if c.control, err = c.dial(c.endpoints...); err != nil {
		return nil, err
	}
	if err = c.StartAll(); err == nil {
		for i := 0; i < peer.Servers && err == nil; i++ {
			err = c.ready(ctx, i)
		}
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (Backend) Attach(spec string) (peer.Cell, error) {
	c := &cell{}
	return c, json.Unmarshal([]byte(spec), &c.endpoints)
}

type cell struct {
	proc.Group
	endpoints []string
	control   *clientv3.Client
}

func (c *cell) Spec() string {
	text, err := json.Marshal(c.endpoints)
	if err != nil {
		return err.Error() // strings always can be
	}
	return string(text)
}

func (c *cell) dial(endpoints ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// ready waits until member i answers a linearizable read.
func (c *cell) ready(ctx context.Context, i int) error {
	one, err := c.dial(c.endpoints[i])
	if err != nil {
		return err
	}
	defer one.Close()
	return proc.Until(ctx, 30*time.Second, func(ctx context.Context) error {
		_, err := one.Get(ctx, "ready")
		return err
	})
}

func (c *cell) Leader(ctx context.Context) (number, pid int, err error) {
	err = proc.Until(ctx, 10*time.Second, func(ctx context.Context) error {
		for i, endpoint := range c.endpoints {
			s, err := c.control.Status(ctx, endpoint)
			if err == nil && s.Leader == s.Header.MemberId {
				number, pid = i, c.PID(i)
				return nil
			}
		}
		return errors.New("no leader")
	})
	return number, pid, err
}

func (c *cell) Restart(ctx context.Context, i int) error {
	if err := c.Group.Start(i); err != nil {
		return err
	}
	return c.ready(ctx, i)
}

func (c *cell) Stop() {
	_ = c.control.Close() // it has nothing of its own
	c.Group.Stop()
}

func (c *cell) Client(context.Context) (peer.Client, error) {
	cl, err := c.dial(c.endpoints...)
	if err != nil {
		return nil, err
	}
	return &client{Client: cl}, nil
}
