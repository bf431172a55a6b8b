package fsm

// SessionID names a session for ever: no two sessions of a cell get the same one.
type SessionID uint64

// Revision counts the changes of a cell's state. A fencing token is the Revision at which its grant was made.
type Revision uint64

// Nonce is 128 random bits, made by whoever proposes a command.
type Nonce [16]byte

// MaxAcks is the most acknowledged numbers that one Change may carry.
const MaxAcks = 64

// MaxOutstanding is the most changes of one session whose results nobody has acknowledged yet.
const MaxOutstanding = 4096

// MaxTxnResult is the most bytes of keys and values that the operations of one Txn may return. A result is kept in the
// state until it is acknowledged, and travels in one message.
const MaxTxnResult = 2 << 20

// MaxNames is the most names that one Lock may ask for.
const MaxNames = 64

// MaxHolding is the most grants that one Lock may say its caller holds.
const MaxHolding = 64

// MaxSlots is the most holders that a lock may have at a time by its Slots.
const MaxSlots = 1 << 16

// Command is one step of the state machine: one of the concrete types of this file, always by value.
// The log carries commands in batches; see State.Apply.
type Command interface{ command() }

// Change says whose change a command is, and which of them. A change that is proposed twice under the
// same (Session, Seq) takes effect once, and both proposals get the same result.
type Change struct {
	Session SessionID
	Seq     uint64   // 1, 2, 3 … in the order in which the session made them
	Acks    []uint64 // numbers of this session whose results the caller has; at most MaxAcks
}

// OpenSession makes a session. It is recognised by its Nonce when it is proposed again.
type OpenSession struct {
	Nonce Nonce
	TTL   int64 // nanoseconds
	Label string
	Node  string // id of the node it lives on
	// Internal marks the session that a node opens for its own calls: it is not counted against the limit.
	Internal bool
}

// CloseSession ends a session at its own wish. What it held is handed on as by Expire.
type CloseSession struct{ Change }

// Lock asks for the lock Name, for itself alone unless Terms say otherwise: granted at once if nothing is in its way
// and nobody waits, queued if not. With Try it is never queued; its result is Locked then.
type Lock struct {
	Change
	Name  string
	Data  []byte
	Try   bool
	Terms *Terms // nil: the zero value
}

// Terms are what a Lock asks for beyond one name for itself alone. They are not written to once proposed.
type Terms struct {
	More    []string  // names beside Name, which are granted with it or not at all; at most MaxNames-1, all distinct
	Shared  bool      // among readers
	Slots   int       // 1 … MaxSlots: as one of so many; 0: not. Not together with Shared
	TTL     int64     // nanoseconds; the grant's own lease, at most the session's TTL; 0: none
	Delay   int64     // nanoseconds for which nobody gets what is lost; 0: none
	Holding []GrantID // what the caller holds meanwhile, as far as it says; at most MaxHolding
}

// GrantID names a grant: its token, and any of its names.
type GrantID struct {
	Name  string
	Token Revision
}

// Unlock frees the grant (Name, Token) of the session with all its names, and no other.
type Unlock struct {
	Change
	Name  string
	Token Revision
}

// Withdraw takes back the session's Lock numbered Target: a queued one leaves the queue, a granted one is
// unlocked (unless OnlyQueued), one that has not been seen yet will be refused when it comes. Target counts as
// acknowledged from then on, except where OnlyQueued found it granted.
type Withdraw struct {
	Change
	Target     uint64
	OnlyQueued bool
}

// SetData replaces the data of the grant (Name, Token) of the session.
type SetData struct {
	Change
	Name  string
	Token Revision
	Data  []byte
}

// HandOver gives the exclusive grant (Name, Token) of the session to the session To, which has to wait for that
// name, and that name alone, in the queue: its place moves to the front. If it does not, nothing is changed.
type HandOver struct {
	Change
	Name  string
	Token Revision
	To    SessionID
}

// Revoke marks the grant (Name, Token), whosever it is, to be taken from its holder: FinishRevoke does that. With
// Force it is taken, and handed on, at once.
type Revoke struct {
	Change
	Name  string
	Token Revision
	Force bool
}

// RevokeSession marks the session Target, which is granted nothing more, to be ended by a FinishRevoke. With Force it
// ends at once.
type RevokeSession struct {
	Change
	Target SessionID
	Force  bool
}

// Precondition says what must hold of a key for a write to be made. The zero value demands nothing.
type Precondition struct {
	Absent bool     // the key must not exist
	At     Revision // the key's last change must be At; 0: not asked
}

// Put writes a key. With Ephemeral the key belongs to the session and goes with it; without, it belongs to
// nobody, whoever owned it before.
type Put struct {
	Change
	Key       string
	Value     []byte
	Ephemeral bool
	If        Precondition
}

// Delete removes a key.
type Delete struct {
	Change
	Key string
	If  Precondition
}

// Txn performs Then if every condition holds and Else otherwise, as one change with one revision.
type Txn struct {
	Change
	If         []Condition
	Then, Else []Op
	Ephemeral  bool // what it puts belongs to the session
}

// ConditionKind says what a Condition looks at.
type ConditionKind uint8

const (
	KeyAt     ConditionKind = 1 // the key's last change is Revision
	KeyAbsent ConditionKind = 2 // there is no such key
	ValueIs   ConditionKind = 3 // the key exists and has Value
	HeldBy    ConditionKind = 4 // the lock Key is held under the token Revision, by a session that has not ended
)

// Condition is one of the conditions of a Txn.
type Condition struct {
	Kind     ConditionKind
	Key      string
	Revision Revision
	Value    []byte
}

// OpKind says what an Op does.
type OpKind uint8

const (
	OpGet    OpKind = 1
	OpPut    OpKind = 2
	OpDelete OpKind = 3
)

// Op is one of the operations of a Txn. Operations are performed in order and see those before them.
type Op struct {
	Kind  OpKind
	Key   string
	Value []byte
}

// TermStart is what a new leader proposes first. Once the leader's own machine has applied it, the leader serves.
type TermStart struct {
	Nonce Nonce
	// Format is the newest format of commands that the leader can read.
	Format uint16
}

// Generation begins a new life of the state: it raises the revision above everything handed out before (to
// max(revision + 2^32, Seconds << 23)), ends every session, and, where there were any, holds back all grants
// until EndHold. One with First is ignored if the cell has had a Generation already.
type Generation struct {
	First   bool
	Cell    Nonce  // the id of the cell
	Seconds uint64 // since 2024-01-01T00:00:00Z, read once by whoever proposes it
	Params  Params // fixed from now on
}

// EndHold lets grants be made again after a Generation. Like Expire it is ignored unless it is applied in Term.
type EndHold struct{ Term uint64 }

// Expire ends sessions. It is ignored unless the log entry's term is Term, the term the leader decided it in:
// a leader that was stuck must not expire anybody when it wakes up.
type Expire struct {
	Term     uint64
	Sessions []SessionID
}

// ExpireGrants ends grants whose own lease has run out. Those without a TTL are left alone. Like Expire it is ignored
// unless it is applied in Term.
type ExpireGrants struct {
	Term   uint64
	Grants []GrantID
}

// EndDelay ends the time in which nobody gets what was lost. Like Expire it is ignored unless it is applied in Term.
type EndDelay struct {
	Term   uint64
	Losses []GrantID // each by the very name that is kept back
}

// FinishRevoke takes grants from their holders and ends sessions, as far as they are marked. Like Expire it is ignored
// unless it is applied in Term.
type FinishRevoke struct {
	Term     uint64
	Grants   []GrantID
	Sessions []SessionID
}

// SetFormat raises the newest format of commands that may be proposed in this cell from now on. Whoever proposes it
// knows that every server of the cell reads that format.
type SetFormat struct{ Format uint16 }

// Reap hands on what ended sessions held: at most Params.ReapStep things, lowest session first.
type Reap struct{}

// Check carries the hash that the leader's state had after entry Index.
type Check struct {
	Index uint64
	Hash  uint64
}

// SetMember records what a server is called and where it listens.
type SetMember struct{ Member }

// RemoveMember forgets a server.
type RemoveMember struct{ ID string }

// Member is what the state knows of a server.
type Member struct{ ID, Name, Addr string }

// Params are the numbers that Apply needs. They are part of the state: a replica never reads a configuration.
// What is not positive in a Generation becomes the default.
type Params struct {
	HistoryEvents int // kept for watches; default 500,000
	HistoryBytes  int // the same in bytes; default 64 MiB
	Sessions      int // users' sessions that may be open at once; default 1,000,000
	Locks         int // names that may be held at once, or queued for while grants are held back; default 4,000,000
	Keys          int // default 4,000,000
	Waiters       int // on one name; default 100,000
	ReapStep      int // things of ended sessions handed on in one command; default 1,000
}

func (OpenSession) command()   {}
func (CloseSession) command()  {}
func (Lock) command()          {}
func (Unlock) command()        {}
func (Withdraw) command()      {}
func (SetData) command()       {}
func (HandOver) command()      {}
func (Revoke) command()        {}
func (RevokeSession) command() {}
func (Put) command()           {}
func (Delete) command()        {}
func (Txn) command()           {}
func (TermStart) command()     {}
func (Generation) command()    {}
func (EndHold) command()       {}
func (Expire) command()        {}
func (ExpireGrants) command()  {}
func (EndDelay) command()      {}
func (FinishRevoke) command()  {}
func (SetFormat) command()     {}
func (Reap) command()          {}
func (Check) command()         {}
func (SetMember) command()     {}
func (RemoveMember) command()  {}
