package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	adapter "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/coordcell/coord/bench/internal/peer"
)

func (c *cell) Client(context.Context) (peer.Client, error) {
	cl := &client{}
	var pools []syncredis.Pool
	for _, addr := range c.addrs {
		master := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 256, PoolTimeout: 30 * time.Second, DialerRetries: 1})
		cl.masters = append(cl.masters, master)
		pools = append(pools, adapter.NewPool(master))
	}
	cl.locks = redsync.New(pools...)
	return cl, nil
}

type client struct {
	masters  []*goredis.Client
	locks    *redsync.Redsync
	renewed  atomic.Int64
	sessions atomic.Int64
}

func (c *client) Close() {
	for _, m := range c.masters {
		_ = m.Close()
	}
}

func (c *client) Renewals(context.Context) int64 { return c.renewed.Load() }

func (c *client) Session(ctx context.Context, ttl time.Duration) (peer.Session, error) {
	s := &session{client: c, ttl: ttl, closed: make(chan struct{})}
	s.key = c.locks.NewMutex(fmt.Sprintf("session:%d:%d", os.Getpid(), c.sessions.Add(1)), redsync.WithExpiry(ttl))
	if err := s.key.LockContext(ctx); err != nil {
		return nil, err
	}
	go s.renew() // ends with the session
	return s, nil
}

type session struct {
	client *client
	ttl    time.Duration
	closed chan struct{}
	once   sync.Once

	mu  sync.Mutex
	key *redsync.Mutex // what is extended
}

func (s *session) renew() {
	tick := time.NewTicker(s.ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		key := s.key
		s.mu.Unlock()
		if ok, err := key.ExtendContext(context.Background()); ok && err == nil {
			s.client.renewed.Add(1)
		}
	}
}

func (s *session) Close(ctx context.Context) error {
	s.once.Do(func() { close(s.closed) })
	_, err := s.key.UnlockContext(ctx)
	return err
}

// Lock polls while somebody else has the lock, as redsync does.
func (s *session) Lock(ctx context.Context, name string) (peer.Lock, error) {
	m := s.client.locks.NewMutex("lock:"+name, redsync.WithExpiry(s.lockTTL()), redsync.WithTries(1<<30), redsync.WithFailFast(true))
	return lock{m}, m.LockContext(ctx)
}

// lockTTL: a lock has a life of its own, and nobody here renews it.
func (s *session) lockTTL() time.Duration { return max(s.ttl, time.Minute) }

type lock struct{ of *redsync.Mutex }

func (l lock) Unlock(ctx context.Context) error {
	ok, err := l.of.UnlockContext(ctx)
	if err == nil && !ok {
		err = errors.New("the lock was lost")
	}
	return err
}

// PutEphemeral makes key the one that the session extends.
func (s *session) PutEphemeral(ctx context.Context, key, value string) error {
	m := s.client.locks.NewMutex(key, redsync.WithExpiry(s.ttl), redsync.WithValue(value))
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	old := s.key
	s.key = m
	s.mu.Unlock()
	_, err := old.UnlockContext(ctx)
	return err
}

// alone is the only master. Redlock has locks and nothing else.
func (c *client) alone() (*goredis.Client, error) {
	if len(c.masters) > 1 {
		return nil, peer.ErrUnsupported
	}
	return c.masters[0], nil
}

// Put tells the watchers too, by a message under the key's first part.
func (c *client) Put(ctx context.Context, key, value string) error {
	master, err := c.alone()
	if err != nil {
		return err
	}
	prefix, _, _ := strings.Cut(key, "/")
	_, err = master.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.Set(ctx, key, value, 0)
		p.Publish(ctx, prefix+"/", value)
		return nil
	})
	return err
}

func (c *client) Get(ctx context.Context, key string) (string, error) {
	master, err := c.alone()
	if err != nil {
		return "", err
	}
	return master.Get(ctx, key).Result()
}

// Watch is a subscription, on a connection of its own.
func (c *client) Watch(ctx context.Context, prefix string, event func(value string)) error {
	master, err := c.alone()
	if err != nil {
		return err
	}
	return subscribe(ctx, master, prefix, event)
}

// WatchDeletes listens to the expiries of the first master.
func (c *client) WatchDeletes(ctx context.Context, prefix string, _ []string, event func(key string)) error {
	return subscribe(ctx, c.masters[0], "__keyevent@0__:expired", func(key string) {
		if strings.HasPrefix(key, prefix) {
			event(key)
		}
	})
}

func subscribe(ctx context.Context, master *goredis.Client, channel string, message func(text string)) error {
	sub := master.Subscribe(ctx, channel)
	if _, err := sub.Receive(ctx); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	go func() { // ends with ctx
		defer stop()
		for {
			m, err := sub.ReceiveMessage(ctx)
			if err != nil {
				return
			}
			message(m.Payload)
		}
	}()
	return nil
}
