package hub

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/coordcell/coord/fsm"
)

var (
	// ErrCompacted ends a Cursor whose next change the history no longer has.
	ErrCompacted = errors.New("the history no longer reaches back that far")
	// ErrStale ends a Cursor or Observer whose server has had no proof of a leader for too long.
	ErrStale = errors.New("no proof of a leader for too long")
	// ErrClosed ends what is still there when the hub is closed.
	ErrClosed = errors.New("closed")
)

// ticks is how often in a Config.Progress the hub looks for cursors that have been silent for that long.
const ticks = 4

// freshFor is how long an answer of Config.Fresh is good for: many cursors ask at once.
const freshFor = time.Millisecond

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
	// Progress is the longest silence of a Cursor, and a quarter more.
	Progress time.Duration
}

// Hub tells cursors and observers what has changed. Safe for concurrent use.
type Hub struct {
	cfg       Config
	changed   chan struct{} // of one: the state has changed
	closed    chan struct{}
	ended     atomic.Bool
	began     time.Time
	fresh     atomic.Int64 // when Config.Fresh was last asked and the answer was good, in nanoseconds since began; 0: never
	pump      Pump
	observers observers

	mu      sync.Mutex
	running bool
	loop    sync.WaitGroup
	cursors []*Cursor
	index   index
	again   []*Cursor // to be made ready after the next look at the state
	tail    tail
	reached fsm.Revision // each cursor that waits has been told of every change up to here
	tick    uint32
	clone   weak.Pointer[fsm.State] // the newest that a snapshot is read from
}

// New returns a hub over cfg.Source. Close ends it.
func New(cfg Config) *Hub {
	return &Hub{cfg: cfg, began: time.Now(), changed: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Publish tells of an applied entry. It never blocks.
func (h *Hub) Publish(out *fsm.Output) {
	if len(out.Events) > 0 {
		h.look()
	}
	if len(out.Touched) > 0 {
		h.observers.wake(out.Touched)
	}
}

// Reset says that the state has been replaced.
func (h *Hub) Reset() {
	h.look()
	h.observers.wakeAll()
}

// Pump gives turns to the local readers of the hub's cursors. It is closed with the hub.
func (h *Hub) Pump() *Pump { return &h.pump }

// Close ends every cursor and observer with ErrClosed, calls ready of each cursor once more, and waits for the turns that
// follow.
func (h *Hub) Close() {
	h.mu.Lock()
	first := !h.ended.Swap(true)
	left := h.cursors
	h.cursors = nil
	h.mu.Unlock()
	if !first {
		return
	}
	close(h.closed)
	h.loop.Wait()
	for _, c := range left {
		c.ready()
	}
	h.pump.Close()
}

// look has the hub look at the state soon.
func (h *Hub) look() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// stale reports whether the last proof of a leader is too old.
func (h *Hub) stale() bool {
	now := time.Since(h.began)
	if at := h.fresh.Load(); at > 0 && now < time.Duration(at)+freshFor {
		return false
	}
	if h.cfg.Fresh() > h.cfg.StaleAfter {
		return true
	}
	h.fresh.Store(int64(now))
	return false
}

// enter adds a cursor. The first one starts the hub's goroutine.
func (h *Hub) enter(c *Cursor, key string, prefix bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended.Load() {
		return ErrClosed
	}
	if !h.running {
		h.running = true
		h.cfg.Source.View(func(s *fsm.State) { h.reached = s.Revision() })
		h.tail.clear(h.reached + 1)
		h.loop.Go(h.run)
	}
	c.group = h.index.join(key, prefix)
	c.place, c.waits, c.heard = len(h.cursors), -1, h.tick
	h.cursors = append(h.cursors, c)
	return nil
}

// leave takes a cursor out. Needs mu.
func (h *Hub) leave(c *Cursor) {
	if c.group == nil {
		return
	}
	c.group.wake(c)
	h.index.leave(c.group)
	c.group = nil
	if h.ended.Load() {
		return
	}
	last := len(h.cursors) - 1
	h.cursors[c.place] = h.cursors[last]
	h.cursors[c.place].place = c.place
	h.cursors[last] = nil
	h.cursors = h.cursors[:last]
}

// run looks at the state when it has changed, and for cursors that have been silent, until there are no cursors any more.
func (h *Hub) run() {
	tick := time.NewTicker(max(h.cfg.Progress/ticks, time.Millisecond))
	defer tick.Stop()
	var woken []*Cursor
	for {
		select {
		case <-h.changed:
			woken = h.advance(woken[:0])
		case <-tick.C:
			var over bool
			if woken, over = h.silent(woken[:0]); over {
				return
			}
		case <-h.closed:
			return
		}
		for i, c := range woken {
			c.ready()
			woken[i] = nil
		}
	}
}

// silent wakes the cursors that have returned nothing for Config.Progress: they tell of progress, or that the server is
// stale. over: there are no cursors, and the goroutine ends.
func (h *Hub) silent(woken []*Cursor) (_ []*Cursor, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tick++
	for _, c := range h.cursors {
		if c.waits >= 0 && h.tick-c.heard >= ticks {
			c.tell, c.next = true, max(c.next, h.reached+1)
			c.group.wake(c)
			woken = append(woken, c)
		}
	}
	if len(h.cursors) > 0 {
		return woken, false
	}
	h.running, h.again = false, nil
	h.tail.clear(0)
	return nil, true
}

// advance takes what is new in the history to the tail, and wakes the cursors that wait for it.
func (h *Hub) advance(woken []*Cursor) []*Cursor {
	for more := true; more; {
		var news []fsm.Event
		var now, floor, upTo fsm.Revision
		h.cfg.Source.View(func(s *fsm.State) {
			now, floor = s.Revision(), s.Floor()
			news, upTo, more = newer(s, h.reached)
		})
		h.mu.Lock()
		if now < h.reached || floor > h.reached+1 {
			// Another state: one that has not come as far, or one that has come so far that changes in between are lost. Who
			// waits has seen all up to reached, and finds out by himself where he is.
			woken = h.index.wakeAll(woken, h.reached+1)
			h.reached = now
			h.tail.clear(now + 1)
			more = false
		} else {
			woken = h.tell(woken, news)
			h.reached = upTo
			h.tail.trim(floor)
		}
		for i, c := range h.again {
			if c.group != nil {
				woken = append(woken, c)
			}
			h.again[i] = nil
		}
		h.again = h.again[:0]
		h.mu.Unlock()
	}
	return woken
}

// newer is a number of whole revisions after the one given, and how far that is.
func newer(s *fsm.State, after fsm.Revision) (news []fsm.Event, upTo fsm.Revision, more bool) {
	upTo = max(after, s.Revision())
	if s.Revision() <= after {
		return nil, upTo, false
	}
	for e := range s.Events(after + 1) {
		if n := len(news); n >= scanMost && e.Revision != news[n-1].Revision {
			return news, news[n-1].Revision, true
		}
		news = append(news, e)
	}
	return news, upTo, false
}

// tell adds events to the tail and wakes who waits for them. Whoever is woken goes on with the first of them that concerns
// him: what lies between did not. Needs mu.
func (h *Hub) tell(woken []*Cursor, news []fsm.Event) []*Cursor {
	for len(news) > 0 {
		revision, n := news[0].Revision, 1
		for n < len(news) && news[n].Revision == revision {
			n++
		}
		h.tail.add(revision, news[:n:n])
		for _, e := range news[:n] {
			woken = h.index.wake(woken, e.Key, revision)
		}
		news = news[n:]
	}
	return woken
}
