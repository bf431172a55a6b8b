package hub

import (
	"errors"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
)

var (
	// ErrCompacted ends a Watcher whose next change the history no longer has.
	ErrCompacted = errors.New("the history no longer reaches back that far")
	// ErrStale ends a Watcher or Observer whose server has had no proof of a leader for too long.
	ErrStale = errors.New("no proof of a leader for too long")
	// ErrClosed ends what is still there when the hub is closed.
	ErrClosed = errors.New("closed")
)

// Source is the state that a Hub serves.
type Source interface {
	View(read func(*fsm.State))
	Clone() *fsm.State
}

// Config says what a Hub serves and when that is stale.
type Config struct {
	Source Source
	// Fresh is the age of this server's last proof of a leader.
	Fresh func() time.Duration
	// StaleAfter is how old that proof may be.
	StaleAfter time.Duration
	// Progress is the longest silence of a Watcher.
	Progress time.Duration
}

// Hub wakes watchers and observers. Safe for concurrent use.
type Hub struct {
	cfg Config

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced when keys have changed
	observers map[string]map[*Observer]struct{}
	closed    chan struct{}
	ended     bool
}

// New returns a hub over cfg.Source.
func New(cfg Config) *Hub {
	return &Hub{
		cfg:       cfg,
		changed:   make(chan struct{}),
		observers: make(map[string]map[*Observer]struct{}),
		closed:    make(chan struct{}),
	}
}

// Publish wakes those whom an applied entry concerns. It never blocks.
func (h *Hub) Publish(out *fsm.Output) {
	if len(out.Events) == 0 && len(out.Touched) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(out.Events) > 0 {
		h.wakeWatchers()
	}
	if len(h.observers) == 0 {
		return
	}
	for _, name := range out.Touched {
		for o := range h.observers[name] {
			o.wake()
		}
	}
}

// Reset wakes everybody: the state has been replaced.
func (h *Hub) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakeWatchers()
	for _, set := range h.observers {
		for o := range set {
			o.wake()
		}
	}
}

// Close ends every watcher and observer with ErrClosed.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended = true
		close(h.closed)
	}
}

func (h *Hub) wakeWatchers() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// change returns the channel that the next change closes. Take it before reading the state, so that nothing that
// comes in between is missed.
func (h *Hub) change() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

func (h *Hub) stale() bool { return h.cfg.Fresh() > h.cfg.StaleAfter }
