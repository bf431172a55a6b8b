package hub

import (
	"bytes"
	"weak"

	"github.com/coordcell/coord/fsm"
)

const (
	scanMost = 512 // events looked at under one read lock
	partMost = 512 // keys in one part of a snapshot
)

// Options say what a Cursor reads.
type Options struct {
	Key      string
	Prefix   bool // every key that begins with Key
	From     fsm.Revision
	HasFrom  bool // without it: from now on
	Snapshot bool // begin with the present state; and again after falling behind
	Previous bool // fill Event.Previous
}

// Cursor reads changes of keys, in order and without gaps. Next and Close are for one goroutine at a time.
type Cursor struct {
	hub      *Hub
	ready    func()
	snapshot bool // Options.Snapshot
	previous bool
	snap     *snapshot
	told     fsm.Revision // of the newest batch returned

	// Under hub.mu, but next also belongs to who calls Next while the cursor does not wait.
	next  fsm.Revision // every change below has been returned
	group *group       // nil: closed
	place int          // among the hub's cursors
	waits int          // place among those of its group that wait; -1: it does not
	tell  bool         // progress is due
	heard uint32       // the hub's tick at which something was returned
}

// snapshot is a listing that is being returned in parts.
type snapshot struct {
	state *fsm.State
	after string
}

// Watch returns a Cursor. ErrCompacted: the history does not reach back to opts.From, and no snapshot was asked for.
// ErrClosed: the hub is closed.
//
// ready is called once after each Next that returned nothing, when the next call may return something; and once when the
// hub is closed. It is never called twice at a time, and runs on a goroutine that serves everybody: it must not block, and
// had better leave the pulling to another goroutine, such as a Pump's.
func (h *Hub) Watch(opts Options, ready func()) (*Cursor, error) {
	c := &Cursor{hub: h, ready: ready, snapshot: opts.Snapshot, previous: opts.Previous, next: opts.From}
	var now, floor fsm.Revision
	h.cfg.Source.View(func(s *fsm.State) { now, floor = s.Revision(), s.Floor() })
	if opts.HasFrom && opts.From == 0 {
		c.next = floor
	}
	switch {
	case !opts.HasFrom && !opts.Snapshot:
		c.next = now + 1
	case !opts.HasFrom, c.next < floor && opts.Snapshot:
		c.begin()
	case c.next < floor:
		return nil, ErrCompacted
	}
	if err := h.enter(c, opts.Key, opts.Prefix); err != nil {
		return nil, err
	}
	return c, nil
}

// Next returns the next batch, or nil if there is none now. It never blocks. A batch without events is returned when there
// was none for Config.Progress. An error ends the cursor: ErrCompacted, ErrStale, ErrClosed.
func (c *Cursor) Next() (*Batch, error) {
	if c.hub.ended.Load() {
		return nil, ErrClosed
	}
	if c.hub.stale() {
		return nil, ErrStale
	}
	b, err := c.pull()
	if b != nil {
		c.told = b.Revision
	}
	return b, err
}

func (c *Cursor) pull() (*Batch, error) {
	for {
		if c.snap != nil {
			return c.part(), nil
		}
		b, near := c.near()
		if near {
			return b, nil
		}
		b, scanned, err := c.far()
		if b != nil || err != nil {
			return b, err
		}
		if !scanned && c.snap == nil {
			return nil, nil
		}
	}
}

// Closed reports whether the hub has been closed. Unlike Next it takes nothing from the cursor.
func (c *Cursor) Closed() bool { return c.hub.ended.Load() }

// Close gives the cursor up. It never blocks; ready may still be called once.
func (c *Cursor) Close() {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.hub.leave(c)
	c.snap = nil
}

// near returns the next batch from the tail, or else makes the cursor wait. False: the cursor is behind the tail.
//
// Waiting begins under the lock under which the tail grows, so that no change falls between the look and the wait.
func (c *Cursor) near() (*Batch, bool) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.group == nil {
		return nil, true
	}
	if c.waits >= 0 { // asked again before it was ready: it has seen all that the hub has come to
		c.next = max(c.next, h.reached+1)
		c.group.wake(c)
	}
	if c.next <= h.reached {
		if c.next < h.tail.from {
			return nil, false
		}
		if b := h.tail.next(c.group, c.previous, c.next); b != nil {
			c.next, c.heard, c.tell = b.Revision+1, h.tick, false
			return b, true
		}
		c.next = h.reached + 1
	}
	if c.tell {
		c.heard, c.tell = h.tick, false
		// A snapshot may have shown a state that the hub has not come to yet.
		return &Batch{Revision: max(c.told, min(c.next-1, h.reached))}, true
	}
	c.group.wait(c)
	return nil, true
}

// far reads the next batch from the history. scanned: there is none in all of it, as it is now. Without any result the
// cursor is made ready again after the hub's next look at the state.
func (c *Cursor) far() (b *Batch, scanned bool, err error) {
	var found []fsm.Event
	behind, back := false, false
	c.hub.cfg.Source.View(func(s *fsm.State) {
		switch {
		case c.next < s.Floor():
			behind = true
		case c.next > s.Revision():
			back = true // a state that has not come as far
		default:
			found, scanned = c.scan(s)
		}
	})
	switch {
	case behind && !c.snapshot:
		return nil, false, ErrCompacted
	case behind:
		c.begin()
		return nil, false, nil
	case len(found) > 0:
		c.hub.mu.Lock()
		c.heard, c.tell = c.hub.tick, false
		c.hub.mu.Unlock()
		return &Batch{Revision: found[0].Revision, Events: copies(found, c.previous)}, false, nil
	case !back && scanned:
		return nil, true, nil
	}
	c.hub.mu.Lock()
	c.hub.again = append(c.hub.again, c)
	c.hub.mu.Unlock()
	c.hub.look()
	return nil, false, nil
}

// scan moves the cursor over what the history has, at most scanMost events but whole revisions, up to the first that was
// asked for. done: it came to the end.
func (c *Cursor) scan(s *fsm.State) (found []fsm.Event, done bool) {
	seen := 0
	for e := range s.Events(c.next) {
		if (len(found) > 0 || seen >= scanMost) && e.Revision > c.next-1 {
			return found, false
		}
		seen++
		c.next = e.Revision + 1
		if c.group.matches(e.Key) {
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		c.next = s.Revision() + 1
	}
	return found, true
}

// begin starts a snapshot of the present state. Those that begin at the same revision share a copy.
func (c *Cursor) begin() {
	h := c.hub
	var now fsm.Revision
	h.cfg.Source.View(func(s *fsm.State) { now = s.Revision() })
	h.mu.Lock()
	state := h.clone.Value()
	h.mu.Unlock()
	if state == nil || state.Revision() != now {
		state = h.cfg.Source.Clone()
		h.mu.Lock()
		h.clone = weak.Make(state)
		h.mu.Unlock()
	}
	c.snap = &snapshot{state: state}
	c.next = state.Revision() + 1
}

func (c *Cursor) part() *Batch {
	b := &Batch{Revision: c.next - 1, Snapshot: true}
	var kvs []fsm.KeyValue
	if c.group.prefix {
		kvs, b.More = c.snap.state.List(c.group.key, c.snap.after, partMost)
	} else if kv, ok := c.snap.state.Get(c.group.key); ok {
		kvs = []fsm.KeyValue{kv}
	}
	for _, kv := range kvs {
		b.Events = append(b.Events, fsm.Event{
			Type: fsm.EventPut, Key: kv.Key, Value: bytes.Clone(kv.Value), Revision: kv.Changed, Session: kv.Session,
		})
	}
	if b.More {
		c.snap.after = kvs[len(kvs)-1].Key
	} else {
		c.snap = nil
	}
	return b
}
