package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordcell/coord/bench/internal/peer"
)

func (c *cell) Client(ctx context.Context) (peer.Client, error) {
	conn, err := c.connect(ctx, 12*time.Second)
	if err != nil {
		return nil, err
	}
	for _, parent := range []string{"/lock", "/w", "/eph", "/kv"} {
		if _, err := conn.Create(parent, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			conn.Close()
			return nil, err
		}
	}
	return &client{cell: c, conn: conn}, nil
}

// connect opens a connection, which in ZooKeeper is a session.
func (c *cell) connect(ctx context.Context, ttl time.Duration) (*zk.Conn, error) {
	conn, events, err := zk.Connect(c.addrs, ttl, zk.WithLogger(quiet{}), zk.WithLogInfo(false),
		// The client's default is 1.5 MB of buffer for each connection, twice.
		zk.WithMaxBufferSize(32<<10), zk.WithMaxConnBufferSize(32<<10))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				go func() { // ends with the connection
					for range events {
					}
				}()
				return conn, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, ctx.Err()
		}
	}
}

// quiet drops what the client library says.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

type client struct {
	cell *cell
	conn *zk.Conn

	mu       sync.Mutex
	watchers []*zk.Conn
}

func (c *client) Close() {
	c.conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	var wg sync.WaitGroup
	for _, w := range c.watchers {
		wg.Go(w.Close) // each waits for its server
	}
	wg.Wait()
}

// Renewals counts the packets that the servers get: while sessions are only kept alive, those are pings.
func (c *client) Renewals(ctx context.Context) int64 { return c.cell.received(ctx) }

func (c *client) Session(ctx context.Context, ttl time.Duration) (peer.Session, error) {
	conn, err := c.cell.connect(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return session{conn}, nil
}

type session struct{ conn *zk.Conn }

func (s session) Close(context.Context) error {
	s.conn.Close()
	return nil
}

// Lock: the recipe takes no context, so one that ends leaves its goroutine waiting until the session ends.
func (s session) Lock(ctx context.Context, name string) (peer.Lock, error) {
	l := zk.NewLock(s.conn, "/lock/"+name, zk.WorldACL(zk.PermAll))
	done := make(chan error, 1)
	go func() { done <- l.Lock() }()
	select {
	case err := <-done:
		return lock{l}, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type lock struct{ of *zk.Lock }

func (l lock) Unlock(context.Context) error { return l.of.Unlock() }

func (s session) PutEphemeral(_ context.Context, key, value string) error {
	_, err := s.conn.Create("/"+key, []byte(value), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	return err
}

func (c *client) Put(_ context.Context, key, value string) error {
	name := "/" + key
	_, err := c.conn.Set(name, []byte(value), -1)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = c.conn.Create(name, []byte(value), 0, zk.WorldACL(zk.PermAll))
	}
	if err != nil {
		return fmt.Errorf("%s below %s: %w", key, path.Dir(name), err)
	}
	return nil
}

// Get is sync and get, the idiom for a read that is up to date.
func (c *client) Get(_ context.Context, key string) (string, error) {
	if _, err := c.conn.Sync("/" + key); err != nil {
		return "", err
	}
	value, _, err := c.conn.Get("/" + key)
	return string(value), err
}

// Watch sets a watch on the one key below the prefix again and again, since each tells of one change; puts in between are
// one event.
func (c *client) Watch(ctx context.Context, prefix string, event func(value string)) error {
	conn, err := c.cell.connect(ctx, 12*time.Second)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.watchers = append(c.watchers, conn)
	c.mu.Unlock()
	name := "/" + prefix + "k"
	_, stat, changed, err := conn.GetW(name)
	if err != nil {
		return err
	}
	go func() { // ends with ctx, or the connection
		for seen := stat.Version; ; {
			select {
			case <-ctx.Done():
				return
			case e := <-changed:
				if e.Err != nil {
					return
				}
			}
			var value []byte
			if value, stat, changed, err = conn.GetW(name); err != nil {
				return
			}
			if stat.Version != seen {
				seen = stat.Version
				event(string(value))
			}
		}
	}()
	return nil
}

func (c *client) WatchDeletes(ctx context.Context, _ string, keys []string, event func(key string)) error {
	const atOnce = 256
	todo, failed := make(chan string), make(chan error, atOnce)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for key := range todo {
				_, _, gone, err := c.conn.ExistsW("/" + key)
				if err != nil {
					select {
					case failed <- err:
					default:
					}
					continue
				}
				go func() { // ends with the key, the connection or ctx
					select {
					case e := <-gone:
						if e.Type == zk.EventNodeDeleted {
							event(key)
						}
					case <-ctx.Done():
					}
				}()
			}
		})
	}
	for _, key := range keys {
		todo <- key
	}
	close(todo)
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
