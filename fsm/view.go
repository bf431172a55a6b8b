package fsm

import (
	"iter"
	"strings"

	"github.com/tidwall/btree"
)

// Counts are the sizes of what the state holds.
type Counts struct {
	Sessions int // users' sessions that are open
	Locks    int // names that are held, or were held by a session that is being reaped, or are kept back after a loss
	Keys     int
	Waiting  int // requests in queues, those of sessions being reaped among them
}

// SessionView is a session that has not ended.
type SessionView struct {
	ID       SessionID
	TTL      int64 // nanoseconds
	Label    string
	Node     string
	Internal bool
}

// Revision returns the newest revision.
func (s *State) Revision() Revision { return s.revision }

// Index returns the index of the last entry applied.
func (s *State) Index() uint64 { return s.index }

// Params returns the numbers in force, defaults filled in.
func (s *State) Params() Params { return s.params }

// Cell returns the id of the cell, and whether there has been a Generation.
func (s *State) Cell() (id Nonce, formed bool) { return s.cell, s.formed }

// Start returns the newest TermStart and the term of its entry; term 0: there was none.
func (s *State) Start() (start TermStart, term uint64) { return s.start, s.term }

// Hold returns whether grants are held back, and for how long they must be: the longest TTL, in nanoseconds, of the
// sessions that the Generation ended.
func (s *State) Hold() (ttl int64, on bool) { return s.holdTTL, s.hold }

// Format returns the newest format of commands that may be proposed in this cell; see SetFormat.
func (s *State) Format() uint16 { return max(s.format, 1) }

// Reaping reports whether there is something for Reap to do: sessions that have ended still have something, or marked
// ones wait for something.
func (s *State) Reaping() bool {
	_, marked := s.turnedAway()
	return marked || s.ended.Len() > 0
}

// Floor returns the beginning of the history: every change of a key with a revision of at least Floor is in it.
func (s *State) Floor() Revision { return s.floor }

// Counts returns the sizes of what the state holds, in O(1).
func (s *State) Counts() Counts {
	return Counts{Sessions: s.users, Locks: s.holds.Len() + s.crowded, Keys: s.keys.Len(), Waiting: s.waiting.Len()}
}

// Get returns a key.
func (s *State) Get(name string) (KeyValue, bool) {
	k, ok := s.keys.Get(name)
	if !ok {
		return KeyValue{}, false
	}
	return k.view(name), true
}

// List returns, in order, the keys that begin with prefix and come after the key after: at most limit of them, all if
// limit is not positive. more says that there are others.
func (s *State) List(prefix, after string, limit int) (kvs []KeyValue, more bool) {
	s.keys.Ascend(max(prefix, after), func(name string, k *key) bool {
		switch {
		case !strings.HasPrefix(name, prefix):
			// Names after the prefix's range follow; names before it do not occur.
			return false
		case name == after && after != "":
			return true
		case limit > 0 && len(kvs) == limit:
			more = true
			return false
		}
		kvs = append(kvs, k.view(name))
		return true
	})
	return kvs, more
}

// Session returns a session that has not ended.
func (s *State) Session(id SessionID) (SessionView, bool) {
	found, ok := s.live(id)
	if !ok {
		return SessionView{}, false
	}
	return found.view(id), true
}

// Sessions yields the sessions that have not ended, in ascending order.
func (s *State) Sessions() iter.Seq[SessionView] {
	return func(yield func(SessionView) bool) {
		s.sessions.Scan(func(id SessionID, found *session) bool {
			return found.end != 0 || yield(found.view(id))
		})
	}
}

// SessionsAfter yields the sessions that have not ended and whose ids are above after, in ascending order.
func (s *State) SessionsAfter(after SessionID) iter.Seq[SessionView] {
	return func(yield func(SessionView) bool) {
		s.sessions.Ascend(after+1, func(id SessionID, found *session) bool {
			return found.end != 0 || yield(found.view(id))
		})
	}
}

// Members returns the servers, ordered by id.
func (s *State) Members() []Member { return s.members.Values() }

// Events yields the history from a revision on, in order. What is below Floor is not there any more.
func (s *State) Events(from Revision) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		pivot := &EventRecord{Event: Event{Revision: from}}
		s.history.Ascend(pivot, func(r *EventRecord) bool { return yield(r.Event) })
	}
}

func (s *session) view(id SessionID) SessionView {
	return SessionView{ID: id, TTL: s.ttl, Label: s.label, Node: s.node, Internal: s.internal}
}

func firstOwned(t *btree.BTreeG[owned], id SessionID) (name string, ok bool) {
	t.Ascend(owned{session: id}, func(o owned) bool {
		name, ok = o.name, o.session == id
		return false
	})
	return name, ok
}

func (s *State) firstTicket(id SessionID) (t ticket, ok bool) {
	s.waiting.Ascend(ticket{session: id}, func(found ticket) bool {
		t, ok = found, found.session == id
		return false
	})
	return t, ok
}

func (s *State) firstOutcome(id SessionID) (o outcome, ok bool) {
	s.results.Ascend(outcome{session: id}, func(found outcome) bool {
		o, ok = found, found.session == id
		return false
	})
	return o, ok
}
