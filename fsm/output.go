package fsm

// Code says how a change ended.
type Code uint8

const (
	OK             Code = 1
	Locked         Code = 2 // Lock with Try: somebody holds it or waits for it; Withdraw with OnlyQueued: it was queued and is no longer
	NotHeld        Code = 3 // the grant named is not held (any more)
	Granted        Code = 4 // Withdraw with OnlyQueued: the lock has been granted and stays so
	Conflict       Code = 5 // a Precondition did not hold
	KeyNotFound    Code = 6
	UnknownSession Code = 7  // no such session, or one that has ended
	Refused        Code = 8  // the number was acknowledged or withdrawn before
	LimitReached   Code = 9  // Result.Limit says which
	Withdrawn      Code = 10 // Lock: taken back by a Withdraw
	Malformed      Code = 11 // a command that no honest node proposes
	TooLarge       Code = 12 // Txn: its operations would return more than MaxTxnResult; none was performed
	SlotsMismatch  Code = 13 // Lock: the lock has another number of slots, Result.Slots
	Upgrade        Code = 14 // Lock: the caller says that it holds the name already, in another way
	Deadlock       Code = 15 // Lock: if it waited, it would wait for itself; Result.Cycle says how
	NotQueued      Code = 16 // HandOver: the session does not wait for that name alone, exclusively
	Revoked        Code = 17 // the session, or the grant, is marked by a Revoke: it gets nothing more
	NoSuchSession  Code = 18 // RevokeSession: there is no such Target
)

// Limit names a bound of Params, or MaxOutstanding.
type Limit uint8

const (
	LimitSessions    Limit = 1
	LimitLocks       Limit = 2
	LimitKeys        Limit = 3
	LimitWaiters     Limit = 4
	LimitOutstanding Limit = 5
)

// Result is the outcome of one change. It is kept in the state until the caller acknowledges it.
type Result struct {
	Code      Code
	Succeeded bool // Txn: all conditions held
	Limit     Limit
	Slots     uint32     // SlotsMismatch: how many the lock has
	Slot      uint32     // Lock with Slots: the one granted, 0 … Slots-1; of several names: that of the first
	Revision  Revision   // of the change; of a Lock: its token
	Session   SessionID  // OpenSession: the new session
	Ops       []OpResult // Txn: one a performed operation
	Cycle     *Cycle     // Deadlock
}

// MaxCycle is the most members of a cycle that a result names.
const MaxCycle = 256

// Cycle is how a Lock would wait for itself: its caller first, each waits for the next, and the last for the first.
type Cycle struct{ Waits []Wait }

// Wait is one member of a Cycle.
type Wait struct {
	Session  SessionID // of the request that waits
	Label    string
	Holds    string   // what the member before waits for
	Token    Revision // of the grant of Holds; 0: it is no grant, the request stands before it in the queue of Holds
	WaitsFor string
}

// OpResult is the outcome of one operation of a Txn: what an OpGet found, what an OpPut wrote, what an OpDelete removed.
type OpResult struct {
	Found bool
	KV    KeyValue
}

// KeyValue is a key as it stands.
type KeyValue struct {
	Key              string
	Value            []byte // shared with the state: not to be written to
	Created, Changed Revision
	Session          SessionID // its owner; 0: nobody
}

// Reply is the answer to one proposed change, for whoever waits for it. A change of a session is known by
// (Session, Seq), an OpenSession by its Nonce. A Lock that was queued gets its Reply with the entry that grants it.
type Reply struct {
	Session SessionID
	Seq     uint64
	Nonce   Nonce
	Result  Result
}

// EventType says what happened to a key.
type EventType uint8

const (
	EventPut    EventType = 1
	EventDelete EventType = 2
	EventExpire EventType = 3 // its session ended
)

// Event is one change of one key, as kept in the history. All events of one Txn have one Revision.
type Event struct {
	Type            EventType
	Key             string
	Value, Previous []byte // shared with the state: not to be written to
	Revision        Revision
	Session         SessionID // the owner after a put, before a delete or expiry; 0: nobody
}

// GrantEvent tells of a grant.
type GrantEvent struct {
	Name    string
	Session SessionID
	Label   string
	Token   Revision
	Queued  Revision // revision at which it was queued; 0: granted at once
	Names   []string // of a Lock that asked for several, in its order; Name is the first. Otherwise nil
	Shared  bool
	Slots   int // 0: not by slots
	Slot    int
	TTL     int64 // nanoseconds; the grant's own lease; 0: none
}

// ReleaseReason says why a grant ended.
type ReleaseReason uint8

const (
	Unlocked       ReleaseReason = 1 // by Unlock or Withdraw
	SessionClosed  ReleaseReason = 2
	SessionExpired ReleaseReason = 3
	LockExpired    ReleaseReason = 4 // its own lease ran out
	GrantRevoked   ReleaseReason = 5 // by FinishRevoke, by Force, or however else a marked grant ends
	HandedOver     ReleaseReason = 6
)

// loss reports whether the holder was told, at best: it did not say itself that it had stopped.
func (r ReleaseReason) loss() bool {
	return r == SessionExpired || r == LockExpired || r == GrantRevoked
}

// ReleaseEvent tells of the end of a grant.
type ReleaseEvent struct {
	Name    string
	Session SessionID
	Label   string
	Token   Revision
	Reason  ReleaseReason
	Names   []string // as in GrantEvent
}

// DelayEvent tells that nobody gets a name, or a slot of it, until an EndDelay, because it was lost.
type DelayEvent struct {
	Name  string
	Token Revision // of the grant that was lost
	Delay int64    // nanoseconds
}

// Mark says that a grant is to be taken from its holder, or a session to be ended.
type Mark struct {
	Session SessionID
	Token   Revision // of the grant; 0: the whole session
	Name    string   // of the grant, its first
}

// SessionEvent tells of a session that was opened or has ended.
type SessionEvent struct {
	Session  SessionID
	TTL      int64
	Label    string
	Node     string
	Internal bool
	Closed   bool // ended at its own wish, not by expiry; meaningless for one that was opened
}

// Output is what one log entry did, in order. It shares memory with the state and is not to be written to.
type Output struct {
	Replies  []Reply
	Events   []Event
	Grants   []GrantEvent
	Releases []ReleaseEvent
	Opened   []SessionEvent
	Ended    []SessionEvent
	Delayed  []DelayEvent
	Marked   []Mark
	Touched  []string // names of locks whose holder, queue or data changed; may repeat
	Started  *TermStart
	Checks   []Check
	Members  bool // the members changed
	Format   bool // the format was raised
	Held     bool // a Generation began to hold back grants, or an EndHold ended it
}
