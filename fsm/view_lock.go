package fsm

import (
	"iter"
	"sort"
	"strings"

	"github.com/tidwall/btree"
)

// LockView is a lock as it stands. One that is free has neither holders nor a queue, whether or not it was ever used.
type LockView struct {
	Holders []Holder // one, or readers, or holders of slots; in the order of their tokens
	Queue   []Waiter // in order; without those whose session has ended or is marked
	Slots   int      // how many slots there are; 0: nobody holds one or asks for one
	// Freeing: a holder's session has ended, and what it held has not been handed on yet; or a loss stands there. It is
	// not among the Holders.
	Freeing bool
	Delayed []DelayEvent // the losses
}

// Holder is a session that holds a lock.
type Holder struct {
	Session SessionID
	Label   string
	Token   Revision
	Data    []byte   // shared with the state: not to be written to
	Names   []string // of a grant of several, in the order asked for; otherwise nil. Shared with the state
	Shared  bool
	Slot    int
	TTL     int64 // nanoseconds; the grant's own lease; 0: none
	Revoked bool  // the grant, or its session, is marked
}

// Waiter is a session in the queue of a lock.
type Waiter struct {
	Session SessionID
	Label   string
	Seq     uint64   // of its Lock
	Queued  Revision // at which it was queued
	Names   []string // as in Holder
	Shared  bool
	Slots   int // it asks to be one of so many; 0: it does not
}

// Grant is a grant as it stands.
type Grant struct {
	Name    string // its first
	Names   []string
	Session SessionID
	Token   Revision
	TTL     int64
	Revoked bool // it is marked, or its session
}

// Uses is what a session has.
type Uses struct {
	Locks   int // names, each as often as it is held
	Keys    int
	Waiting int // requests
}

// Lookup returns a lock, in time proportional to its holders and its queue.
func (s *State) Lookup(name string) LockView {
	l, ok := s.locks.Get(name)
	if !ok {
		return LockView{}
	}
	return s.view(name, l)
}

// Locks yields the locks in use whose names begin with prefix and come after the name after, in order.
func (s *State) Locks(prefix, after string) iter.Seq2[string, LockView] {
	return func(yield func(string, LockView) bool) {
		s.locks.Ascend(max(prefix, after), func(name string, l *lock) bool {
			if !strings.HasPrefix(name, prefix) {
				return false
			}
			return name == after && after != "" || yield(name, s.view(name, l))
		})
	}
}

func (s *State) view(name string, l *lock) LockView {
	var v LockView
	if l.session != 0 {
		s.viewHolder(&v, held{name: name, session: l.session, token: l.token, claim: l.claim})
	}
	if l.crowded {
		v.Slots = int(s.slots(name, l))
		s.holders.Ascend(holder{name: name}, func(h holder) bool {
			if h.name == name {
				s.viewHolder(&v, held(h))
			}
			return h.name == name
		})
		s.losses.Ascend(loss{name: name}, func(gone loss) bool {
			if gone.name == name {
				v.Delayed = append(v.Delayed, DelayEvent{name, gone.token, gone.delay})
				v.Freeing = true
			}
			return gone.name == name
		})
	}
	s.queue.Ascend(place{name: name}, func(p place) bool {
		if p.name == name && s.refusal(p.session) == 0 {
			v.Queue = append(v.Queue, s.viewWaiter(p))
		}
		return p.name == name
	})
	return v
}

func (s *State) viewHolder(v *LockView, h held) {
	found, ok := s.live(h.session)
	if !ok {
		v.Freeing = true
		return
	}
	out := Holder{
		Session: h.session, Label: found.label, Token: h.token, Slot: int(h.slot), Revoked: !s.stays(h),
	}
	if c := h.claim; c != nil {
		out.Data, out.Names, out.Shared, out.TTL = c.data, c.names, c.shared, c.ttl
	}
	v.Holders = append(v.Holders, out)
}

func (s *State) viewWaiter(p place) Waiter {
	w := Waiter{Session: p.session, Label: s.label(p.session), Seq: p.seq, Queued: p.position}
	if c := p.claim; c != nil {
		w.Names, w.Shared, w.Slots = c.names, c.shared, int(c.slots)
	}
	return w
}

// Grant returns the grant (name, token), if it is held by a session that has not ended.
func (s *State) Grant(name string, token Revision) (Grant, bool) {
	h, ok := s.find(name, token)
	if _, live := s.live(h.session); !ok || !live {
		return Grant{}, false
	}
	g := Grant{Name: h.first(), Session: h.session, Token: h.token, Revoked: !s.stays(h)}
	if h.claim != nil {
		g.Names, g.TTL = h.claim.names, h.claim.ttl
	}
	return g, true
}

// Leases yields the grants that have a TTL of their own, in the order of their tokens, those of sessions that have ended
// among them: what a leader has to time from the start of its term on.
func (s *State) Leases() iter.Seq[Lease] { return s.leases.Scan }

// Delays yields the losses, by name and token: what a leader has to time anew from the start of its term on.
func (s *State) Delays() iter.Seq[DelayEvent] {
	return func(yield func(DelayEvent) bool) {
		s.losses.Scan(func(l loss) bool { return yield(DelayEvent{l.name, l.token, l.delay}) })
	}
}

// Delayed reports whether a loss stands where the grant was: by the very name that is kept back.
func (s *State) Delayed(g GrantID) bool {
	_, there := s.losses.Get(loss{name: g.Name, token: g.Token})
	return there
}

// Marks yields what is marked, by session and token.
func (s *State) Marks() iter.Seq[Mark] { return s.marks.Scan }

// MarksOf yields what is marked of one session, the whole session first. It costs nothing while nothing is marked.
func (s *State) MarksOf(id SessionID) iter.Seq[Mark] {
	return func(yield func(Mark) bool) {
		if s.marks.Len() > 0 {
			s.marks.Ascend(Mark{Session: id}, func(m Mark) bool { return m.Session == id && yield(m) })
		}
	}
}

// Uses counts what a session has, in time logarithmic in all there is.
func (s *State) Uses(id SessionID) Uses {
	return Uses{
		Locks:   count(s.holds, owned{session: id}, owned{session: id + 1}) + count(s.stakes, stake{session: id}, stake{session: id + 1}),
		Keys:    count(s.owns, owned{session: id}, owned{session: id + 1}),
		Waiting: count(s.waiting, ticket{session: id}, ticket{session: id + 1}),
	}
}

// count returns how many items of a tree are at or after from and before to. Where they are few, as is usual, they are
// counted; otherwise their ends are looked for.
func count[T any](t *btree.BTreeG[T], from, to T) (n int) {
	const few = 32
	t.Ascend(from, func(item T) bool {
		if !t.Less(item, to) {
			return false
		}
		n++
		return n <= few
	})
	if n <= few {
		return n
	}
	rank := func(bound T) int {
		return sort.Search(t.Len(), func(i int) bool {
			item, _ := t.GetAt(i)
			return !t.Less(item, bound)
		})
	}
	return rank(to) - rank(from)
}
