package hub

import (
	"context"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/cancel"
)

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
	h.mu.Lock()
	defer h.mu.Unlock()
	set := h.observers[name]
	if set == nil {
		set = make(map[*Observer]struct{})
		h.observers[name] = set
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
	o.hub.mu.Lock()
	defer o.hub.mu.Unlock()
	set := o.hub.observers[o.name]
	delete(set, o)
	if len(set) == 0 {
		delete(o.hub.observers, o.name)
	}
}

func (o *Observer) wake() {
	select {
	case o.woken <- struct{}{}:
	default:
	}
}
