package fsm

// Record is one piece of a snapshot: one of the concrete types of this file, always by value.
//
// A snapshot is a Header, then the records of each type in the order of this file, each type in ascending order
// of its key, then a Trailer. What can be derived from records (indexes, counters) is not in it. Records carry no
// version: whoever writes them as bytes says which version they are.
type Record interface{ record() }

// Header carries everything of which the state has exactly one.
type Header struct {
	Index    uint64   // of the last entry applied
	Revision Revision // the newest
	Floor    Revision // of the history
	Formed   bool     // there has been a Generation; Cell is meaningful
	Cell     Nonce
	Params   Params // with the defaults filled in
	Hold     bool   // grants are held back
	HoldTTL  int64  // nanoseconds
	Term     uint64 // of the entry that carried Start; 0: there was none
	Start    TermStart
	Format   uint16 // newest format of commands in use; 0: the first, 1
}

// MemberRecord is a server. Key: ID.
type MemberRecord struct{ Member Member }

// SessionRecord is a session, or what is left of one that has ended and is being reaped. Key: ID.
type SessionRecord struct {
	ID       SessionID
	Nonce    Nonce
	TTL      int64 // nanoseconds
	Label    string
	Node     string
	Internal bool
	Ended    ReleaseReason // 0: it lives; SessionClosed or SessionExpired
	Acked    []SeqRange    // numbers acknowledged or withdrawn; ascending, apart from each other
}

// SeqRange is the numbers First … Last of a session, both included.
type SeqRange struct{ First, Last uint64 }

// ResultRecord is a result that the caller has not acknowledged yet. Key: Session, Seq.
type ResultRecord struct {
	Session SessionID
	Seq     uint64
	Name    string // of a Lock that was granted: the lock's; otherwise empty
	Result  Result
}

// LockRecord is a grant of one name for its holder alone, without a lease or a delay. Key: Name.
type LockRecord struct {
	Name    string
	Session SessionID
	Token   Revision
	Data    []byte
}

// GrantRecord is any other grant. Key: the first of Names, Token.
type GrantRecord struct {
	Names      []string
	Token      Revision
	Session    SessionID
	Data       []byte
	Shared     bool
	Slots      uint32
	Slot       []uint32 // with Slots: the one of each name
	TTL, Delay int64    // nanoseconds
}

// LossRecord stands where a grant with a delay was lost. Key: Name, Token.
type LossRecord struct {
	Name   string
	Token  Revision
	Delay  int64 // nanoseconds
	Shared bool
	Slots  uint32
	Slot   uint32
}

// MarkRecord is a mark. Key: Session, Token.
type MarkRecord struct{ Mark Mark }

// WaiterRecord is a request that is queued, for one name for itself alone, without a lease or a delay, whose caller
// holds nothing that it says. Key: Name, Position.
type WaiterRecord struct {
	Name     string
	Position Revision // at which it was queued
	Session  SessionID
	Seq      uint64
	Data     []byte
}

// RequestRecord is any other request that is queued. Key: the first of Names, Position.
type RequestRecord struct {
	Names      []string
	Position   Revision // at which it was queued, the same for every name
	Session    SessionID
	Seq        uint64
	Data       []byte
	Shared     bool
	Slots      uint32
	TTL, Delay int64 // nanoseconds
	Holding    []GrantID
}

// KeyRecord is a key. Key: KV.Key.
type KeyRecord struct{ KV KeyValue }

// EventRecord is a change of a key in the history. Key: Event.Revision, N.
type EventRecord struct {
	N     uint32 // 0, 1, 2 … within one revision
	Event Event
}

// Trailer ends a snapshot. One without is incomplete.
type Trailer struct {
	// How many records of each type there were.
	Members, Sessions, Results, Locks, Waiters, Keys, Events uint64
	Grants, Losses, Marks, Requests                          uint64
}

func (Header) record()        {}
func (MemberRecord) record()  {}
func (SessionRecord) record() {}
func (ResultRecord) record()  {}
func (LockRecord) record()    {}
func (GrantRecord) record()   {}
func (LossRecord) record()    {}
func (MarkRecord) record()    {}
func (WaiterRecord) record()  {}
func (RequestRecord) record() {}
func (KeyRecord) record()     {}
func (EventRecord) record()   {}
func (Trailer) record()       {}
