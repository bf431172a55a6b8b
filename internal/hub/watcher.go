package hub

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/cancel"
)

const (
	scanMost  = 512     // events looked at under one read lock
	queueMost = 1 << 20 // bytes of events queued under one read lock, but for a single larger revision
	partMost  = 512     // keys in one part of a snapshot
)

// Options say what a Watcher reads.
type Options struct {
	Key      string
	Prefix   bool // every key that begins with Key
	From     fsm.Revision
	HasFrom  bool // without it: from now on
	Snapshot bool // begin with the present state; and again after falling behind
	Previous bool // fill Event.Previous
}

// Batch is every change of one revision that the Watcher asked for, or a part of a snapshot, or, without events,
// progress. Its memory is the caller's.
type Batch struct {
	Revision fsm.Revision
	Events   []fsm.Event
	Snapshot bool
	More     bool // further parts of this snapshot follow
}

// Watcher reads changes of keys, in order and without gaps. One goroutine at a time.
type Watcher struct {
	hub    *Hub
	opts   Options
	next   fsm.Revision // every change below has been returned
	queue  []Batch
	snap   *snapshot
	silent *time.Timer
}

// snapshot is a listing that is being returned in parts.
type snapshot struct {
	state *fsm.State
	after string
}

// Watch returns a Watcher. ErrCompacted: the history does not reach back to opts.From, and no snapshot was asked for.
func (h *Hub) Watch(opts Options) (*Watcher, error) {
	w := &Watcher{hub: h, opts: opts, next: opts.From}
	var now, floor fsm.Revision
	h.cfg.Source.View(func(s *fsm.State) { now, floor = s.Revision(), s.Floor() })
	if opts.HasFrom && opts.From == 0 {
		w.next = floor
	}
	switch {
	case !opts.HasFrom && !opts.Snapshot:
		w.next = now + 1
	case !opts.HasFrom, w.next < floor && opts.Snapshot:
		w.begin()
	case w.next < floor:
		return nil, ErrCompacted
	}
	return w, nil
}

// Next waits for the next batch. A batch without events comes at least every Config.Progress. Errors: ctx's,
// ErrCompacted, ErrStale, ErrClosed.
func (w *Watcher) Next(ctx context.Context) (Batch, error) {
	if w.silent == nil {
		w.silent = time.NewTimer(w.hub.cfg.Progress)
	} else {
		w.silent.Reset(w.hub.cfg.Progress)
	}
	defer w.silent.Stop()
	for {
		if b, ok := w.take(); ok {
			return b, nil
		}
		if w.hub.stale() {
			return Batch{}, ErrStale
		}
		changed := w.hub.change()
		more, err := w.read()
		if err != nil {
			return Batch{}, err
		}
		if more || len(w.queue) > 0 || w.snap != nil {
			continue
		}
		select {
		case <-changed:
		case <-w.silent.C:
			if w.hub.stale() {
				return Batch{}, ErrStale
			}
			return Batch{Revision: w.reached()}, nil
		case <-ctx.Done():
			return Batch{}, cancel.Reason(ctx)
		case <-w.hub.closed:
			return Batch{}, ErrClosed
		}
	}
}

// take returns what lies ready: a batch that was read, or the next part of a snapshot.
func (w *Watcher) take() (Batch, bool) {
	if len(w.queue) > 0 {
		b := w.queue[0]
		w.queue = w.queue[1:]
		return b, true
	}
	if w.snap == nil {
		return Batch{}, false
	}
	return w.part(), true
}

// begin starts a snapshot of the present state.
func (w *Watcher) begin() {
	state := w.hub.cfg.Source.Clone()
	w.snap = &snapshot{state: state}
	w.next = state.Revision() + 1
}

func (w *Watcher) part() Batch {
	b := Batch{Revision: w.next - 1, Snapshot: true}
	var kvs []fsm.KeyValue
	if w.opts.Prefix {
		kvs, b.More = w.snap.state.List(w.opts.Key, w.snap.after, partMost)
	} else if kv, ok := w.snap.state.Get(w.opts.Key); ok {
		kvs = []fsm.KeyValue{kv}
	}
	for _, kv := range kvs {
		b.Events = append(b.Events, fsm.Event{
			Type: fsm.EventPut, Key: kv.Key, Value: bytes.Clone(kv.Value), Revision: kv.Changed, Session: kv.Session,
		})
	}
	if b.More {
		w.snap.after = kvs[len(kvs)-1].Key
	} else {
		w.snap = nil
	}
	return b
}

// read moves the cursor over what the history has, at most scanMost events at a time, and queues what was asked for.
// It reports whether it stopped before the end.
func (w *Watcher) read() (more bool, err error) {
	behind := false
	w.hub.cfg.Source.View(func(s *fsm.State) {
		if w.next < s.Floor() {
			behind = true
			return
		}
		if w.next > s.Revision() { // nothing new; or a state that has not come as far yet
			return
		}
		seen, bytes := 0, 0
		for e := range s.Events(w.next) {
			if (seen >= scanMost || bytes >= queueMost) && e.Revision > w.next-1 {
				more = true
				return
			}
			seen++
			w.next = e.Revision + 1
			bytes += w.add(e)
		}
		w.next = s.Revision() + 1
	})
	if !behind {
		return more, nil
	}
	if !w.opts.Snapshot {
		return false, ErrCompacted
	}
	w.begin()
	return false, nil
}

// add queues an event that matches, and returns its size. All events of a revision go into one batch.
func (w *Watcher) add(e fsm.Event) (size int) {
	if !w.matches(e.Key) {
		return 0
	}
	e.Value = bytes.Clone(e.Value)
	if w.opts.Previous {
		e.Previous = bytes.Clone(e.Previous)
	} else {
		e.Previous = nil
	}
	size = len(e.Key) + len(e.Value) + len(e.Previous)
	if n := len(w.queue); n > 0 && w.queue[n-1].Revision == e.Revision {
		w.queue[n-1].Events = append(w.queue[n-1].Events, e)
		return size
	}
	w.queue = append(w.queue, Batch{Revision: e.Revision, Events: []fsm.Event{e}})
	return size
}

func (w *Watcher) matches(key string) bool {
	if w.opts.Prefix {
		return strings.HasPrefix(key, w.opts.Key)
	}
	return key == w.opts.Key
}

// reached is the newest revision below which nothing is left to return.
func (w *Watcher) reached() fsm.Revision {
	if w.next == 0 {
		return 0
	}
	var now fsm.Revision
	w.hub.cfg.Source.View(func(s *fsm.State) { now = s.Revision() })
	return min(w.next-1, now)
}
