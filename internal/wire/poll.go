package wire

import (
	"math"
	"time"

	"github.com/coordcell/coord/fsm"
)

// Poll asks a server for the changes of keys from a revision on. The server answers when it has some, and at the latest
// when it has waited for a while; it keeps nothing of a watch in between.
type Poll struct {
	Key      string
	Prefix   bool // every key that begins with Key
	Previous bool // with the values before
	From     fsm.Revision
	Skip     int  // events of the revision From that the client has already
	Wait     bool // for changes; without it the answer comes at once
}

// Append appends the message to dst.
func (m Poll) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 6)
	e.String(m.Key)
	e.Bool(m.Prefix)
	e.Bool(m.Previous)
	e.Uint(uint64(m.From))
	e.Uint(uint64(m.Skip))
	e.Bool(m.Wait)
	return e.Finish()
}

// DecodePoll reads a Poll.
func DecodePoll(data []byte) (Poll, error) {
	return decodeMessage(data, func(d *Decoder) Poll {
		d.Open(6)
		return Poll{
			Key: d.String(), Prefix: d.Bool(), Previous: d.Bool(), From: fsm.Revision(d.Uint()), Skip: int(d.Small(math.MaxInt32)), Wait: d.Bool(),
		}
	})
}

// PollAnswer is what a Poll has found. Nothing lies between From and Next but what is in it.
type PollAnswer struct {
	Compacted bool // the history no longer reaches back to From
	Partial   bool // of the last batch there are more events
	Next      fsm.Revision
	Age       time.Duration // of the server's last proof of a leader
	Batches   [][]byte      // each a PollBatch
}

// Append appends the message to dst.
func (m PollAnswer) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 5)
	e.Bool(m.Compacted)
	e.Bool(m.Partial)
	e.Uint(uint64(m.Next))
	e.Int(int64(m.Age))
	e.Array(len(m.Batches))
	for _, b := range m.Batches {
		e.Bytes(b)
	}
	return e.Finish()
}

// DecodePollAnswer reads a PollAnswer.
func DecodePollAnswer(data []byte) (PollAnswer, error) {
	return decodeMessage(data, func(d *Decoder) PollAnswer {
		d.Open(5)
		return PollAnswer{
			Compacted: d.Bool(), Partial: d.Bool(), Next: fsm.Revision(d.Uint()), Age: time.Duration(d.Int()),
			Batches: decodeList(d, 2, (*Decoder).Bytes),
		}
	})
}

// PollBatch is changes of one revision. It is encoded once for all who ask for the same ones.
type PollBatch struct {
	Revision fsm.Revision
	Events   []fsm.Event
}

// Append appends the message to dst.
func (m PollBatch) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 2)
	e.Uint(uint64(m.Revision))
	e.Array(len(m.Events))
	for _, ev := range m.Events {
		e.Array(5)
		e.Uint(uint64(ev.Type))
		e.String(ev.Key)
		e.Bytes(ev.Value)
		e.Bytes(ev.Previous)
		e.Uint(uint64(ev.Session))
	}
	return e.Finish()
}

// DecodePollBatch reads a PollBatch.
func DecodePollBatch(data []byte) (PollBatch, error) {
	return decodeMessage(data, func(d *Decoder) (m PollBatch) {
		const minEvent = 8
		d.Open(2)
		m.Revision = fsm.Revision(d.Uint())
		m.Events = decodeList(d, minEvent, func(d *Decoder) fsm.Event {
			d.tuple(5)
			return fsm.Event{
				Type: fsm.EventType(d.Small(math.MaxUint8)), Key: d.String(), Value: d.Bytes(), Previous: d.Bytes(),
				Revision: m.Revision, Session: fsm.SessionID(d.Uint()),
			}
		})
		return m
	})
}

// PollLock asks a server who holds a lock: at once, or if Known is the Digest of the last answer when somebody else does,
// or with other data, and at the latest when the server has waited for a while.
type PollLock struct {
	Name  string
	Known uint64
}

// Append appends the message to dst.
func (m PollLock) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 2)
	e.String(m.Name)
	e.Uint(m.Known)
	return e.Finish()
}

// DecodePollLock reads a PollLock.
func DecodePollLock(data []byte) (PollLock, error) {
	return decodeMessage(data, func(d *Decoder) PollLock {
		d.Open(2)
		return PollLock{Name: d.String(), Known: d.Uint()}
	})
}

// PollLockAnswer is a lock without its queue.
type PollLockAnswer struct {
	Digest   uint64 // of the rest; never 0
	Revision fsm.Revision
	Freeing  bool
	Holders  []fsm.Holder
}

// Append appends the message to dst.
func (m PollLockAnswer) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 4)
	e.Uint(m.Digest)
	e.Uint(uint64(m.Revision))
	e.Bool(m.Freeing)
	e.Array(len(m.Holders))
	for _, h := range m.Holders {
		e.Array(4)
		e.Uint(uint64(h.Session))
		e.String(h.Label)
		e.Uint(uint64(h.Token))
		e.Bytes(h.Data)
	}
	return e.Finish()
}

// DecodePollLockAnswer reads a PollLockAnswer.
func DecodePollLockAnswer(data []byte) (PollLockAnswer, error) {
	return decodeMessage(data, func(d *Decoder) PollLockAnswer {
		const minHolder = 6
		d.Open(4)
		return PollLockAnswer{
			Digest: d.Uint(), Revision: fsm.Revision(d.Uint()), Freeing: d.Bool(),
			Holders: decodeList(d, minHolder, func(d *Decoder) fsm.Holder {
				d.tuple(4)
				return fsm.Holder{Session: fsm.SessionID(d.Uint()), Label: d.String(), Token: fsm.Revision(d.Uint()), Data: d.Bytes()}
			}),
		}
	})
}
