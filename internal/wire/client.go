package wire

import (
	"math"
	"time"

	"github.com/coordcell/coord/fsm"
)

// The messages between a client node and the server that it is attached to, and what a server passes on to the leader
// for its clients. A MethodRelay is a Propose that any server takes: one that does not lead hands it to the leader. Its
// answers are those of a Propose.

// Renew renews sessions of several nodes. Each group is one message of one node, numbered by that node.
type Renew struct {
	Gathered bool // by a server, of the messages of its clients: only the leader may answer
	Groups   []RenewGroup
}

// RenewGroup is the sessions that one message of a node renews. Number rises with each message that the node sends.
type RenewGroup struct {
	Number   uint64
	Sessions []fsm.SessionID
}

// Append appends the message to dst.
func (m Renew) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 2)
	e.Bool(m.Gathered)
	e.Array(len(m.Groups))
	for _, g := range m.Groups {
		e.Array(2)
		e.Uint(g.Number)
		encodeUints(e, g.Sessions)
	}
	return e.Finish()
}

// DecodeRenew reads a Renew.
func DecodeRenew(data []byte) (Renew, error) {
	return decodeMessage(data, func(d *Decoder) Renew {
		const minGroup = 3
		d.Open(2)
		return Renew{d.Bool(), decodeList(d, minGroup, func(d *Decoder) RenewGroup {
			d.tuple(2)
			return RenewGroup{Number: d.Uint(), Sessions: decodeList(d, 1, decodeUint[fsm.SessionID])}
		})}
	})
}

// RenewAnswer answers the groups of a Renew, in their order.
type RenewAnswer struct{ Groups []RenewedGroup }

// RenewedGroup acknowledges the sessions of the group of that Number, except those in Dead, which have ended, and those
// in Again, of which nothing is said yet.
type RenewedGroup struct {
	Number      uint64
	Dead, Again []fsm.SessionID
	Marks       []fsm.Mark // of the sessions acknowledged and of those in Again
}

// Append appends the message to dst.
func (m RenewAnswer) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 1)
	e.Array(len(m.Groups))
	for _, g := range m.Groups {
		e.Array(4)
		e.Uint(g.Number)
		encodeUints(e, g.Dead)
		encodeUints(e, g.Again)
		encodeMarks(e, g.Marks)
	}
	return e.Finish()
}

// DecodeRenewAnswer reads a RenewAnswer.
func DecodeRenewAnswer(data []byte) (RenewAnswer, error) {
	return decodeMessage(data, func(d *Decoder) RenewAnswer {
		const minGroup = 5
		d.Open(1)
		return RenewAnswer{decodeList(d, minGroup, func(d *Decoder) RenewedGroup {
			d.tuple(4)
			return RenewedGroup{
				Number: d.Uint(), Dead: decodeList(d, 1, decodeUint[fsm.SessionID]), Again: decodeList(d, 1, decodeUint[fsm.SessionID]),
				Marks: decodeMarks(d),
			}
		})}
	})
}

// ReadKind says what a Read asks for. Each number is for ever.
type ReadKind uint8

const (
	ReadKey      ReadKind = 1 // one key
	ReadList     ReadKind = 2 // the keys that begin with a prefix
	ReadLock     ReadKind = 3 // who holds a lock and who waits for it
	ReadRevision ReadKind = 4 // how far the state has come, and nothing else
	ReadLocks    ReadKind = 5 // locks in use whose names begin with a prefix, as many as fit into an answer
	ReadSessions ReadKind = 6 // users' sessions, as many as fit into an answer
)

// Read asks a server for a part of the state.
type Read struct {
	Kind  ReadKind
	Name  string // the key, the prefix or the lock
	After string // of a list: only what comes after this key, lock or, in decimals, session
	Limit int    // of a list: at most so many keys; 0: all
	Stale bool   // as the server has it, however old that is
}

// Append appends the message to dst.
func (m Read) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 5)
	e.Uint(uint64(m.Kind))
	e.String(m.Name)
	e.String(m.After)
	e.Uint(uint64(m.Limit))
	e.Bool(m.Stale)
	return e.Finish()
}

// DecodeRead reads a Read.
func DecodeRead(data []byte) (Read, error) {
	return decodeMessage(data, func(d *Decoder) Read {
		d.Open(5)
		return Read{
			Kind: ReadKind(d.Small(math.MaxUint8)), Name: d.String(), After: d.String(), Limit: int(d.Small(math.MaxInt32)), Stale: d.Bool(),
		}
	})
}

// ReadAnswer is what a Read has found, or a part of that.
type ReadAnswer struct {
	Rest     uint64 // what to ask a ReadRest for; 0: this is all, or the last part
	Revision fsm.Revision
	Keys     []fsm.KeyValue // sorted; of ReadKey one at most
	More     bool           // there are others behind the last one
	Lock     fsm.LockView
	Held     []time.Duration // by each holder, as long as the server has seen it
	Waited   []time.Duration // by each waiter, the same
	Locks    []LockAnswer    // sorted
	Sessions []SessionAnswer // sorted
}

// LockAnswer is one of several locks.
type LockAnswer struct {
	Name   string
	Large  bool // too large to be here: ask for it by name
	Lock   fsm.LockView
	Held   []time.Duration
	Waited []time.Duration
}

// SessionAnswer is one of several sessions.
type SessionAnswer struct {
	ID    fsm.SessionID
	Label string
	Node  string // id
	TTL   int64  // nanoseconds
	Uses  fsm.Uses
}

// Append appends the message to dst.
func (m ReadAnswer) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 7)
	e.Uint(m.Rest)
	e.Uint(uint64(m.Revision))
	e.Array(len(m.Keys))
	for _, kv := range m.Keys {
		encodeKeyValue(e, kv)
	}
	e.Bool(m.More)
	encodeLockView(e, m.Lock, m.Held, m.Waited)
	e.Array(len(m.Locks))
	for _, l := range m.Locks {
		e.Array(3)
		e.String(l.Name)
		e.Bool(l.Large)
		encodeLockView(e, l.Lock, l.Held, l.Waited)
	}
	e.Array(len(m.Sessions))
	for _, x := range m.Sessions {
		e.Array(7)
		e.Uint(uint64(x.ID))
		e.String(x.Label)
		e.String(x.Node)
		e.Int(x.TTL)
		e.Uint(uint64(x.Uses.Locks))
		e.Uint(uint64(x.Uses.Keys))
		e.Uint(uint64(x.Uses.Waiting))
	}
	return e.Finish()
}

// DecodeReadAnswer reads a ReadAnswer.
func DecodeReadAnswer(data []byte) (ReadAnswer, error) {
	return decodeMessage(data, func(d *Decoder) (m ReadAnswer) {
		const minKeyValue, minLock, minSession = 7, 10, 8
		d.Open(7)
		m.Rest, m.Revision = d.Uint(), fsm.Revision(d.Uint())
		m.Keys = decodeList(d, minKeyValue, decodeKeyValue)
		m.More = d.Bool()
		m.Lock, m.Held, m.Waited = decodeLockView(d)
		m.Locks = decodeList(d, minLock, func(d *Decoder) (l LockAnswer) {
			d.tuple(3)
			l.Name, l.Large = d.String(), d.Bool()
			l.Lock, l.Held, l.Waited = decodeLockView(d)
			return l
		})
		m.Sessions = decodeList(d, minSession, func(d *Decoder) (x SessionAnswer) {
			d.tuple(7)
			x.ID, x.Label, x.Node, x.TTL = fsm.SessionID(d.Uint()), d.String(), d.String(), d.Int()
			count := func() int { return int(d.Small(math.MaxInt32)) }
			x.Uses = fsm.Uses{Locks: count(), Keys: count(), Waiting: count()}
			return x
		})
		return m
	})
}

// encodeLockView encodes a lock, and for how long each holder has held it and each waiter has waited.
func encodeLockView(e *Encoder, v fsm.LockView, held, waited []time.Duration) {
	e.Array(5)
	e.Bool(v.Freeing)
	e.Uint(uint64(v.Slots))
	e.Array(len(v.Holders))
	for i, h := range v.Holders {
		e.Array(10)
		e.Uint(uint64(h.Session))
		e.String(h.Label)
		e.Uint(uint64(h.Token))
		e.Bytes(h.Data)
		encodeNames(e, h.Names)
		e.Bool(h.Shared)
		e.Uint(uint64(h.Slot))
		e.Int(h.TTL)
		e.Bool(h.Revoked)
		e.Int(int64(held[i]))
	}
	e.Array(len(v.Queue))
	for i, w := range v.Queue {
		e.Array(8)
		e.Uint(uint64(w.Session))
		e.String(w.Label)
		e.Uint(w.Seq)
		e.Uint(uint64(w.Queued))
		encodeNames(e, w.Names)
		e.Bool(w.Shared)
		e.Uint(uint64(w.Slots))
		e.Int(int64(waited[i]))
	}
	e.Array(len(v.Delayed))
	for _, l := range v.Delayed {
		e.Array(3)
		e.String(l.Name)
		e.Uint(uint64(l.Token))
		e.Int(l.Delay)
	}
}

func decodeLockView(d *Decoder) (v fsm.LockView, held, waited []time.Duration) {
	const minHolder, minWaiter, minDelay = 11, 9, 4
	small := func() int { return int(d.Small(math.MaxInt32)) }
	d.tuple(5)
	v.Freeing, v.Slots = d.Bool(), small()
	v.Holders = decodeList(d, minHolder, func(d *Decoder) (h fsm.Holder) {
		d.tuple(10)
		h.Session, h.Label, h.Token, h.Data = fsm.SessionID(d.Uint()), d.String(), fsm.Revision(d.Uint()), d.Bytes()
		h.Names, h.Shared, h.Slot, h.TTL, h.Revoked = decodeNames(d), d.Bool(), small(), d.Int(), d.Bool()
		held = append(held, time.Duration(d.Int()))
		return h
	})
	v.Queue = decodeList(d, minWaiter, func(d *Decoder) (w fsm.Waiter) {
		d.tuple(8)
		w.Session, w.Label, w.Seq, w.Queued = fsm.SessionID(d.Uint()), d.String(), d.Uint(), fsm.Revision(d.Uint())
		w.Names, w.Shared, w.Slots = decodeNames(d), d.Bool(), small()
		waited = append(waited, time.Duration(d.Int()))
		return w
	})
	v.Delayed = decodeList(d, minDelay, func(d *Decoder) fsm.DelayEvent {
		d.tuple(3)
		return fsm.DelayEvent{Name: d.String(), Token: fsm.Revision(d.Uint()), Delay: d.Int()}
	})
	return v, held, waited
}

func encodeNames(e *Encoder, names []string) {
	e.Array(len(names))
	for _, name := range names {
		e.String(name)
	}
}

func decodeNames(d *Decoder) []string {
	return decodeList(d, 1, func(d *Decoder) string { return d.String() })
}

// ReadRest asks for the next part of what a Read has found.
type ReadRest struct{ Rest uint64 }

// Append appends the message to dst.
func (m ReadRest) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 1)
	e.Uint(m.Rest)
	return e.Finish()
}

// DecodeReadRest reads a ReadRest.
func DecodeReadRest(data []byte) (ReadRest, error) {
	return decodeMessage(data, func(d *Decoder) ReadRest {
		d.Open(1)
		return ReadRest{Rest: d.Uint()}
	})
}

// About asks a server what it knows of its cell: at once, or if Known is the Version of its last answer when that is
// no longer so.
type About struct{ Known uint64 }

// Append appends the message to dst.
func (m About) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 1)
	e.Uint(m.Known)
	return e.Finish()
}

// DecodeAbout reads an About.
func DecodeAbout(data []byte) (About, error) {
	return decodeMessage(data, func(d *Decoder) About {
		d.Open(1)
		return About{Known: d.Uint()}
	})
}

// AboutAnswer is what a server knows of its cell. Version is another one when Leader, Term or Servers are.
type AboutAnswer struct {
	Version            uint64
	Leader             string // its id; "": nobody is known to lead
	Term               uint64
	Applied, Committed uint64
	Revision           fsm.Revision
	Counts             fsm.Counts
	Params             fsm.Params
	Evidence           time.Duration // age of the server's last proof of a leader
	Servers            []AboutServer
}

// AboutServer is a server as another one sees it.
type AboutServer struct {
	ID, Name, Addr, Zone string
	Voter, Alive         bool
}

// Append appends the message to dst.
func (m AboutAnswer) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 10)
	e.Uint(m.Version)
	e.String(m.Leader)
	e.Uint(m.Term)
	e.Uint(m.Applied)
	e.Uint(m.Committed)
	e.Uint(uint64(m.Revision))
	encodeUints(e, []uint64{uint64(m.Counts.Sessions), uint64(m.Counts.Locks), uint64(m.Counts.Keys), uint64(m.Counts.Waiting)})
	encodeUints(e, []uint64{uint64(m.Params.Sessions), uint64(m.Params.Locks), uint64(m.Params.Keys), uint64(m.Params.Waiters)})
	e.Int(int64(m.Evidence))
	e.Array(len(m.Servers))
	for _, s := range m.Servers {
		e.Array(6)
		e.String(s.ID)
		e.String(s.Name)
		e.String(s.Addr)
		e.String(s.Zone)
		e.Bool(s.Voter)
		e.Bool(s.Alive)
	}
	return e.Finish()
}

// DecodeAboutAnswer reads an AboutAnswer. Of Params only the counts that calls can meet travel.
func DecodeAboutAnswer(data []byte) (AboutAnswer, error) {
	return decodeMessage(data, func(d *Decoder) (m AboutAnswer) {
		const minServer = 7
		count := func() int { return int(d.Small(math.MaxInt32)) }
		d.Open(10)
		m.Version, m.Leader, m.Term, m.Applied, m.Committed = d.Uint(), d.String(), d.Uint(), d.Uint(), d.Uint()
		m.Revision = fsm.Revision(d.Uint())
		d.tuple(4)
		m.Counts = fsm.Counts{Sessions: count(), Locks: count(), Keys: count(), Waiting: count()}
		d.tuple(4)
		m.Params = fsm.Params{Sessions: count(), Locks: count(), Keys: count(), Waiters: count()}
		m.Evidence = time.Duration(d.Int())
		m.Servers = decodeList(d, minServer, func(d *Decoder) AboutServer {
			d.tuple(6)
			return AboutServer{
				ID: d.String(), Name: d.String(), Addr: d.String(), Zone: d.String(), Voter: d.Bool(), Alive: d.Bool(),
			}
		})
		return m
	})
}
