package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/history"
)

// watcher follows all keys, or one.
type watcher struct {
	load *Load
	id   int
	rng  *rand.Rand

	key      string
	prefix   bool
	last     coord.Revision
	snapshot bool // the history no longer reached back: the next watch begins with the present state
}

func (w *watcher) run(ctx context.Context) {
	w.prefix, w.snapshot = true, true
	if w.rng.IntN(4) == 0 {
		w.key, w.prefix = "counter/0", false
	}
	for server := w.id; ctx.Err() == nil; server++ {
		n := w.load.cfg.Node(server)
		if n == nil {
			pause(ctx, 50*time.Millisecond)
			continue
		}
		stay := time.Duration(w.rng.Int64N(int64(8 * w.load.cfg.TTL)))
		follow, cancel := context.WithTimeout(ctx, stay)
		w.follow(follow, n)
		cancel()
		pause(ctx, 10*time.Millisecond)
	}
}

// follow watches on one server until ctx ends or the watch does.
func (w *watcher) follow(ctx context.Context, n *coord.Node) {
	note := history.Batch{Watcher: w.load.cfg.Record.Watcher(), Node: n.Name(), Key: w.key, Prefix: w.prefix}
	var opts []coord.WatchOption
	if w.prefix {
		opts = append(opts, coord.Prefix())
	}
	if w.snapshot {
		opts = append(opts, coord.WithSnapshot())
	} else {
		note.From = uint64(w.last + 1)
		opts = append(opts, coord.FromRevision(w.last+1))
	}
	watch, err := n.Watch(ctx, w.key, opts...)
	if err == nil {
		for b := range watch.Batches() {
			w.take(note, b)
		}
		err = watch.Err()
	}
	note.End = true
	if err != nil {
		note.Err = err.Error()
	}
	w.load.cfg.Record.Batch(note)
	if errors.Is(err, coord.ErrCompacted) {
		w.snapshot = true
	}
	if !explained(err) {
		w.load.cfg.Complain("errors", fmt.Sprintf("watcher %d: no fault explains: %v", w.id, err))
	}
}

func (w *watcher) take(note history.Batch, b coord.Batch) {
	note.Revision, note.Snapshot, note.More = uint64(b.Revision), b.Snapshot, b.More
	for _, e := range b.Events {
		note.Events = append(note.Events, history.Event{
			Type: e.Type.String(), Key: e.Key, Value: string(e.Value), Revision: uint64(e.Revision), Session: uint64(e.Session),
		})
	}
	w.load.cfg.Record.Batch(note)
	if b.More {
		return // a part of a snapshot is no place to resume from
	}
	w.snapshot = false
	w.last = b.Revision
	w.load.mu.Lock()
	defer w.load.mu.Unlock()
	w.load.seen[w.id] = b.Revision
}
