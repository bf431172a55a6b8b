package fsm

import (
	"slices"

	"github.com/tidwall/btree"
)

// A request that says what its caller holds tells two things: that it waits, and that those grants will not be freed
// meanwhile. From both follows who waits for whom:
//
//   - a request waits for each holder that is in its way, or in the way of a request before it in a queue. Where slots
//     are short and only slots are asked for up to its place, any one of the holders will do;
//   - a request waits for every request before it in the queues of its names;
//   - a grant waits for every request that says its caller holds it.
//
// A request that would close a cycle is refused. Cycles come about in no other way, so that it is enough to look when a
// request is about to be queued: a grant that is made brings a holder of whom nobody can have said yet that he waits,
// and everything else that happens to a queue or to holders takes something away. (A HandOver lets one request pass
// others, which then wait for one new holder more; the same is true of him.)
//
// What will be taken from its holder anyway is waited for by nobody in this sense: grants and requests of sessions that
// have ended or are marked, grants that are marked, losses. Leases count as if they were refreshed for ever.

// maxWalk bounds the steps of one search. A request whose search is longer is not refused: it may wait for itself, as
// if it had said nothing.
const maxWalk = 10_000

// search is the part of the graph that a request leads to.
type search struct {
	*State
	holding []GrantID // of the request that is judged
	steps   int
	closed  bool      // some way leads to what it holds
	nodes   []request // its own first
	known   btree.Map[Revision, int]
}

// request is one that waits, or is about to.
type request struct {
	place
	way  []obstacle
	free bool // it will be granted, whatever the one that is judged does
	// On the way from the one that is judged, of those that are not free:
	met  bool
	from int     // whom it keeps waiting
	by   grantAt // with what
}

// grantAt is what a request waits for at one of its names: a grant, or, with token 0, its turn.
type grantAt struct {
	name  string
	token Revision
}

// obstacle goes away when one of its alternatives does, and that when all the requests that it waits for are granted.
type obstacle []alternative

type alternative struct {
	grantAt
	waits []int
}

// cycle returns how the request w would wait for itself, or nil.
func (s *State) cycle(name string, w *waiter) *Cycle {
	if w.claim == nil || !s.wanted(name, w.claim) {
		return nil
	}
	f := search{State: s, holding: w.claim.holding}
	f.node(place{name, s.revision + 1, w})
	for i := 0; i < len(f.nodes); i++ {
		for j := range f.nodes[i].claim.width() {
			f.look(i, f.nodes[i].claim.at(j, f.nodes[i].name))
		}
		if f.steps > maxWalk {
			return nil
		}
	}
	if !f.closed || !f.settle() || f.nodes[0].free {
		return nil
	}
	return f.path()
}

// wanted reports whether anybody, the request itself included, waits for something that its caller holds. If not there
// is no cycle.
func (s *State) wanted(name string, c *claim) bool {
	for _, g := range c.holding {
		h, _ := s.find(g.Name, g.Token)
		for i := range h.claim.width() {
			held := h.claim.at(i, h.name)
			if l, ok := s.locks.Get(held); ok && l.waiting > 0 {
				return true
			}
			for j := range c.width() {
				if c.at(j, name) == held {
					return true
				}
			}
		}
	}
	return false
}

// node returns the number of a request.
func (f *search) node(p place) int {
	if i, ok := f.known.Get(p.position); ok {
		return i
	}
	f.known.Set(p.position, len(f.nodes))
	f.nodes = append(f.nodes, request{place: p})
	return len(f.nodes) - 1
}

// look notes what is in the way of request i at one of its names.
func (f *search) look(i int, name string) {
	p := f.nodes[i].place
	p.name = name
	l, ok := f.locks.Get(name)
	if !ok {
		return
	}
	if ahead, ok := f.ahead(p); ok {
		f.add(i, alternative{grantAt{name, 0}, []int{f.node(ahead)}})
	}
	if l.session != 0 {
		f.addHolder(i, held{name: name, session: l.session, token: l.token})
	}
	if !l.crowded {
		return
	}
	c, _ := f.crowds.Get(name)
	if c.readers == 0 && c.taken == 0 {
		return
	}
	alone := f.alone(p)
	any := c.taken > 0 && !alone
	if c.readers > 0 && !alone || any && c.taken < c.slots {
		return
	}
	var one obstacle
	n := uint32(0)
	f.holders.Ascend(holder{name: name}, func(h holder) bool {
		if h.name != name || f.steps > maxWalk {
			return false
		}
		f.steps++
		n++
		if !any {
			f.addHolder(i, held(h))
		} else if f.stays(held(h)) {
			one = append(one, f.alternative(held(h)))
		}
		return true
	})
	// One slot that will be free by itself is enough.
	if any && uint32(len(one)) == c.taken {
		f.nodes[i].way = append(f.nodes[i].way, one)
	}
}

func (f *search) add(i int, a alternative) {
	f.nodes[i].way = append(f.nodes[i].way, obstacle{a})
}

func (f *search) addHolder(i int, h held) {
	if f.stays(h) {
		f.add(i, f.alternative(h))
	}
}

// alternative looks for the requests whose callers hold a grant.
func (f *search) alternative(h held) alternative {
	a := alternative{grantAt: grantAt{h.name, h.token}}
	if slices.ContainsFunc(f.holding, func(g GrantID) bool { return g.Token == h.token }) {
		a.waits, f.closed = append(a.waits, 0), true
	}
	f.declared.Ascend(declaration{token: h.token}, func(d declaration) bool {
		if d.token != h.token {
			return false
		}
		f.steps++
		if p, ok := f.queue.Get(place{name: d.name, position: d.position}); ok && f.refusal(p.session) == 0 {
			a.waits = append(a.waits, f.node(p))
		}
		return f.steps <= maxWalk
	})
	f.steps++
	return a
}

// ahead returns the last request for several names before p in its queue. Those for the one name need no look: they
// wait for nothing that p, or the one returned, does not wait for.
func (f *search) ahead(p place) (q place, ok bool) {
	f.joint.Descend(place{name: p.name, position: p.position - 1}, func(found place) bool {
		f.steps++
		if found.name != p.name || f.steps > maxWalk {
			return false
		}
		q, ok = found, f.refusal(found.session) == 0
		return !ok
	})
	return q, ok
}

// alone reports whether p, or a request before it in its queue, asks in another way than the readers or the holders of
// slots have it, so that all of them have to go before p is granted.
func (f *search) alone(p place) (alone bool) {
	c, _ := f.crowds.Get(p.name)
	other := func(c2 *claim) bool { return c2.exclusive() || c2.shared != (c.readers > 0) }
	if other(p.claim) {
		return true
	}
	f.queue.Ascend(place{name: p.name}, func(q place) bool {
		f.steps++
		if q.name != p.name || q.position >= p.position || f.steps > maxWalk {
			return false
		}
		alone = other(q.claim) && f.refusal(q.session) == 0
		return !alone
	})
	return alone
}

// settle finds out which requests are free. It reports false if that takes too long. Those that were met last are the
// furthest from the one that is judged, and come first.
func (f *search) settle() bool {
	for changed := true; changed; {
		changed = false
		for i := range slices.Backward(f.nodes) {
			n := &f.nodes[i]
			f.steps += 1 + len(n.way)
			if !n.free && !slices.ContainsFunc(n.way, f.stands) {
				n.free, changed = true, true
			}
		}
		if f.steps > 10*maxWalk {
			return false
		}
	}
	return true
}

func (f *search) stands(o obstacle) bool {
	return !slices.ContainsFunc(o, func(a alternative) bool {
		return !slices.ContainsFunc(a.waits, func(i int) bool { return !f.nodes[i].free })
	})
}

// path returns the shortest way from the request that is judged, through such as are not free, to what its caller
// holds. There is one unless the others wait for each other in a circle already.
func (f *search) path() *Cycle {
	f.nodes[0].met = true
	reached := []int{0}
	for len(reached) > 0 {
		i := reached[0]
		reached = reached[1:]
		for _, o := range f.nodes[i].way {
			if !f.stands(o) {
				continue
			}
			for _, a := range o {
				for _, next := range a.waits {
					switch n := &f.nodes[next]; {
					case next == 0:
						return f.name(i, a.grantAt)
					case !n.free && !n.met:
						n.met, n.from, n.by = true, i, a.grantAt
						reached = append(reached, next)
					}
				}
			}
		}
	}
	return nil
}

// name writes down the cycle that ends with the request last, which waits for what the one that is judged holds.
func (f *search) name(last int, held grantAt) *Cycle {
	var waits []Wait
	for i, waitsFor := last, held.name; ; {
		n := f.nodes[i]
		by := n.by
		if i == 0 {
			by = held
		}
		waits = append(waits, Wait{n.session, f.label(n.session), by.name, by.token, waitsFor})
		if i == 0 {
			break
		}
		i, waitsFor = n.from, by.name
	}
	slices.Reverse(waits)
	return &Cycle{waits[:min(len(waits), MaxCycle)]}
}
