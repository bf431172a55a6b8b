// Package nats is NATS's own server, three in a JetStream cluster as processes of this program, and its key-value buckets.
// It has no sessions: one is a key with a TTL here that its owner writes anew every ttl/3.
package nats

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coordcell/coord/bench/internal/machine"
	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/proc"
)

const bucket, stream = "b", "KV_b"

// Backend is NATS.
type Backend struct {
	Lazy bool // NATS's default: synced every two minutes, long after the answer
}

func (b Backend) About() string {
	if b.Lazy {
		return "3 servers, 3 replicas, default settings: synced every 2 minutes, after the answer"
	}
	return "3 servers, 3 replicas, sync_interval always (synced before the answer)"
}
func (Backend) Missing() string { return "" }
func (Backend) Version() string { return "NATS " + machine.Module("github.com/nats-io/nats-server/v2") }

// Serve is one server.
func (b Backend) Serve(ctx context.Context, args []string) error {
	o := &server.Options{
		Host: "127.0.0.1", JetStream: true, SyncAlways: !b.Lazy, SyncInterval: 2 * time.Minute, NoSigs: true, NoLog: true,
		JetStreamMaxMemory: 4 << 30, JetStreamMaxStore: 40 << 30, MaxConn: 19_000,
		Cluster: server.ClusterOpts{Name: "bench", Host: "127.0.0.1"},
	}
	flags := flag.NewFlagSet("nats", flag.ContinueOnError)
	flags.StringVar(&o.ServerName, "name", "", "of the server")
	flags.StringVar(&o.StoreDir, "dir", "", "data directory")
	flags.IntVar(&o.Port, "client", 0, "port for clients")
	flags.IntVar(&o.Cluster.Port, "cluster", 0, "port for the other servers")
	flags.Func("route", "address of a server", func(text string) error {
		u, err := url.Parse(text)
		o.Routes = append(o.Routes, u)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	s.Shutdown()
	return nil
}

func (b Backend) Start(ctx context.Context, dir string) (peer.Cell, error) {
	addrs, err := proc.FreeAddrs(2 * peer.Servers)
	if err != nil {
		return nil, err
	}
	c := &cell{}
	var routes []string
	for i := range peer.Servers {
		c.urls = append(c.urls, "nats://"+addrs[i])
		routes = append(routes, "-route", "nats://"+addrs[peer.Servers+i])
	}
	name := "nats"
	if b.Lazy {
		name = "nats-lazy"
	}
	for i := range peer.Servers {
		folder := filepath.Join(dir, fmt.Sprint("n", i))
		argv, err := proc.Serve(name, append(routes, "-name", fmt.Sprint("n", i), "-dir", filepath.Join(folder, "data"),
			"-client", port(addrs[i]), "-cluster", port(addrs[peer.Servers+i]))...)
		if err != nil {
			return nil, err
		}
		c.Add(folder, argv...)
	}
	if err = c.StartAll(); err == nil {
		err = c.create(ctx)
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func port(addr string) string {
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	return p
}

// create makes the bucket and waits until it takes a key.
func (c *cell) create(ctx context.Context) error {
	conn, js, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = proc.Until(ctx, 30*time.Second, func(ctx context.Context) error {
		_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: bucket, Replicas: peer.Servers, Storage: jetstream.FileStorage, History: 1, LimitMarkerTTL: time.Minute,
		})
		return err
	})
	if err != nil {
		return err
	}
	return proc.Until(ctx, 20*time.Second, func(ctx context.Context) error {
		kv, err := js.KeyValue(ctx, bucket)
		if err == nil {
			_, err = kv.Put(ctx, "ready", nil)
		}
		return err
	})
}

func (Backend) Attach(spec string) (peer.Cell, error) {
	c := &cell{}
	return c, json.Unmarshal([]byte(spec), &c.urls)
}

type cell struct {
	proc.Group
	urls []string
}

func (c *cell) Spec() string {
	text, err := json.Marshal(c.urls)
	if err != nil {
		return err.Error() // strings always can be
	}
	return string(text)
}

func (c *cell) dial(ctx context.Context) (conn *natsgo.Conn, js jetstream.JetStream, err error) {
	err = proc.Until(ctx, 20*time.Second, func(context.Context) (err error) {
		conn, err = natsgo.Connect(strings.Join(c.urls, ","), natsgo.MaxReconnects(-1), natsgo.ReconnectWait(50*time.Millisecond),
			natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {}))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	js, err = jetstream.New(conn)
	return conn, js, err
}

// Leader is the bucket's.
func (c *cell) Leader(ctx context.Context) (number, pid int, err error) {
	conn, js, err := c.dial(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	err = proc.Until(ctx, 20*time.Second, func(ctx context.Context) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		if s.CachedInfo().Cluster == nil {
			return errors.New("no leader")
		}
		number, err = strconv.Atoi(strings.TrimPrefix(s.CachedInfo().Cluster.Leader, "n"))
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return number, c.PID(number), nil
}

func (c *cell) Restart(ctx context.Context, i int) error {
	if err := c.Group.Start(i); err != nil {
		return err
	}
	return proc.Until(ctx, 30*time.Second, func(ctx context.Context) error { return c.current(ctx, i) })
}

// current: server i answers, and all replicas are up to date.
func (c *cell) current(ctx context.Context, i int) error {
	conn, err := natsgo.Connect(c.urls[i])
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	if s.CachedInfo().Cluster == nil {
		return errors.New("no leader")
	}
	for _, r := range s.CachedInfo().Cluster.Replicas {
		if r.Offline || !r.Current {
			return errors.New("a replica is behind")
		}
	}
	return nil
}
