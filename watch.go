package coord

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/cancel"
	"github.com/coordcell/coord/internal/hub"
)

// EventType says what happened to a key.
type EventType uint8

const (
	EventPut    EventType = iota + 1 // it was written
	EventDelete                      // it was deleted
	EventExpire                      // it was ephemeral, and its session ended, in whatever way
)

// String returns "put", "delete" or "expire".
func (t EventType) String() string {
	switch t {
	case EventPut:
		return "put"
	case EventDelete:
		return "delete"
	case EventExpire:
		return "expire"
	default:
		return fmt.Sprintf("EventType(%d)", uint8(t))
	}
}

// Event is one change of one key. Its values are shared by all who receive it: copy what is to be written to.
type Event struct {
	Type     EventType
	Key      string
	Value    []byte // what was written
	Previous []byte // with WithPrevious: the value before
	Revision Revision
	Session  SessionID // whose ephemeral key it is or was; 0: a plain one
}

// Batch is every change of one revision, or a part of a snapshot, or, without events, progress. Events is shared by all
// who receive it, and not to be written to.
type Batch struct {
	Revision Revision // of progress: what the serving node has applied
	Events   []Event
	Snapshot bool // the present state, not changes
	More     bool // further parts of this snapshot follow
}

// WatchOption is an option of Watch.
type WatchOption interface{ watchOption(*hub.Options) }

type watchOptionFunc func(*hub.Options)

func (f watchOptionFunc) watchOption(o *hub.Options) { f(o) }

// Prefix watches every key that begins with the key given; an empty one is every key.
func Prefix() WatchOption { return watchOptionFunc(func(o *hub.Options) { o.Prefix = true }) }

// FromRevision begins with the changes of revision r and later ones; 0: with all that the history has. Pass the
// revision of the last Batch seen, plus 1, to resume without a gap, on any node of the same cell: Status.CellID tells one
// that was built anew, whose revisions are others. Without it a Watch begins now.
func FromRevision(r Revision) WatchOption {
	return watchOptionFunc(func(o *hub.Options) { o.From, o.HasFrom = r, true })
}

// WithSnapshot begins with the present state, in marked batches, and then yields changes; where the watcher falls
// behind the history it does so again, instead of ending with ErrCompacted. A snapshot of nothing is one empty marked
// Batch. With FromRevision there is a snapshot only if the history no longer reaches back to it.
func WithSnapshot() WatchOption { return watchOptionFunc(func(o *hub.Options) { o.Snapshot = true }) }

// WithPrevious fills Event.Previous.
func WithPrevious() WatchOption { return watchOptionFunc(func(o *hub.Options) { o.Previous = true }) }

// ahead is how many batches may wait for the reader of a Watch, where they are small: a slow reader is looked for again
// every now and then, and should not have to wait for that.
const (
	ahead      = 8
	smallBatch = 4 << 10 // bytes of keys and values
)

// Watch is a stream of changes: every change of what it watches, once, in the order of revisions, without a gap; or an
// end that says why. It reads from the history of its node, and what it reads is shared by all watches of the same
// changes: it has neither a goroutine nor a buffer of its own but for a few batches that wait for their reader. A slow one
// delays nobody.
type Watch struct {
	node    *Node
	key     string
	batches chan Batch
	turn    *hub.Turn // to move what there is from cursor to batches

	mu     sync.Mutex // held by whoever pulls from the cursor or ends the Watch
	cursor hub.Reader
	large  bool        // the newest batch was
	detach func() bool // from ctx
	ended  bool
	err    error
}

// Watch watches one key, or with Prefix many. Unlike other calls it lives as long as ctx. It begins no earlier than
// everything that was acknowledged to anybody before the call.
//
// Errors: ErrInvalid, ErrTooLarge (key), ErrCompacted (FromRevision), ErrNoLeader (ctx ended), ErrClosed.
func (n *Node) Watch(ctx context.Context, key string, opts ...WatchOption) (*Watch, error) {
	w, err := n.watch(ctx, key, opts)
	return w, wrap(err, "watch %q", key)
}

func (n *Node) watch(ctx context.Context, key string, opts []WatchOption) (*Watch, error) {
	o := hub.Options{Key: key}
	for _, opt := range opts {
		opt.watchOption(&o)
	}
	check := n.limits.CheckName
	if o.Prefix {
		check = n.limits.CheckPrefix
	}
	if err := check("key", key); err != nil {
		return nil, err
	}
	o, err := n.srv.BeginWatch(ctx, o)
	if err != nil {
		return nil, watchError(err)
	}
	w := &Watch{node: n, key: key, batches: make(chan Batch, ahead)}
	w.turn = n.srv.Pump().Turn(w.move)
	w.mu.Lock() // no turn before all is there
	defer w.mu.Unlock()
	if w.cursor, err = n.srv.Watch(o, w.turn.Wake); err != nil {
		w.ended = true
		return nil, watchError(err)
	}
	w.detach = context.AfterFunc(ctx, func() { w.end(cancel.Reason(ctx)) })
	w.turn.Wake()
	return w, nil
}

// Batches yields a Batch a revision. An empty one comes at least once a second, on a client every 5s: its Revision says how far the serving
// node has come, with nothing more to tell up to there. It is closed when the Watch has ended.
func (w *Watch) Batches() <-chan Batch { return w.batches }

// All yields the same without the empty batches of progress, and at the end the error, if there was one. Leaving the
// loop does not close the Watch.
func (w *Watch) All() iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for b := range w.batches {
			if len(b.Events) == 0 && !b.Snapshot {
				continue
			}
			if !yield(b, nil) {
				return
			}
		}
		if err := w.Err(); err != nil {
			yield(Batch{}, err)
		}
	}
}

// Fresh is the age of the serving node's last proof of a leader: what the Watch has yielded was complete then. On a client
// it is that of the last proof that it has heard of.
func (w *Watch) Fresh() time.Duration { return w.cursor.Age() }

// Err says why the Watch has ended, and is wrapped with what was watched: ctx's error; ErrCompacted (it fell behind the
// history); ErrNoLeader (its node has had no proof of a leader for 2 × Config.ElectionTimeout, or as a client has found no
// server that has for 12 ×: resume elsewhere, or here later); ErrClosed (the node was closed). It is nil before, and after
// Close.
func (w *Watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return wrap(w.err, "watch %q", w.key)
}

// Close ends the Watch. It returns nil.
func (w *Watch) Close() error {
	w.end(nil)
	return nil
}

// move takes what the cursor has to where the reader finds it, as far as there is room. It is the turn of the Watch, and
// the only sender: where it has seen room there is room.
func (w *Watch) move() hub.Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	outcome := hub.Stuck
	for range 4 * ahead {
		if w.ended {
			return hub.Done
		}
		waiting := len(w.batches)
		if (waiting == ahead || waiting > 0 && w.large) && !w.cursor.Closed() {
			return outcome
		}
		b, err := w.cursor.Next()
		switch {
		case errors.Is(err, hub.ErrStale) && waiting > 0:
			// Who has not read what lies there learns of it afterwards, if there is no leader then: a failover need not end
			// the watches of slow readers.
			return hub.Stuck
		case err != nil:
			w.finish(err)
			return hub.Done
		case b == nil:
			return hub.Done
		case waiting > 0 && len(b.Events) == 0 && !b.Snapshot:
			// Who has not read what lies there is not told of progress.
		default:
			w.batches <- Batch{
				Revision: b.Revision, Events: b.Form(eventsOf).([]Event), Snapshot: b.Snapshot, More: b.More,
			}
			w.large = b.Size() > smallBatch
		}
		outcome = hub.Moved
	}
	return outcome
}

// end ends the Watch, once; err is nil if its reader has done so.
func (w *Watch) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish(err)
}

// finish is end for who holds mu.
func (w *Watch) finish(err error) {
	if w.ended {
		return
	}
	if errors.Is(err, hub.ErrClosed) {
		err = w.node.srv.Stopped()
	}
	w.ended, w.err = true, watchError(err)
	w.detach()
	w.cursor.Close()
	close(w.batches)
}

// eventsOf is the Form of a hub.Batch for the readers of watches.
func eventsOf(b *hub.Batch) any {
	var out []Event
	for _, e := range b.Events {
		out = append(out, Event{
			Type: eventType(e.Type), Key: e.Key, Value: e.Value, Previous: e.Previous, Revision: e.Revision, Session: e.Session,
		})
	}
	return out
}

func eventType(t fsm.EventType) EventType {
	switch t {
	case fsm.EventPut:
		return EventPut
	case fsm.EventDelete:
		return EventDelete
	default:
		return EventExpire
	}
}

// watchError says in this package's words why a watcher or observer ended.
func watchError(err error) error {
	switch {
	case errors.Is(err, hub.ErrCompacted):
		return ErrCompacted
	case errors.Is(err, hub.ErrStale):
		return ErrNoLeader
	case errors.Is(err, hub.ErrClosed):
		return ErrClosed
	default:
		return err
	}
}
