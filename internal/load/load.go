package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/fence"
	"github.com/coordcell/coord/internal/history"
)

// Config says what load to make. Only First, Opened and Overrun may be left out.
type Config struct {
	Record *history.Recorder
	// Node is where a client (or watcher) makes its next call; nil while no node runs there.
	Node func(client int) *coord.Node
	// Resource checks the tokens of those who write to it.
	Resource fence.Guard
	// Opened is told of each session; nil: nobody is.
	Opened func(client int, s *coord.Session)
	// Complain is told of what no fault explains.
	Complain func(guarantee, text string)

	Seed  uint64
	First int // the number of the first client, where several loads share a history

	Lockers, Candidates, Writers, Watchers int // how many of each sort
	Locks, Elections, Keys                 int // how many names they share

	TTL   time.Duration // of sessions: this much to three times as much
	Think time.Duration // the longest time between two calls of a client

	// Overrun is by how much a call may outlast its context; 0: not checked.
	Overrun time.Duration
}

// Load is clients that run. Its methods are for one goroutine.
type Load struct {
	cfg      Config
	clients  sync.WaitGroup
	watchers sync.WaitGroup
	stop     context.CancelFunc // of the clients
	unwatch  context.CancelFunc

	mu   sync.Mutex
	last coord.Revision         // of the changes that were acknowledged
	seen map[int]coord.Revision // by watcher
}

// Start starts the clients. They end with Stop.
func Start(ctx context.Context, cfg Config) *Load {
	l := &Load{cfg: cfg, seen: make(map[int]coord.Revision)}
	clients, stop := context.WithCancel(ctx)
	watchers, unwatch := context.WithCancel(ctx)
	l.stop, l.unwatch = stop, unwatch
	id := cfg.First
	run := func(n int, turn func(*client, context.Context)) {
		for range n {
			c := &client{load: l, id: id, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(id)))}
			l.clients.Go(func() { c.run(clients, turn) })
			id++
		}
	}
	run(cfg.Lockers, (*client).holdLock)
	run(cfg.Candidates, (*client).holdOffice)
	run(cfg.Writers, (*client).useKeys)
	for range cfg.Watchers {
		w := &watcher{load: l, id: id, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(id)))}
		l.watchers.Go(func() { w.run(watchers) })
		l.seen[id] = 0
		id++
	}
	return l
}

// Stop ends the clients, which close their sessions, and then waits until the watchers have seen every change that was
// acknowledged. If ctx ends before that it complains. Nothing of the load runs any more when it returns.
func (l *Load) Stop(ctx context.Context) {
	l.stop()
	l.clients.Wait()
	for ctx.Err() == nil && !l.watched() {
		pause(ctx, 20*time.Millisecond)
	}
	if !l.watched() {
		l.mu.Lock()
		l.cfg.Complain("G9", fmt.Sprintf("the watchers have come to %v, the last change that was acknowledged is %d", l.seen, l.last))
		l.mu.Unlock()
	}
	l.unwatch()
	l.watchers.Wait()
}

func (l *Load) watched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, rev := range l.seen {
		if rev < l.last {
			return false
		}
	}
	return true
}

func (l *Load) acknowledged(rev uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = max(l.last, coord.Revision(rev))
}

// client makes one call at a time.
type client struct {
	load    *Load
	id      int
	rng     *rand.Rand
	written int // values so far; each is written once

	session *coord.Session
	node    *coord.Node // that the session is on
}

func (c *client) run(ctx context.Context, turn func(*client, context.Context)) {
	for ctx.Err() == nil {
		if c.node = c.load.cfg.Node(c.id); c.node == nil {
			c.session = nil // it died with its node
			pause(ctx, 50*time.Millisecond)
			continue
		}
		if c.ready(ctx) {
			turn(c, ctx)
		}
		pause(ctx, c.upTo(c.load.cfg.Think))
	}
	if c.session != nil && c.session.Err() == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*c.load.cfg.TTL)
		defer cancel()
		c.close(ctx)
	}
}

// ready sees to it that there is a session.
func (c *client) ready(ctx context.Context) bool {
	if c.session != nil && c.session.Err() != nil {
		op := c.begin(history.Op{Kind: history.Expired})
		c.end(op, c.session.Err(), 0)
		c.session = nil
	}
	if c.session != nil {
		op := c.begin(history.Op{Kind: history.Alive})
		var err error
		if c.session.Remaining() <= 0 {
			err = coord.ErrNotHeld
		}
		c.end(op, err, 0)
		return true
	}
	ttl := c.load.cfg.TTL + c.upTo(2*c.load.cfg.TTL)
	op := c.begin(history.Op{Kind: history.Open, TTL: ttl})
	limit := c.patience()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	opts := []coord.SessionOption{coord.WithTTL(ttl), coord.WithLabel(fmt.Sprint("client", c.id))}
	if c.chance(3) {
		opts = append(opts, coord.WithGrace(c.upTo(4*c.load.cfg.TTL)))
	}
	s, err := c.node.NewSession(ctx, opts...)
	if err == nil {
		c.session = s
		op.Session = uint64(s.ID())
		if opened := c.load.cfg.Opened; opened != nil {
			opened(c.id, s)
		}
	}
	c.end(op, err, limit)
	return err == nil
}

// close ends the session.
func (c *client) close(ctx context.Context) {
	op := c.begin(history.Op{Kind: history.Close})
	c.end(op, c.session.Close(ctx), 0)
	c.session = nil
}

// begin notes a call of this client, under its session if it has one.
func (c *client) begin(op history.Op) *history.Op {
	op.Client, op.Node = c.id, c.node.Name()
	if c.session != nil && !op.Lasting {
		op.Session = uint64(c.session.ID())
	}
	return c.load.cfg.Record.Begin(op)
}

// end notes how a call ended that had so long; 0: that is not to be checked.
func (c *client) end(op *history.Op, err error, limit time.Duration) {
	op.Outcome = outcome(err)
	if err != nil {
		op.Err = err.Error()
	}
	began, kind, name := op.Call, op.Kind, op.Name
	if op.Outcome == history.OK && (kind == history.Put || kind == history.Delete) {
		c.load.acknowledged(op.Revision)
	}
	c.load.cfg.Record.End(op)
	if !explained(err) {
		c.load.cfg.Complain("errors", fmt.Sprintf("client %d: %s %s: no fault explains: %v", c.id, kind, name, err))
	}
	if over := c.load.cfg.Overrun; over > 0 && limit > 0 && op.Return-began > limit+over {
		c.load.cfg.Complain("G12", fmt.Sprintf("client %d: %s %s took %v with a context of %v", c.id, kind, name, op.Return-began, limit))
	}
}

// value is one that nobody has written before.
func (c *client) value() string {
	c.written++
	return fmt.Sprintf("%d.%d", c.id, c.written)
}

// patience is how long a call may take: mostly several TTLs, sometimes so short that it is cut off under way.
func (c *client) patience() time.Duration {
	if c.chance(5) {
		return 1 + c.upTo(c.load.cfg.TTL/10)
	}
	return c.load.cfg.TTL + c.upTo(4*c.load.cfg.TTL)
}

func (c *client) chance(oneIn int) bool { return c.rng.IntN(oneIn) == 0 }

func (c *client) upTo(d time.Duration) time.Duration { return rand.N(d + 1) }

// outcome is what the error of a call says of its effect.
func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, coord.ErrOutcomeUnknown):
		return history.Unknown
	}
	for _, refusal := range []error{
		coord.ErrConflict, coord.ErrLocked, coord.ErrNotHeld, coord.ErrKeyNotFound, coord.ErrNoLeader, coord.ErrInvalid,
		coord.ErrLimit, coord.ErrTooLarge, coord.ErrSuspended, coord.ErrRevoked, fence.ErrStale,
	} {
		if errors.Is(err, refusal) {
			return history.Refused
		}
	}
	return history.Unknown
}

// explained says whether faults, or other clients, can be the reason for an error.
func explained(err error) bool {
	if err == nil {
		return true
	}
	for _, reason := range []error{
		coord.ErrConflict, coord.ErrLocked, coord.ErrNotHeld, coord.ErrKeyNotFound, coord.ErrNoLeader, coord.ErrClosed,
		coord.ErrOutcomeUnknown, coord.ErrSessionExpired, coord.ErrSessionClosed, coord.ErrSuspended, coord.ErrRevoked, coord.ErrUnlocked, coord.ErrCompacted,
		fence.ErrStale, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
