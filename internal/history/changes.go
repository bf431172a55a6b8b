package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// The types of events.
const (
	eventPut    = "put"
	eventDelete = "delete"
	eventExpire = "expire"
)

// change is one of a key that is known to have been made: its call was answered, or somebody saw it.
type change struct {
	Event
	op    *Op           // that made it; nil if that is not known
	call  time.Duration // not made before
	known time.Duration // made by then
	loose bool          // the type and owner are not known for certain: nobody saw the event itself
}

func (c *change) String() string {
	return fmt.Sprintf("%s of %q, value %q, session %d, at revision %d", c.Type, c.Key, c.Value, c.Session, c.Revision)
}

type place struct {
	key      string
	revision uint64
}

// mergeChanges puts together what all of them say: calls that were answered, reads, and watches. That two say different
// things of one revision of a key breaks G9 (or, if one of them is the call itself, G7).
func (v *view) mergeChanges() {
	merged := make(map[place]*change)
	for i := range v.h.Ops {
		op := &v.h.Ops[i]
		if op.Outcome == OK && op.Return != Pending && op.Revision != 0 {
			v.mergeOp(merged, op)
		}
	}
	for i := range v.h.Batches {
		b := &v.h.Batches[i]
		for _, e := range b.Events {
			v.merge(merged, "G9", change{Event: e, known: b.At}, fmt.Sprintf("watcher %d at %v", b.Watcher, b.At))
		}
	}
	v.all = slices.SortedFunc(maps.Values(merged), func(a, b *change) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Key, b.Key))
	})
	v.changes = make(map[string][]*change)
	for _, c := range v.all {
		v.changes[c.Key] = append(v.changes[c.Key], c)
	}
}

func (v *view) mergeOp(merged map[place]*change, op *Op) {
	c := change{Event: Event{Key: op.Name, Value: op.Value, Revision: op.Revision}, known: op.Return}
	switch op.Kind {
	case Put:
		c.Type, c.op = eventPut, op
		if !op.Lasting {
			c.Session = op.Session
		}
		v.merge(merged, "G7", c, op.String())
	case Delete:
		c.Type, c.op, c.call, c.loose = eventDelete, op, op.Call, true // whose the key was is not known
		v.merge(merged, "G7", c, op.String())
	case Get:
		c.Type, c.loose = eventPut, true
		v.merge(merged, "G5", c, op.String())
	}
}

// merge takes up a change that by tells of.
func (v *view) merge(merged map[place]*change, guarantee string, c change, by string) {
	at := place{c.Key, c.Revision}
	old := merged[at]
	if old == nil {
		if put := v.puts[c.Value]; c.Type == eventPut && put != nil && put.Name == c.Key {
			c.op, c.call = put, put.Call
			if c.loose {
				c.loose = false
				if !put.Lasting {
					c.Session = put.Session
				}
			}
		}
		merged[at] = &c
		return
	}
	differ := old.Type != c.Type || old.Value != c.Value && c.Type == eventPut ||
		old.Session != c.Session && !old.loose && !c.loose
	if differ {
		v.add(guarantee, c.known, "%v, but %s says: %v", old, by, &c)
	}
	if old.loose && !c.loose {
		old.Session, old.loose = c.Session, false
	}
	old.known = min(old.known, c.known)
}

// checkOnce: G7. Each value is written once, so it is found at one revision of one key at most, after it was called for;
// a refused write is found nowhere; and one that was answered is found where the answer says.
func (v *view) checkOnce() {
	found := make(map[string]*change)
	recorded := make(map[string]bool) // keys whose writes are recorded
	for _, put := range v.puts {
		recorded[put.Name] = true
	}
	for _, c := range v.all {
		if c.Type != eventPut {
			v.checkDelete(c)
			continue
		}
		if first := found[c.Value]; first != nil {
			v.add("G7", c.known, "%q was written twice: %v; %v", c.Value, first, c)
		}
		found[c.Value] = c
		put := v.puts[c.Value]
		switch {
		case put == nil || put.Name != c.Key:
			if recorded[c.Key] {
				v.add("G7", c.known, "nobody wrote that: %v", c)
			}
		case put.Outcome == Refused:
			v.add("G7", c.known, "it was refused: %v; and it was written: %v", put, c)
		case put.Outcome == OK && put.Return != Pending && put.Revision != c.Revision:
			v.add("G7", c.known, "%v; but it was seen as: %v", put, c)
		case c.known < put.Call:
			v.add("G7", c.known, "seen at %v, before it was called for: %v", c.known, put)
		}
	}
}

// checkDelete: somebody must have asked for a deletion, or the key's session must have been able to end.
func (v *view) checkDelete(c *change) {
	if c.Type == eventExpire {
		c.call = v.alive[c.Session]
		return
	}
	if c.op != nil {
		if c.known < c.op.Call {
			v.add("G7", c.known, "seen at %v, before it was called for: %v", c.known, c.op)
		}
		return
	}
	c.call = never
	for _, op := range v.keys[c.Key] {
		if op.Kind == Delete && op.open() {
			c.call = min(c.call, op.Call)
		}
	}
	if c.call > c.known {
		v.add("G7", c.known, "nobody asked for that: %v", c)
		c.call = 0
	}
}

// checkCounters: G7. Of two writes on the condition of the same last revision of a key only one can be made. Those that
// were not answered count if their value was seen.
func (v *view) checkCounters() {
	for _, key := range names(v.changes) {
		first := make(map[uint64]*change)
		for _, c := range v.changes[key] {
			if c.op == nil || c.op.If.Revision == 0 {
				continue
			}
			if other := first[c.op.If.Revision]; other != nil {
				v.add("G7", c.known, "%v and %v both follow the same revision: %v; %v", other, c, other.op, c.op)
			}
			first[c.op.If.Revision] = c
		}
	}
}

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// duration makes a number of a resource comparable as a time.
func duration(n uint64) time.Duration { return time.Duration(n) }
