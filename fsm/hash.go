package fsm

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hash returns 64 bits of a SHA-256 over all records of the state, in their order. Equal states have equal hashes, on
// every machine and in every version that knows the same records. It reads the whole state: on a clone, beside Apply.
func (s *State) Hash() uint64 {
	const chunk = 4096
	h := sha256.New()
	buf := make(form, 0, 2*chunk)
	for r := range s.Records() {
		if buf = buf.record(r); len(buf) >= chunk {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	h.Write(buf)
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// form is the canonical binary form of records, made for hashing alone. A record is its tag and its fields in order:
// numbers as eight bytes, strings and slices after their length. It is unambiguous, and is not read again.
type form []byte

func (f form) record(r Record) form {
	switch r := r.(type) {
	case Header:
		p := r.Params
		return f.num(1, r.Index, uint64(r.Revision), uint64(r.Floor), bit(r.Formed)).text(string(r.Cell[:])).
			num(uint64(p.HistoryEvents), uint64(p.HistoryBytes), uint64(p.Sessions), uint64(p.Locks)).
			num(uint64(p.Keys), uint64(p.Waiters), uint64(p.ReapStep)).
			num(bit(r.Hold), uint64(r.HoldTTL), r.Term, uint64(r.Start.Format)).text(string(r.Start.Nonce[:])).
			format(r.Format)
	case MemberRecord:
		return f.num(2).text(r.Member.ID).text(r.Member.Name).text(r.Member.Addr)
	case SessionRecord:
		f = f.num(3, uint64(r.ID), uint64(r.TTL), bit(r.Internal), uint64(r.Ended))
		f = f.text(string(r.Nonce[:])).text(r.Label).text(r.Node).num(uint64(len(r.Acked)))
		for _, a := range r.Acked {
			f = f.num(a.First, a.Last)
		}
		return f
	case ResultRecord:
		v := r.Result
		f = f.num(4, uint64(r.Session), r.Seq).text(r.Name)
		f = f.num(uint64(v.Code), uint64(v.Revision), uint64(v.Session), bit(v.Succeeded), uint64(v.Limit))
		f = f.num(uint64(len(v.Ops)))
		for _, op := range v.Ops {
			f = f.num(bit(op.Found)).key(op.KV)
		}
		return f.answer(v)
	case LockRecord:
		return f.num(5, uint64(r.Session), uint64(r.Token)).text(r.Name).bytes(r.Data)
	case WaiterRecord:
		return f.num(6, uint64(r.Position), uint64(r.Session), r.Seq).text(r.Name).bytes(r.Data)
	case KeyRecord:
		return f.num(7).key(r.KV)
	case EventRecord:
		e := r.Event
		return f.num(8, uint64(r.N), uint64(e.Type), uint64(e.Revision), uint64(e.Session)).
			text(e.Key).bytes(e.Value).bytes(e.Previous)
	case Trailer:
		f = f.num(9, r.Members, r.Sessions, r.Results, r.Locks, r.Waiters, r.Keys, r.Events)
		if r.Grants+r.Losses+r.Marks+r.Requests > 0 {
			f = f.num(10, r.Grants, r.Losses, r.Marks, r.Requests)
		}
		return f
	default:
		return f.lockRecord(r)
	}
}

// What follows was added later, each with a tag of its own, and stands only where there is something to say: a state
// that has nothing of it has the hash that it always had.

func (f form) lockRecord(r Record) form {
	switch r := r.(type) {
	case GrantRecord:
		f = f.num(11, uint64(r.Token), uint64(r.Session), bit(r.Shared), uint64(r.Slots), uint64(r.TTL), uint64(r.Delay))
		f = f.texts(r.Names).num(uint64(len(r.Slot)))
		for _, slot := range r.Slot {
			f = f.num(uint64(slot))
		}
		return f.bytes(r.Data)
	case LossRecord:
		return f.num(12, uint64(r.Token), uint64(r.Delay), bit(r.Shared), uint64(r.Slots), uint64(r.Slot)).text(r.Name)
	case MarkRecord:
		return f.num(13, uint64(r.Mark.Session), uint64(r.Mark.Token)).text(r.Mark.Name)
	case RequestRecord:
		f = f.num(14, uint64(r.Position), uint64(r.Session), r.Seq, bit(r.Shared), uint64(r.Slots))
		f = f.num(uint64(r.TTL), uint64(r.Delay)).texts(r.Names).bytes(r.Data).num(uint64(len(r.Holding)))
		for _, g := range r.Holding {
			f = f.num(uint64(g.Token)).text(g.Name)
		}
		return f
	default:
		panic("fsm: broken invariant: a record without a form")
	}
}

func (f form) format(format uint16) form {
	if format != 0 {
		f = f.num(15, uint64(format))
	}
	return f
}

func (f form) answer(r Result) form {
	if r.Slots != 0 || r.Slot != 0 {
		f = f.num(16, uint64(r.Slots), uint64(r.Slot))
	}
	if r.Cycle != nil {
		f = f.num(17, uint64(len(r.Cycle.Waits)))
		for _, w := range r.Cycle.Waits {
			f = f.num(uint64(w.Session), uint64(w.Token)).text(w.Label).text(w.Holds).text(w.WaitsFor)
		}
	}
	return f
}

func (f form) texts(list []string) form {
	f = f.num(uint64(len(list)))
	for _, s := range list {
		f = f.text(s)
	}
	return f
}

func (f form) key(kv KeyValue) form {
	return f.num(uint64(kv.Created), uint64(kv.Changed), uint64(kv.Session)).text(kv.Key).bytes(kv.Value)
}

func (f form) num(numbers ...uint64) form {
	for _, n := range numbers {
		f = binary.BigEndian.AppendUint64(f, n)
	}
	return f
}

func (f form) text(s string) form {
	return append(f.num(uint64(len(s))), s...)
}

func (f form) bytes(b []byte) form {
	return append(f.num(uint64(len(b))), b...)
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
