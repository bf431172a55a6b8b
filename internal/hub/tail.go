package hub

import (
	"bytes"
	"sort"
	"sync/atomic"

	"github.com/coordcell/coord/fsm"
)

const (
	tailMost      = 4096    // revisions in the tail
	tailMostBytes = 4 << 20 // of keys and values
)

// Batch is every change of one revision that was asked for, or a part of a snapshot, or, without events, progress. All
// cursors that return the same changes share one: nobody may write to it.
type Batch struct {
	Revision fsm.Revision
	Events   []fsm.Event
	Snapshot bool
	More     bool // further parts of this snapshot follow

	form  atomic.Value
	frame atomic.Pointer[[]byte]
}

// Frame returns the bytes that make has made of the batch, kept in the same way.
func (b *Batch) Frame(make func(*Batch) []byte) []byte {
	if made := b.frame.Load(); made != nil {
		return *made
	}
	made := make(b)
	b.frame.Store(&made)
	return made
}

// Form returns what make made of the batch, for one kind of caller: it is kept with the batch, for all who share it.
func (b *Batch) Form(make func(*Batch) any) any {
	made := b.form.Load()
	if made == nil {
		made = make(b)
		b.form.Store(made)
	}
	return made
}

// Size is the bytes of keys and values.
func (b *Batch) Size() (n int) {
	for i := range b.Events {
		n += size(&b.Events[i])
	}
	return n
}

func size(e *fsm.Event) int { return len(e.Key) + len(e.Value) + len(e.Previous) }

// tail is the newest part of the history, as it is returned to cursors. It belongs to the hub's mu.
type tail struct {
	from      fsm.Revision // every change from here on, as far as the hub has come
	revisions []revision
	bytes     int
}

// revision is what one revision did.
type revision struct {
	number fsm.Revision
	events []fsm.Event // they share memory with the state
	size   int

	// Copies, made when the first cursor asks for them: without and with the previous values, and of some of the events.
	whole [2]*Batch
	parts map[part]*Batch
}

// part names some of the events of a revision.
type part struct {
	group    *group
	previous bool
}

// clear empties the tail.
func (t *tail) clear(from fsm.Revision) { *t = tail{from: from} }

// add appends a revision.
func (t *tail) add(number fsm.Revision, events []fsm.Event) {
	r := revision{number: number, events: events}
	for i := range events {
		r.size += size(&events[i])
	}
	t.revisions = append(t.revisions, r)
	t.bytes += r.size
	for len(t.revisions) > tailMost || t.bytes > tailMostBytes {
		t.drop()
	}
}

// trim drops what the history no longer has: a cursor that comes so late has fallen behind, here as on any server.
func (t *tail) trim(floor fsm.Revision) {
	for len(t.revisions) > 0 && t.revisions[0].number < floor {
		t.drop()
	}
	t.from = max(t.from, floor)
}

func (t *tail) drop() {
	t.from = t.revisions[0].number + 1
	t.bytes -= t.revisions[0].size
	t.revisions[0] = revision{}
	t.revisions = t.revisions[1:]
}

// next is the first batch for g from a revision on that the tail reaches back to; nil if there is none.
func (t *tail) next(g *group, previous bool, from fsm.Revision) *Batch {
	i := sort.Search(len(t.revisions), func(i int) bool { return t.revisions[i].number >= from })
	for ; i < len(t.revisions); i++ {
		if b := t.revisions[i].batch(g, previous); b != nil {
			return b
		}
	}
	return nil
}

func (r *revision) batch(g *group, previous bool) *Batch {
	matching := 0
	for i := range r.events {
		if g.matches(r.events[i].Key) {
			matching++
		}
	}
	switch matching {
	case 0:
		return nil
	case len(r.events):
		return r.all(previous)
	}
	if b := r.parts[part{g, previous}]; b != nil {
		return b
	}
	b := &Batch{Revision: r.number, Events: make([]fsm.Event, 0, matching)}
	for _, e := range r.all(previous).Events {
		if g.matches(e.Key) {
			b.Events = append(b.Events, e)
		}
	}
	if r.parts == nil {
		r.parts = make(map[part]*Batch)
	}
	r.parts[part{g, previous}] = b
	return b
}

func (r *revision) all(previous bool) *Batch {
	which := 0
	if previous {
		which = 1
	}
	if r.whole[which] == nil {
		r.whole[which] = &Batch{Revision: r.number, Events: copies(r.events, previous)}
	}
	return r.whole[which]
}

// copies is events with values of their own, so that nobody who gets them can write to the state.
func copies(events []fsm.Event, previous bool) []fsm.Event {
	out := make([]fsm.Event, len(events))
	for i, e := range events {
		e.Value = bytes.Clone(e.Value)
		if previous {
			e.Previous = bytes.Clone(e.Previous)
		} else {
			e.Previous = nil
		}
		out[i] = e
	}
	return out
}
