package nats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coordcell/coord/bench/internal/peer"
)

// Codes of the server for a write that lost: against an older write, and against one that is still under way.
const codeWrongSequence, codeUnderWay = 10071, 10164

func (c *cell) Client(ctx context.Context) (peer.Client, error) {
	conn, js, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &client{conn: conn, js: js, kv: kv}, nil
}

type client struct {
	conn     *natsgo.Conn
	js       jetstream.JetStream
	kv       jetstream.KeyValue
	renewed  atomic.Int64
	sessions atomic.Int64
}

func (c *client) Close()                         { c.conn.Close() }
func (c *client) Renewals(context.Context) int64 { return c.renewed.Load() }

// dots: a bucket's keys have dots where others have slashes.
func dots(key string) string { return strings.ReplaceAll(key, "/", ".") }

func (c *client) Session(ctx context.Context, ttl time.Duration) (peer.Session, error) {
	s := &session{client: c, ttl: ttl, key: fmt.Sprintf("session.%d.%d", os.Getpid(), c.sessions.Add(1))}
	revision, err := c.kv.Create(ctx, s.key, nil, jetstream.KeyTTL(ttl))
	if err != nil {
		return nil, err
	}
	s.keep(revision)
	return s, nil
}

type session struct {
	client *client
	ttl    time.Duration
	key    string
	closed chan struct{}
}

// keep has a goroutine write the session's key anew until closed is.
func (s *session) keep(revision uint64) {
	s.closed = make(chan struct{})
	go s.renew(s.closed, s.key, revision)
}

func (s *session) renew(closed <-chan struct{}, key string, revision uint64) {
	tick := time.NewTicker(s.ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-closed:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), s.ttl)
		ack, err := s.client.js.PublishMsg(ctx, natsgo.NewMsg("$KV."+bucket+"."+key),
			jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithMsgTTL(s.ttl))
		cancel()
		if err == nil {
			revision = ack.Sequence
			s.client.renewed.Add(1)
		}
	}
}

func (s *session) Close(ctx context.Context) error {
	close(s.closed)
	return s.client.kv.Delete(ctx, s.key)
}

// PutEphemeral makes key the one that is written anew in the session's place.
func (s *session) PutEphemeral(ctx context.Context, key, value string) error {
	revision, err := s.client.kv.Create(ctx, dots(key), []byte(value), jetstream.KeyTTL(s.ttl))
	if err != nil {
		return err
	}
	close(s.closed)
	s.key = dots(key)
	s.keep(revision)
	return nil
}

// Lock creates the key; while it exists it watches for its end, and tries again. All that wait race.
func (s *session) Lock(ctx context.Context, name string) (peer.Lock, error) {
	kv, key := s.client.kv, "lock."+dots(name)
	revision, err := kv.Create(ctx, key, []byte(s.key))
	if err == nil {
		return lock{kv, key, revision}, nil
	}
	if !taken(err) {
		return nil, err
	}
	w, err := kv.Watch(ctx, key)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Stop() }() // its connection may have gone
	for {
		var entry jetstream.KeyValueEntry
		select {
		case entry = <-w.Updates():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if entry == nil || entry.Operation() == jetstream.KeyValuePut {
			continue
		}
		// Not Create: it reads the key from any replica, and a stale one says that it exists, and no event follows.
		err := again(func() (err error) {
			revision, err = kv.Update(ctx, key, []byte(s.key), entry.Revision())
			return err
		})
		if err == nil {
			return lock{kv, key, revision}, nil
		}
		if !taken(err) {
			return nil, err
		}
	}
}

func code(err error) int {
	var e *jetstream.APIError
	if errors.As(err, &e) {
		return int(e.ErrorCode)
	}
	return 0
}

// taken: somebody else was first.
func taken(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || code(err) == codeWrongSequence || code(err) == codeUnderWay
}

// again repeats what was refused because an earlier write to the key, even one that was acknowledged, is under way.
func again(write func() error) error {
	for i := 0; ; i++ {
		if err := write(); code(err) != codeUnderWay || i == 100 {
			return err
		}
		time.Sleep(300 * time.Microsecond)
	}
}

type lock struct {
	kv       jetstream.KeyValue
	key      string
	revision uint64
}

func (l lock) Unlock(ctx context.Context) error {
	return again(func() error { return l.kv.Delete(ctx, l.key, jetstream.LastRevision(l.revision)) })
}

func (c *client) Put(ctx context.Context, key, value string) error {
	_, err := c.kv.Put(ctx, dots(key), []byte(value))
	return err
}

// Get may be answered by any replica: it is not linearizable, and may miss a key just written.
func (c *client) Get(ctx context.Context, key string) (string, error) {
	entry, err := c.kv.Get(ctx, dots(key))
	if err != nil {
		return "", err
	}
	return string(entry.Value()), nil
}

func (c *client) Watch(ctx context.Context, prefix string, event func(value string)) error {
	return c.watch(ctx, prefix, func(e jetstream.KeyValueEntry) { event(string(e.Value())) })
}

func (c *client) WatchDeletes(ctx context.Context, prefix string, _ []string, event func(key string)) error {
	return c.watch(ctx, prefix, func(e jetstream.KeyValueEntry) {
		if e.Operation() != jetstream.KeyValuePut {
			event(strings.ReplaceAll(e.Key(), ".", "/"))
		}
	})
}

func (c *client) watch(ctx context.Context, prefix string, event func(jetstream.KeyValueEntry)) error {
	w, err := c.kv.Watch(ctx, dots(prefix)+">", jetstream.UpdatesOnly())
	if err != nil {
		return err
	}
	go func() { // ends with ctx, or the client
		for entry := range w.Updates() {
			if entry != nil {
				event(entry)
			}
		}
	}()
	return nil
}
