package hub

import (
	"strings"

	"github.com/coordcell/coord/fsm"
)

// index finds the groups of cursors that a key concerns, in time that does not depend on how many others there are.
type index struct {
	keys     map[string]*group
	prefixes map[string]*group
	lengths  []int // how many prefixes there are of each length
}

// group is the cursors that watch the same.
type group struct {
	key     string
	prefix  bool
	cursors int
	waiting []*Cursor
}

// join returns the group of a cursor.
func (x *index) join(key string, prefix bool) *group {
	if x.keys == nil {
		x.keys, x.prefixes = make(map[string]*group), make(map[string]*group)
	}
	of := x.keys
	if prefix {
		of = x.prefixes
	}
	g := of[key]
	if g == nil {
		g = &group{key: key, prefix: prefix}
		of[key] = g
		if prefix {
			for len(x.lengths) <= len(key) {
				x.lengths = append(x.lengths, 0)
			}
			x.lengths[len(key)]++
		}
	}
	g.cursors++
	return g
}

// leave undoes one join.
func (x *index) leave(g *group) {
	g.cursors--
	switch {
	case g.cursors > 0:
	case g.prefix:
		delete(x.prefixes, g.key)
		x.lengths[len(g.key)]--
	default:
		delete(x.keys, g.key)
	}
}

// wake appends to woken the cursors that wait for key and have not come past revision: that is where they go on.
func (x *index) wake(woken []*Cursor, key string, revision fsm.Revision) []*Cursor {
	if g := x.keys[key]; g != nil {
		woken = g.wakeFor(woken, revision)
	}
	for n, count := range x.lengths {
		if n > len(key) {
			break
		}
		if count == 0 {
			continue
		}
		if g := x.prefixes[key[:n]]; g != nil {
			woken = g.wakeFor(woken, revision)
		}
	}
	return woken
}

// wakeAll appends to woken all that wait. They go on at revision at the earliest.
func (x *index) wakeAll(woken []*Cursor, revision fsm.Revision) []*Cursor {
	for _, groups := range []map[string]*group{x.keys, x.prefixes} {
		for _, g := range groups {
			for _, c := range g.waiting {
				c.next, c.waits = max(c.next, revision), -1
				woken = append(woken, c)
			}
			clear(g.waiting)
			g.waiting = g.waiting[:0]
		}
	}
	return woken
}

func (g *group) matches(key string) bool {
	if g.prefix {
		return strings.HasPrefix(key, g.key)
	}
	return key == g.key
}

// wait puts a cursor among those that wait.
func (g *group) wait(c *Cursor) {
	c.waits = len(g.waiting)
	g.waiting = append(g.waiting, c)
}

// wake takes a cursor out of those that wait, if it is one of them.
func (g *group) wake(c *Cursor) {
	if c.waits < 0 {
		return
	}
	last := len(g.waiting) - 1
	g.waiting[c.waits] = g.waiting[last]
	g.waiting[c.waits].waits = c.waits
	g.waiting[last] = nil
	g.waiting = g.waiting[:last]
	c.waits = -1
}

func (g *group) wakeFor(woken []*Cursor, revision fsm.Revision) []*Cursor {
	stay := g.waiting[:0]
	for _, c := range g.waiting {
		if c.next > revision { // it has been here, in a state that was replaced by an older one
			c.waits = len(stay)
			stay = append(stay, c)
			continue
		}
		c.next, c.waits = revision, -1
		woken = append(woken, c)
	}
	clear(g.waiting[len(stay):])
	g.waiting = stay
	return woken
}
