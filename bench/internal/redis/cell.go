// Package redis is Redis servers that know nothing of each other, from the system's package, with redsync's locks: one
// server alone, or Redlock over several. Redis has no sessions: one is a key here that its owner extends every ttl/3.
package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/coordcell/coord/bench/internal/machine"
	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/proc"
)

// Backend is a kind of Redis.
type Backend struct {
	Masters int
	Sync    string // appendfsync: "always", before the answer, or "everysec", which can lose the last second
}

func (b Backend) About() string {
	which := fmt.Sprintf("Redlock over %d servers", b.Masters)
	if b.Masters == 1 {
		which = "1 server, one copy"
	}
	when := map[string]string{"always": "synced before the answer", "everysec": "synced once a second, after the answer"}
	return fmt.Sprintf("%s, appendfsync %s (%s)", which, b.Sync, when[b.Sync])
}

func (Backend) Missing() string {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return "there is no redis-server on this machine: install Debian's package redis-server"
	}
	return ""
}

func (Backend) Version() string {
	for _, word := range strings.Fields(machine.Output("redis-server", "--version")) {
		if v, ok := strings.CutPrefix(word, "v="); ok {
			return "Redis " + v + ", redsync " + machine.Module("github.com/go-redsync/redsync/v4")
		}
	}
	return "Redis of unknown version"
}

func (b Backend) Start(ctx context.Context, dir string) (peer.Cell, error) {
	goredis.SetLogger(quiet{})
	c := &cell{}
	var err error
	if c.addrs, err = proc.FreeAddrs(b.Masters); err != nil {
		return nil, err
	}
	for i, addr := range c.addrs {
		folder := filepath.Join(dir, fmt.Sprint("n", i))
		_, port, _ := strings.Cut(addr, ":")
		c.Add(folder, "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", folder, "--appendonly", "yes",
			"--appendfsync", b.Sync, "--save", "", "--maxclients", "19000", "--tcp-backlog", "4096",
			"--notify-keyspace-events", "Ex", "--loglevel", "warning")
	}
	err = c.StartAll()
	for i := 0; i < len(c.addrs) && err == nil; i++ {
		err = c.ready(ctx, i)
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (Backend) Attach(spec string) (peer.Cell, error) {
	goredis.SetLogger(quiet{})
	c := &cell{}
	return c, json.Unmarshal([]byte(spec), &c.addrs)
}

// quiet drops what the client library says of connections that end.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

type cell struct {
	proc.Group
	addrs []string
}

func (c *cell) Spec() string {
	text, err := json.Marshal(c.addrs)
	if err != nil {
		return err.Error() // strings always can be
	}
	return string(text)
}

func (c *cell) ready(ctx context.Context, i int) error {
	one := goredis.NewClient(&goredis.Options{Addr: c.addrs[i]})
	defer one.Close()
	return proc.Until(ctx, 20*time.Second, func(ctx context.Context) error { return one.Ping(ctx).Err() })
}

// Leader: several masters are all alike; one alone has nobody to fail over to.
func (c *cell) Leader(context.Context) (number, pid int, err error) {
	if len(c.addrs) == 1 {
		return 0, 0, peer.ErrUnsupported
	}
	return 0, c.PID(0), nil
}

func (c *cell) Restart(ctx context.Context, i int) error {
	if err := c.Group.Start(i); err != nil {
		return err
	}
	return c.ready(ctx, i)
}
