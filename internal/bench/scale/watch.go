//go:build unix

package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord"
)

// watcher sees every change of every key, and notices what is missing.
type watcher struct {
	events atomic.Int64 // of expired keys
	gaps   atomic.Int64 // keys that were seen to go twice, revisions that went back, an end before its time
	last   atomic.Int64 // Unix time of the newest, in nanoseconds
}

func (s *server) watch(ctx context.Context, o order) error {
	for range o.N {
		feed, err := s.node.Watch(ctx, "member/", coord.Prefix())
		if err != nil {
			return err
		}
		w := &watcher{}
		s.watchers = append(s.watchers, w)
		go w.follow(feed)
	}
	return nil
}

// follow ends with the process.
func (w *watcher) follow(feed *coord.Watch) {
	gone := make(map[string]struct{})
	revision := coord.Revision(0)
	for b := range feed.Batches() {
		for _, e := range b.Events {
			if e.Type != coord.EventExpire {
				continue
			}
			if _, twice := gone[e.Key]; twice || e.Revision < revision {
				w.gaps.Add(1)
			}
			gone[e.Key] = struct{}{}
			revision = e.Revision
			w.events.Add(1)
			w.last.Store(time.Now().UnixNano())
		}
	}
	w.gaps.Add(1)
}

// watched says how many events were delivered, how many the watcher has seen that has seen the fewest, and when the
// last one came.
func (s *server) watched() (r report) {
	for i, w := range s.watchers {
		n := int(w.events.Load())
		r.Done += n
		r.Gaps += int(w.gaps.Load())
		if r.Limited = min(r.Limited, n); i == 0 {
			r.Limited = n
		}
		r.Last = max(r.Last, w.last.Load())
	}
	return r
}
