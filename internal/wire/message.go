package wire

import "github.com/coordcell/coord/fsm"

// Method says what a request between servers asks for. Each number is for ever; requests of an unknown one are refused.
type Method uint16

// Methods whose payloads are not in this file are encoded by the package that serves them.
const (
	MethodPropose   Method = 1
	MethodReadIndex Method = 2
	MethodKeepAlive Method = 3
	MethodHashAt    Method = 4
	MethodTransfer  Method = 5
	MethodQuery     Method = 6 // forming a cell: asks a server for its state
	MethodAdopt     Method = 7 // forming a cell: offers an id and a set of servers
	MethodForm      Method = 8 // forming a cell: all have agreed, begin
	MethodJoin      Method = 9
	MethodTestify   Method = 10
	MethodRelay     Method = 11 // a Propose for whoever leads
	MethodRenew     Method = 12
	MethodRead      Method = 13
	MethodReadRest  Method = 14
	MethodAbout     Method = 15
	MethodPoll      Method = 16
	MethodPollLock  Method = 17
	MethodAsk       Method = 18
	MethodFormat    Method = 19
)

// Propose asks the leader to put commands into the log, in this order. Each is answered on its own, as its result
// comes: a queued Lock perhaps hours later.
type Propose struct{ Commands []fsm.Command }

// Append appends the message to dst. It fails only on a command of no known type.
func (m Propose) Append(dst []byte) ([]byte, error) { return AppendEntry(dst, m.Commands) }

// DecodePropose reads a Propose.
func DecodePropose(data []byte) (Propose, error) {
	cmds, err := DecodeEntry(data)
	return Propose{cmds}, err
}

// ProposeReply carries results of a Propose that have come since the last ProposeReply.
type ProposeReply struct {
	Replies []fsm.Reply
	Refused []Refusal
}

// Refusal says that the leader did not and will not propose a command; which one is said as in fsm.Reply.
type Refusal struct {
	Session fsm.SessionID
	Seq     uint64
	Nonce   fsm.Nonce
	Reason  string
}

// Append appends the message to dst.
func (m ProposeReply) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 2)
	e.Array(len(m.Replies))
	for _, r := range m.Replies {
		encodeReply(e, r)
	}
	e.Array(len(m.Refused))
	for _, r := range m.Refused {
		e.Array(4)
		e.Uint(uint64(r.Session))
		e.Uint(r.Seq)
		e.Bytes(r.Nonce[:])
		e.String(r.Reason)
	}
	return e.Finish()
}

// DecodeProposeReply reads a ProposeReply.
func DecodeProposeReply(data []byte) (ProposeReply, error) {
	return decodeMessage(data, func(d *Decoder) ProposeReply {
		const minRefusal = 22
		d.Open(2)
		return ProposeReply{
			Replies: decodeList(d, minReply, decodeReply), Refused: decodeList(d, minRefusal, decodeRefusal),
		}
	})
}

func decodeRefusal(d *Decoder) Refusal {
	d.tuple(4)
	return Refusal{Session: fsm.SessionID(d.Uint()), Seq: d.Uint(), Nonce: decodeNonce(d), Reason: d.String()}
}

// ReadIndex asks the leader how far the caller's replica must have applied to serve reads that began before the
// request was sent, however many wait for the answer.
type ReadIndex struct{}

// Append appends the message to dst.
func (m ReadIndex) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 0)
	return e.Finish()
}

// DecodeReadIndex reads a ReadIndex.
func DecodeReadIndex(data []byte) (ReadIndex, error) {
	return decodeMessage(data, func(d *Decoder) (m ReadIndex) {
		d.Open(0)
		return m
	})
}

// ReadIndexAnswer is given by a leader with evidence from after the request.
type ReadIndexAnswer struct{ Term, Index uint64 }

// Append appends the message to dst.
func (m ReadIndexAnswer) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 2)
	e.Uint(m.Term)
	e.Uint(m.Index)
	return e.Finish()
}

// DecodeReadIndexAnswer reads a ReadIndexAnswer.
func DecodeReadIndexAnswer(data []byte) (ReadIndexAnswer, error) {
	return decodeMessage(data, func(d *Decoder) ReadIndexAnswer {
		d.Open(2)
		return ReadIndexAnswer{Term: d.Uint(), Index: d.Uint()}
	})
}

// KeepAlive renews the sessions of a node. Number rises with each one that the node sends.
type KeepAlive struct {
	Node     string
	Number   uint64
	Sessions []fsm.SessionID
}

// Append appends the message to dst.
func (m KeepAlive) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 3)
	e.String(m.Node)
	e.Uint(m.Number)
	encodeUints(e, m.Sessions)
	return e.Finish()
}

// DecodeKeepAlive reads a KeepAlive.
func DecodeKeepAlive(data []byte) (KeepAlive, error) {
	return decodeMessage(data, func(d *Decoder) KeepAlive {
		d.Open(3)
		return KeepAlive{Node: d.String(), Number: d.Uint(), Sessions: decodeList(d, 1, decodeUint[fsm.SessionID])}
	})
}

// KeepAliveAnswer acknowledges the sessions of the KeepAlive of that Number, except those in Dead, which have ended, and
// those in Again, of which nothing is said yet.
type KeepAliveAnswer struct {
	Number, Term uint64
	Dead, Again  []fsm.SessionID
	Marks        []fsm.Mark // of the sessions acknowledged and of those in Again; version 2
}

// Append appends the message to dst.
func (m KeepAliveAnswer) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	if len(m.Marks) == 0 {
		e.Open(1, 4)
	} else { // who cannot read this must not take itself for acknowledged
		e.Open(2, 5)
	}
	e.Uint(m.Number)
	e.Uint(m.Term)
	encodeUints(e, m.Dead)
	encodeUints(e, m.Again)
	if len(m.Marks) > 0 {
		encodeMarks(e, m.Marks)
	}
	return e.Finish()
}

// DecodeKeepAliveAnswer reads a KeepAliveAnswer.
func DecodeKeepAliveAnswer(data []byte) (KeepAliveAnswer, error) {
	return decodeMessage(data, func(d *Decoder) KeepAliveAnswer {
		version := d.Open(4, 5)
		m := KeepAliveAnswer{Number: d.Uint(), Term: d.Uint(), Dead: decodeList(d, 1, decodeUint[fsm.SessionID]), Again: decodeList(d, 1, decodeUint[fsm.SessionID])}
		if version == 2 {
			m.Marks = decodeMarks(d)
			d.news(len(m.Marks) > 0)
		}
		return m
	})
}

// HashAt tells a server the hash that the sender's state had after the entry Index, and asks for the server's own.
type HashAt struct{ Index, Hash uint64 }

// Append appends the message to dst.
func (m HashAt) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 2)
	e.Uint(m.Index)
	e.Uint(m.Hash)
	return e.Finish()
}

// DecodeHashAt reads a HashAt.
func DecodeHashAt(data []byte) (HashAt, error) {
	return decodeMessage(data, func(d *Decoder) HashAt {
		d.Open(2)
		return HashAt{Index: d.Uint(), Hash: d.Uint()}
	})
}

// HashAtAnswer is the hash that the answering server's state had after the entry Index, if it Knows it.
type HashAtAnswer struct {
	Index uint64
	Known bool
	Hash  uint64
}

// Append appends the message to dst.
func (m HashAtAnswer) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 3)
	e.Uint(m.Index)
	e.Bool(m.Known)
	e.Uint(m.Hash)
	return e.Finish()
}

// DecodeHashAtAnswer reads a HashAtAnswer.
func DecodeHashAtAnswer(data []byte) (HashAtAnswer, error) {
	return decodeMessage(data, func(d *Decoder) HashAtAnswer {
		d.Open(3)
		return HashAtAnswer{Index: d.Uint(), Known: d.Bool(), Hash: d.Uint()}
	})
}

// Transfer asks the leader to hand its leadership to the server To; "" lets it choose. Its answer is empty.
type Transfer struct{ To string }

// Append appends the message to dst.
func (m Transfer) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 1)
	e.String(m.To)
	return e.Finish()
}

// DecodeTransfer reads a Transfer.
func DecodeTransfer(data []byte) (Transfer, error) {
	return decodeMessage(data, func(d *Decoder) Transfer {
		d.Open(1)
		return Transfer{To: d.String()}
	})
}

// decodeMessage reads a whole message; after an error it is the zero value.
func decodeMessage[T any](data []byte, read func(*Decoder) T) (T, error) {
	d := NewDecoder(data)
	m := read(d)
	if err := d.Finish(); err != nil {
		var none T
		return none, err
	}
	return m, nil
}
