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

// Event is one change of one key.
type Event struct {
	Type     EventType
	Key      string
	Value    []byte // what was written
	Previous []byte // with WithPrevious: the value before
	Revision Revision
	Session  SessionID // whose ephemeral key it is or was; 0: a plain one
}

// Batch is every change of one revision, or a part of a snapshot, or, without events, progress.
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

// Watch is a stream of changes: every change of what it watches, once, in the order of revisions, without a gap; or an
// end that says why. It reads from the history of its node and holds no buffer of its own: a slow reader delays nobody.
type Watch struct {
	feed
	key     string
	batches chan Batch
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
	if err := n.srv.Fresh(ctx); err != nil {
		return nil, err
	}
	from, err := n.srv.Hub().Watch(o)
	if err != nil {
		return nil, watchError(err)
	}
	w := &Watch{key: key, batches: make(chan Batch)}
	ctx = w.open(ctx, n)
	if !n.srv.Go(func() { w.run(ctx, from) }) {
		w.stop(errFeedClosed)
		return nil, ErrClosed
	}
	return w, nil
}

// Batches yields a Batch a revision. An empty one comes at least once a second: its Revision says how far the serving
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

// Fresh is the age of the serving node's last proof of a leader: what the Watch has yielded was complete then.
func (w *Watch) Fresh() time.Duration { return w.node.srv.EvidenceAge() }

// Err says why the Watch has ended, and is wrapped with what was watched: ctx's error; ErrCompacted (it fell behind the history); ErrNoLeader (its node has
// had no proof of a leader for 2 × Config.ElectionTimeout: resume elsewhere, or here later); ErrClosed (the node was
// closed). It is nil before, and after Close.
func (w *Watch) Err() error { return wrap(w.feed.error(), "watch %q", w.key) }

// Close ends the Watch and waits for it. It returns nil.
func (w *Watch) Close() error {
	w.close()
	return nil
}

func (w *Watch) run(ctx context.Context, from *hub.Watcher) {
	defer w.ended()
	defer close(w.batches)
	for {
		b, err := from.Next(ctx)
		if err != nil {
			w.fail(err)
			return
		}
		select {
		case w.batches <- batchOf(b):
		case <-ctx.Done():
			w.fail(cancel.Reason(ctx))
			return
		case <-w.node.srv.Stopping():
			w.fail(hub.ErrClosed)
			return
		}
	}
}

func batchOf(b hub.Batch) Batch {
	out := Batch{Revision: b.Revision, Snapshot: b.Snapshot, More: b.More}
	for _, e := range b.Events {
		out.Events = append(out.Events, Event{
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

// errFeedClosed is the cause of a feed that its reader closed.
var errFeedClosed = errors.New("closed by its reader")

// feed is the life of a Watch or an Observer: a goroutine that its reader can end, and that says why it has ended.
type feed struct {
	node *Node
	stop context.CancelCauseFunc
	done chan struct{}

	mu  sync.Mutex
	err error
}

// open begins the feed's life within ctx's.
func (f *feed) open(ctx context.Context, n *Node) context.Context {
	f.node = n
	ctx, f.stop = context.WithCancelCause(ctx)
	f.done = make(chan struct{})
	return ctx
}

// fail records why the feed has ended.
func (f *feed) fail(err error) {
	if errors.Is(err, errFeedClosed) {
		return
	}
	if errors.Is(err, hub.ErrClosed) {
		err = f.node.srv.Stopped()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = watchError(err)
}

// ended is called by the feed's goroutine when it returns.
func (f *feed) ended() {
	f.stop(errFeedClosed)
	close(f.done)
}

func (f *feed) error() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// close ends the feed and waits for its goroutine.
func (f *feed) close() {
	f.stop(errFeedClosed)
	<-f.done
}
