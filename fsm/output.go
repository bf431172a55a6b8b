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
	Revision  Revision   // of the change; of a Lock: its token
	Session   SessionID  // OpenSession: the new session
	Succeeded bool       // Txn: all conditions held
	Ops       []OpResult // Txn: one a performed operation
	Limit     Limit
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
}

// ReleaseReason says why a grant ended.
type ReleaseReason uint8

const (
	Unlocked       ReleaseReason = 1 // by Unlock or Withdraw
	SessionClosed  ReleaseReason = 2
	SessionExpired ReleaseReason = 3
)

// ReleaseEvent tells of the end of a grant.
type ReleaseEvent struct {
	Name    string
	Session SessionID
	Label   string
	Token   Revision
	Reason  ReleaseReason
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
	Touched  []string // names of locks whose holder, queue or data changed; may repeat
	Started  *TermStart
	Checks   []Check
	Members  bool // the members changed
	Held     bool // a Generation began to hold back grants, or an EndHold ended it
}
