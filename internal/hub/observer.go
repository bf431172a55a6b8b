package hub

import (
	"context"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/cancel"
)

// observers are who must be told of a change of a lock, by its name.
type observers struct {
	mu sync.Mutex
	of map[string]map[*Observer]struct{}
}

func (s *observers) wake(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of) == 0 {
		return
	}
	for _, name := range names {
		for o := range s.of[name] {
			o.wake()
		}
	}
}

func (s *observers) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, set := range s.of {
		for o := range set {
			o.wake()
		}
	}
}

// Observer follows one lock. One goroutine at a time, but for Close.
type Observer struct {
	hub   *Hub
	name  string
	woken chan struct{} // of one
	last  fsm.LockView
	first bool
}

// Observe returns an Observer of the lock name. Close it.
func (h *Hub) Observe(name string) *Observer {
	o := &Observer{hub: h, name: name, woken: make(chan struct{}, 1), first: true}
	h.observers.mu.Lock()
	defer h.observers.mu.Unlock()
	if h.observers.of == nil {
		h.observers.of = make(map[string]map[*Observer]struct{})
	}
	set := h.observers.of[name]
	if set == nil {
		set = make(map[*Observer]struct{})
		h.observers.of[name] = set
	}
	set[o] = struct{}{}
	return o
}

// Next returns the lock as it is, at the first call at once, then after it has changed. Errors: ctx's, ErrStale,
// ErrClosed. Changed says whether two views differ in what the caller cares for.
func (o *Observer) Next(ctx context.Context, changed func(before, after fsm.LockView) bool) (fsm.LockView, error) {
	progress := time.NewTicker(o.hub.cfg.Progress)
	defer progress.Stop()
	for {
		if o.hub.stale() {
			return fsm.LockView{}, ErrStale
		}
		var view fsm.LockView
		o.hub.cfg.Source.View(func(s *fsm.State) { view = s.Lookup(o.name) })
		if o.first || changed(o.last, view) {
			o.first, o.last = false, view
			return view, nil
		}
		select {
		case <-o.woken:
		case <-progress.C:
		case <-ctx.Done():
			return fsm.LockView{}, cancel.Reason(ctx)
		case <-o.hub.closed:
			return fsm.LockView{}, ErrClosed
		}
	}
}

// Close ends the Observer.
func (o *Observer) Close() {
	all := &o.hub.observers
	all.mu.Lock()
	defer all.mu.Unlock()
	set := all.of[o.name]
	delete(set, o)
	if len(set) == 0 {
		delete(all.of, o.name)
	}
}

func (o *Observer) wake() {
	select {
	case o.woken <- struct{}{}:
	default:
	}
}
