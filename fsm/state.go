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
	format  uint16 // newest format of commands in use; 0: the first, 1

	members  *btree.Map[string, Member]
	sessions *btree.Map[SessionID, *session]
	locks    *btree.Map[string, *lock]
	queue    *btree.BTreeG[place]
	results  *btree.BTreeG[outcome]
	keys     *btree.Map[string, *key]
	history  *btree.BTreeG[*EventRecord]
	holders  *btree.BTreeG[holder] // readers, and holders of slots; an exclusive one is in its lock
	losses   *btree.BTreeG[loss]
	marks    *btree.BTreeG[Mark]

	floor        Revision
	historyBytes int

	// Derived from the above; rebuilt when a State is restored.
	users   int                             // live sessions that are not Internal
	ended   *btree.Map[SessionID, struct{}] // sessions being reaped
	nonces  *btree.BTreeG[nonceOf]          // live sessions
	holds   *btree.BTreeG[owned]            // session → names of its locks
	owns    *btree.BTreeG[owned]            // session → its ephemeral keys
	waiting *btree.BTreeG[ticket]           // session, number → its place in a queue

	crowds   *btree.Map[string, crowd]
	vacant   *btree.BTreeG[vacancy] // slots that are free, below the highest one that is not
	stakes   *btree.BTreeG[stake]   // session → what it holds as a reader or in a slot
	leases   *btree.BTreeG[Lease]   // grants that have a TTL of their own
	joint    *btree.BTreeG[place]   // places of requests for several names
	declared *btree.BTreeG[declaration]
	crowded  int // names that are held by readers or in slots, or kept back after a loss
	special  int // names in holds whose grant makes a GrantRecord
	grants   int // grants that make a GrantRecord
	requests int // requests that make a RequestRecord
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

// lock is a name in use: held, waited for, or kept back after a loss.
type lock struct {
	session SessionID // its exclusive holder; 0: none
	token   Revision  // of that one's grant
	claim   *claim    // the same
	waiting uint32    // places in its queue
	crowded bool      // it has a crowd
}

// claim is what a request asks for beyond one name for itself alone, and what its grant then has; nil is nothing of
// all that. Its places and holders share it, and it is never written to.
type claim struct {
	data       []byte
	names      []string // all of them, in the order given; nil: one, which whoever has the claim knows
	shared     bool
	slots      uint32
	ttl, delay int64
	holding    []GrantID // of a request only
}

// holder is a reader, or the holder of a slot, at one of its names.
type holder struct {
	name    string
	token   Revision
	session SessionID
	slot    uint32
	claim   *claim
}

// loss stands where a grant with a delay was lost, and is in the way of whoever the grant was in the way of.
type loss struct {
	name   string
	token  Revision
	delay  int64
	shared bool
	slots  uint32
	slot   uint32
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
	claim   *claim
}

// ticket says where the Lock (session, seq) waits.
type ticket struct {
	session  SessionID
	seq      uint64
	name     string // the first, if it waits for several
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

// stake is a holder as its session knows it.
type stake struct {
	session SessionID
	name    string
	token   Revision
}

type vacancy struct {
	name string
	slot uint32
}

// declaration says that whoever holds the grant token waits, at the place (name, position) meanwhile.
type declaration struct {
	token    Revision
	position Revision
	name     string
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
		holders:  btree.NewBTreeGOptions(holder.before, bare),
		losses:   btree.NewBTreeGOptions(loss.before, bare),
		marks:    btree.NewBTreeGOptions(Mark.before, bare),
		crowds:   new(btree.Map[string, crowd]),
		vacant:   btree.NewBTreeGOptions(vacancy.before, bare),
		stakes:   btree.NewBTreeGOptions(stake.before, bare),
		leases:   btree.NewBTreeGOptions(Lease.before, bare),
		joint:    btree.NewBTreeGOptions(place.before, bare),
		declared: btree.NewBTreeGOptions(declaration.before, bare),
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
	c.holders = s.holders.Copy()
	c.losses = s.losses.Copy()
	c.marks = s.marks.Copy()
	c.crowds = s.crowds.Copy()
	c.vacant = s.vacant.Copy()
	c.stakes = s.stakes.Copy()
	c.leases = s.leases.Copy()
	c.joint = s.joint.Copy()
	c.declared = s.declared.Copy()
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

func (a holder) before(b holder) bool {
	if c := cmp.Compare(a.name, b.name); c != 0 {
		return c < 0
	}
	return a.token < b.token
}

func (a loss) before(b loss) bool {
	if c := cmp.Compare(a.name, b.name); c != 0 {
		return c < 0
	}
	return a.token < b.token
}

func (a Mark) before(b Mark) bool {
	if a.Session != b.Session {
		return a.Session < b.Session
	}
	return a.Token < b.Token
}

func (a vacancy) before(b vacancy) bool {
	if c := cmp.Compare(a.name, b.name); c != 0 {
		return c < 0
	}
	return a.slot < b.slot
}

func (a stake) before(b stake) bool {
	if a.session != b.session {
		return a.session < b.session
	}
	if c := cmp.Compare(a.name, b.name); c != 0 {
		return c < 0
	}
	return a.token < b.token
}

func (a Lease) before(b Lease) bool { return a.Token < b.Token }

func (a declaration) before(b declaration) bool {
	if a.token != b.token {
		return a.token < b.token
	}
	return a.position < b.position
}
