package fsm

import (
	"cmp"

	"github.com/tidwall/btree"
)

// State is everything the cell agrees on: the result of applying the log so far, and nothing else.
//
// Whoever applies entries owns the State: Apply and Clone are called by one goroutine at a time, and nothing
// else is called meanwhile. A clone is a State of its own. The two share nodes of their trees until either
// writes to one, and reading writes nothing, so that a clone may be read while the original goes on.
//
// What is reachable from a tree is never written to again, only replaced: it may belong to a clone as well.
type State struct {
	index    uint64
	revision Revision
	params   Params

	formed  bool
	cell    Nonce
	hold    bool  // grants are held back
	holdTTL int64 // TTL, nanoseconds
	term    uint64
	start   TermStart

	members  *btree.Map[string, Member]
	sessions *btree.Map[SessionID, *session]
	locks    *btree.Map[string, *lock]
	queue    *btree.BTreeG[place]
	results  *btree.BTreeG[outcome]
	keys     *btree.Map[string, *key]
	history  *btree.BTreeG[*EventRecord]

	floor        Revision
	historyBytes int

	// Derived from the above; rebuilt when a State is restored.
	users   int                             // live sessions that are not Internal
	ended   *btree.Map[SessionID, struct{}] // sessions being reaped
	nonces  *btree.BTreeG[nonceOf]          // live sessions
	holds   *btree.BTreeG[owned]            // session → names of its locks
	owns    *btree.BTreeG[owned]            // session → its ephemeral keys
	waiting *btree.BTreeG[ticket]           // session, number → its place in a queue
}

// session is kept from OpenSession until the last thing of it has been reaped.
type session struct {
	nonce       Nonce
	ttl         int64
	label, node string
	internal    bool
	end         ReleaseReason // 0: it lives
	outstanding int           // numbers that are queued or have a kept result
	acked       seqs
}

// lock is a name that is held, or that has a queue while grants are held back.
type lock struct {
	session SessionID // 0: nobody
	token   Revision
	data    []byte
	waiting int // places in its queue
}

// place is one place in the queue of a lock.
type place struct {
	name     string
	position Revision
	*waiter
}

type waiter struct {
	session SessionID
	seq     uint64
	data    []byte
}

// ticket says where the Lock (session, seq) waits.
type ticket struct {
	session  SessionID
	seq      uint64
	name     string
	position Revision
}

// outcome is a kept result.
type outcome struct {
	session SessionID
	seq     uint64
	*kept
}

type kept struct {
	name string // of a granted Lock
	Result
}

type key struct {
	value            []byte
	created, changed Revision
	session          SessionID
}

type nonceOf struct {
	nonce   Nonce
	session SessionID
}

// owned is something that goes with a session: the name of a lock, or a key.
type owned struct {
	session SessionID
	name    string
}

// New returns the state of an empty cell, before its first Generation. Its Params are the defaults.
func New() *State {
	bare := btree.Options{NoLocks: true}
	return &State{
		params:   Params{}.withDefaults(),
		members:  new(btree.Map[string, Member]),
		sessions: new(btree.Map[SessionID, *session]),
		locks:    new(btree.Map[string, *lock]),
		queue:    btree.NewBTreeGOptions(place.before, bare),
		results:  btree.NewBTreeGOptions(outcome.before, bare),
		keys:     new(btree.Map[string, *key]),
		history:  btree.NewBTreeGOptions(eventBefore, bare),
		ended:    new(btree.Map[SessionID, struct{}]),
		nonces:   btree.NewBTreeGOptions(nonceOf.before, bare),
		holds:    btree.NewBTreeGOptions(owned.before, bare),
		owns:     btree.NewBTreeGOptions(owned.before, bare),
		waiting:  btree.NewBTreeGOptions(ticket.before, bare),
	}
}

// Clone returns a copy of the state in O(1). The copy may be read by any number of goroutines while Apply goes on
// with the original; the copying itself must not run beside Apply or another Clone.
func (s *State) Clone() *State {
	c := *s
	c.members = s.members.Copy()
	c.sessions = s.sessions.Copy()
	c.locks = s.locks.Copy()
	c.queue = s.queue.Copy()
	c.results = s.results.Copy()
	c.keys = s.keys.Copy()
	c.history = s.history.Copy()
	c.ended = s.ended.Copy()
	c.nonces = s.nonces.Copy()
	c.holds = s.holds.Copy()
	c.owns = s.owns.Copy()
	c.waiting = s.waiting.Copy()
	return &c
}

// withDefaults fills in what is not set.
func (p Params) withDefaults() Params {
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&p.HistoryEvents, 500_000)
	set(&p.HistoryBytes, 64<<20)
	set(&p.Sessions, 1_000_000)
	set(&p.Locks, 4_000_000)
	set(&p.Keys, 4_000_000)
	set(&p.Waiters, 100_000)
	set(&p.ReapStep, 1_000)
	return p
}

func (a place) before(b place) bool {
	if c := cmp.Compare(a.name, b.name); c != 0 {
		return c < 0
	}
	return a.position < b.position
}

func (a outcome) before(b outcome) bool {
	if a.session != b.session {
		return a.session < b.session
	}
	return a.seq < b.seq
}

func (a ticket) before(b ticket) bool {
	if a.session != b.session {
		return a.session < b.session
	}
	return a.seq < b.seq
}

func (a nonceOf) before(b nonceOf) bool {
	return string(a.nonce[:]) < string(b.nonce[:])
}

func (a owned) before(b owned) bool {
	if a.session != b.session {
		return a.session < b.session
	}
	return a.name < b.name
}
