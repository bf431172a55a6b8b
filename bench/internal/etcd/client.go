package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/coordcell/coord/bench/internal/peer"
)

type client struct {
	*clientv3.Client
	renewed atomic.Int64
}

func (c *client) Close()                         { _ = c.Client.Close() }
func (c *client) Renewals(context.Context) int64 { return c.renewed.Load() }

func (c *client) Session(ctx context.Context, ttl time.Duration) (peer.Session, error) {
	lease, err := c.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return nil, err
	}
	alive, cancel := context.WithCancel(context.WithoutCancel(ctx))
	renewals, err := c.KeepAlive(alive, lease.ID)
	if err != nil {
		cancel()
		return nil, err
	}
	go func() { // ends with the session, or the client
		for range renewals {
			c.renewed.Add(1)
		}
	}()
	s, err := concurrency.NewSession(c.Client, concurrency.WithLease(lease.ID), concurrency.WithContext(alive))
	if err != nil {
		cancel()
		return nil, err
	}
	return &session{client: c, lease: lease.ID, of: s, cancel: cancel}, nil
}

type session struct {
	client *client
	lease  clientv3.LeaseID
	of     *concurrency.Session
	cancel func()
}

func (s *session) Close(ctx context.Context) error {
	s.cancel()
	_, err := s.client.Revoke(ctx, s.lease)
	return err
}

func (s *session) Lock(ctx context.Context, name string) (peer.Lock, error) {
	m := concurrency.NewMutex(s.of, "/lock/"+name)
	return m, m.Lock(ctx)
}

func (s *session) PutEphemeral(ctx context.Context, key, value string) error {
	_, err := s.client.Client.Put(ctx, key, value, clientv3.WithLease(s.lease))
	return err
}

func (c *client) Put(ctx context.Context, key, value string) error {
	_, err := c.Client.Put(ctx, key, value)
	return err
}

// Get is linearizable.
func (c *client) Get(ctx context.Context, key string) (string, error) {
	got, err := c.Client.Get(ctx, key)
	switch {
	case err != nil:
		return "", err
	case len(got.Kvs) == 0:
		return "", errors.New("no such key")
	}
	return string(got.Kvs[0].Value), nil
}

func (c *client) Watch(ctx context.Context, prefix string, event func(value string)) error {
	return c.watch(ctx, prefix, func(e *clientv3.Event) { event(string(e.Kv.Value)) })
}

func (c *client) WatchDeletes(ctx context.Context, prefix string, _ []string, event func(key string)) error {
	return c.watch(ctx, prefix, func(e *clientv3.Event) {
		if e.Type == clientv3.EventTypeDelete {
			event(string(e.Kv.Key))
		}
	})
}

func (c *client) watch(ctx context.Context, prefix string, event func(*clientv3.Event)) error {
	answers := c.Client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	select {
	case created, ok := <-answers:
		if !ok || created.Err() != nil {
			return fmt.Errorf("watch: %w", errors.Join(created.Err(), ctx.Err()))
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	go func() { // ends with ctx
		for answer := range answers {
			for _, e := range answer.Events {
				event(e)
			}
		}
	}()
	return nil
}
