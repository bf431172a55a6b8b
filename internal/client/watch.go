package client

import (
	"context"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/hub"
	"github.com/coordcell/coord/internal/wire"
)

const (
	queueMost  = 16      // batches that wait for their reader
	queueBytes = 4 << 20 // of keys and values of these, but for a single larger answer
	partKeys   = 512     // keys in one batch of a snapshot
	staleAfter = 12      // election timeouts without a word of a server that has a leader end a watch
)

// BeginWatch says where a watch that is asked for now begins: no earlier than everything that was acknowledged to anybody
// before the call. ErrCompacted: the history does not reach back to there.
func (c *Client) BeginWatch(ctx context.Context, o hub.Options) (hub.Options, error) {
	a, err := c.Read(ctx, wire.Read{Kind: wire.ReadRevision})
	switch {
	case err != nil:
		return o, err
	case !o.HasFrom && !o.Snapshot:
		o.From, o.HasFrom = a.Revision+1, true
		return o, nil
	case !o.HasFrom, o.From == 0, o.Snapshot:
		return o, nil
	}
	for try := 0; ; try++ {
		server, rt := c.place.attached()
		if server != "" {
			answer, err := c.poll(ctx, server, wire.Poll{Key: o.Key, Prefix: o.Prefix, From: o.From})
			switch {
			case err == nil && answer.Compacted:
				return o, hub.ErrCompacted
			case err == nil:
				return o, nil
			}
		}
		if err := c.caller.Pause(ctx, rt, try); err != nil {
			return o, err
		}
	}
}

// watch reads changes at whichever server the client is attached to. It asks for what comes after the last revision that
// it has: so it goes on at another server without a gap, and asks for no more than its reader takes.
type watch struct {
	c     *Client
	o     hub.Options
	ready func()
	stop  context.CancelFunc
	room  chan struct{} // of one: the reader has taken something

	mu     sync.Mutex
	queue  []*hub.Batch
	bytes  int
	wanted bool // the reader found nothing, and is to be told when there is something
	err    error
	closed bool
	proof  time.Duration // when a server had a proof of a leader last, as far as is known

	next fsm.Revision // of the goroutine: what comes before has been queued
	part *hub.Batch   // of the goroutine: the first events of a revision; nil: none
}

// Watch reads changes, from where BeginWatch has said. ready is called when there may be something for Next.
func (c *Client) Watch(o hub.Options, ready func()) (hub.Reader, error) {
	ctx, stop := context.WithCancel(c.stop)
	w := &watch{c: c, o: o, ready: ready, stop: stop, room: make(chan struct{}, 1), next: o.From, proof: c.mux.Now()}
	if !c.Go(func() { w.run(ctx) }) {
		stop()
		return nil, hub.ErrClosed
	}
	return w, nil
}

// Pump gives turns to the readers of watches.
func (c *Client) Pump() *hub.Pump { return &c.pump }

// Next returns the next batch, nil if there is none yet, or why there will be none.
func (w *watch) Next() (*hub.Batch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c.stop.Err() != nil {
		return nil, hub.ErrClosed
	}
	if len(w.queue) == 0 {
		w.wanted = w.err == nil
		return nil, w.err
	}
	b := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	w.bytes -= b.Size()
	select {
	case w.room <- struct{}{}:
	default:
	}
	return b, nil
}

// Closed reports whether the node has been closed.
func (w *watch) Closed() bool { return w.c.stop.Err() != nil }

// Close gives the watch up.
func (w *watch) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.stop()
}

// Age is that of the last proof of a leader that the serving server had when it last said something.
func (w *watch) Age() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.c.mux.Now() - w.proof
}

// run asks until the watch is closed or has to end.
func (w *watch) run(ctx context.Context) {
	err := w.follow(ctx)
	w.mu.Lock()
	if w.err = err; w.c.stop.Err() != nil {
		w.err = hub.ErrClosed
	}
	closed := w.closed
	w.mu.Unlock()
	if !closed {
		w.ready()
	}
}

func (w *watch) follow(ctx context.Context) error {
	if w.o.Snapshot && !w.o.HasFrom {
		if err := w.snapshot(ctx); err != nil {
			return err
		}
	}
	for try := 0; ; {
		if err := w.await(ctx); err != nil {
			return err
		}
		server, rt := w.c.place.attached()
		err := hub.ErrStale
		var a wire.PollAnswer
		if server != "" {
			a, err = w.c.poll(ctx, server, w.question())
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && a.Compacted && !w.o.Snapshot:
			return hub.ErrCompacted
		case err == nil && a.Compacted:
			if err := w.snapshot(ctx); err != nil {
				return err
			}
			continue
		case err == nil:
			if err := w.take(a); err != nil {
				return err
			}
			try = 0
			continue
		case w.Age() > staleAfter*w.c.cfg.ElectionTimeout:
			return hub.ErrStale
		}
		if err := w.c.caller.Pause(ctx, rt, try); err != nil {
			return err
		}
		try++
	}
}

// await waits until the reader has taken enough of what there is.
func (w *watch) await(ctx context.Context) error {
	for {
		w.mu.Lock()
		full := len(w.queue) >= queueMost || w.bytes >= queueBytes
		w.mu.Unlock()
		if !full {
			return ctx.Err()
		}
		select {
		case <-w.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// question asks for what comes after all that has been queued, and after the part of a revision that has not been.
func (w *watch) question() wire.Poll {
	m := wire.Poll{Key: w.o.Key, Prefix: w.o.Prefix, Previous: w.o.Previous, From: w.next, Wait: true}
	if w.part != nil {
		m.From, m.Skip = w.part.Revision, len(w.part.Events)
	}
	return m
}

// poll asks a server for changes. A server that has had no proof of a leader for too long does not answer.
func (c *Client) poll(ctx context.Context, server string, m wire.Poll) (wire.PollAnswer, error) {
	ctx, done := context.WithTimeout(ctx, caller.PollWait(c.cfg.ElectionTimeout)+2*c.cfg.ElectionTimeout)
	defer done()
	payload, err := c.calls.Call(ctx, server, wire.MethodPoll, m.Append(nil))
	if err != nil {
		return wire.PollAnswer{}, err
	}
	return wire.DecodePollAnswer(payload)
}

// take queues what a server has answered.
func (w *watch) take(a wire.PollAnswer) error {
	w.mu.Lock()
	w.proof = max(w.proof, w.c.mux.Now()-a.Age)
	w.mu.Unlock()
	for i, frame := range a.Batches {
		m, err := wire.DecodePollBatch(frame)
		if err != nil {
			return err
		}
		if w.part != nil && w.part.Revision == m.Revision {
			m.Events = append(w.part.Events, m.Events...)
		}
		b := &hub.Batch{Revision: m.Revision, Events: m.Events}
		if w.part = nil; a.Partial && i == len(a.Batches)-1 {
			w.part = b
			break
		}
		w.push(b)
	}
	w.next = max(w.next, a.Next) // a server that is behind says less than an earlier one did
	if len(a.Batches) == 0 {
		w.progress()
	}
	return nil
}

// progress says that there is nothing up to where the server has come, to a reader who waits.
func (w *watch) progress() {
	w.mu.Lock()
	idle := len(w.queue) == 0
	w.mu.Unlock()
	if idle {
		w.push(&hub.Batch{Revision: w.next - 1})
	}
}

// push gives a batch to the reader.
func (w *watch) push(b *hub.Batch) {
	w.mu.Lock()
	w.queue = append(w.queue, b)
	w.bytes += b.Size()
	tell := w.wanted && !w.closed
	w.wanted = false
	w.mu.Unlock()
	if tell {
		w.ready()
	}
}

// snapshot queues the present state in marked batches, and has the changes after it follow.
func (w *watch) snapshot(ctx context.Context) error {
	r := wire.Read{Kind: wire.ReadKey, Name: w.o.Key}
	if w.o.Prefix {
		r.Kind = wire.ReadList
	}
	a, err := w.c.Read(ctx, r)
	if err != nil {
		return err
	}
	for keys := a.Keys; ; {
		n := min(len(keys), partKeys)
		b := &hub.Batch{Revision: a.Revision, Snapshot: true, More: n < len(keys)}
		for _, kv := range keys[:n] {
			b.Events = append(b.Events, fsm.Event{
				Type: fsm.EventPut, Key: kv.Key, Value: kv.Value, Revision: kv.Changed, Session: kv.Session,
			})
		}
		w.push(b)
		if keys = keys[n:]; len(keys) == 0 {
			break
		}
	}
	w.next, w.part = a.Revision+1, nil
	return nil
}

// observer follows a lock at whichever server the client is attached to.
type observer struct {
	c     *Client
	name  string
	known uint64
	last  fsm.LockView
	first bool
	heard time.Duration // a server's last word, on the lease clock
}

// Observe follows a lock.
func (c *Client) Observe(name string) hub.LockReader {
	return &observer{c: c, name: name, first: true, heard: c.mux.Now()}
}

// Next returns the lock as it is, at the first call at once, then after it has changed. See hub.Observer.
func (o *observer) Next(ctx context.Context, changed func(before, after fsm.LockView) bool) (fsm.LockView, error) {
	for try := 0; ; try++ {
		server, rt := o.c.place.attached()
		if server != "" {
			a, err := o.ask(ctx, server)
			if err == nil {
				o.heard, try = o.c.mux.Now(), 0
				if a.Digest == o.known {
					continue
				}
				view := fsm.LockView{Freeing: a.Freeing, Holders: a.Holders}
				o.known = a.Digest
				if o.first || changed(o.last, view) {
					o.first, o.last = false, view
					return view, nil
				}
				continue
			}
		}
		if o.c.mux.Now()-o.heard > staleAfter*o.c.cfg.ElectionTimeout {
			return fsm.LockView{}, hub.ErrStale
		}
		if err := o.c.caller.Pause(ctx, rt, try); err != nil {
			if o.c.stop.Err() != nil {
				err = hub.ErrClosed
			}
			return fsm.LockView{}, err
		}
	}
}

func (o *observer) ask(ctx context.Context, server string) (wire.PollLockAnswer, error) {
	ctx, done := context.WithTimeout(ctx, caller.PollWait(o.c.cfg.ElectionTimeout)+2*o.c.cfg.ElectionTimeout)
	defer done()
	stop := context.AfterFunc(o.c.stop, done)
	defer stop()
	payload, err := o.c.calls.Call(ctx, server, wire.MethodPollLock, wire.PollLock{Name: o.name, Known: o.known}.Append(nil))
	if err != nil {
		return wire.PollLockAnswer{}, err
	}
	return wire.DecodePollLockAnswer(payload)
}

// Close ends the observer.
func (o *observer) Close() {}
