package wire

import (
	"math"

	"github.com/coordcell/coord/fsm"
)

// Results and replies, as they travel between servers and stand in snapshots.

// minReply is the least number of bytes of a reply, the smallest result included.
const minReply = 29

func encodeReply(e *Encoder, r fsm.Reply) {
	e.Array(4)
	e.Uint(uint64(r.Session))
	e.Uint(r.Seq)
	e.Bytes(r.Nonce[:])
	encodeResult(e, r.Result)
}

func decodeReply(d *Decoder) fsm.Reply {
	d.tuple(4)
	return fsm.Reply{
		Session: fsm.SessionID(d.Uint()), Seq: d.Uint(), Nonce: decodeNonce(d), Result: decodeResult(d),
	}
}

func encodeResult(e *Encoder, r fsm.Result) {
	plain := r.Slots == 0 && r.Slot == 0 && r.Cycle == nil
	if plain {
		e.Open(1, 6)
	} else {
		e.Open(2, 9)
	}
	e.Uint(uint64(r.Code))
	e.Uint(uint64(r.Revision))
	e.Uint(uint64(r.Session))
	e.Bool(r.Succeeded)
	e.Array(len(r.Ops))
	for _, op := range r.Ops {
		e.Array(2)
		e.Bool(op.Found)
		encodeKeyValue(e, op.KV)
	}
	e.Uint(uint64(r.Limit))
	if plain {
		return
	}
	e.Uint(uint64(r.Slots))
	e.Uint(uint64(r.Slot))
	if r.Cycle == nil {
		e.Array(0)
		return
	}
	e.Array(len(r.Cycle.Waits))
	for _, w := range r.Cycle.Waits {
		e.Array(5)
		e.Uint(uint64(w.Session))
		e.String(w.Label)
		e.String(w.Holds)
		e.Uint(uint64(w.Token))
		e.String(w.WaitsFor)
	}
}

func decodeResult(d *Decoder) fsm.Result {
	const minOpResult = 9
	version := d.Open(6, 9)
	r := fsm.Result{
		Code:      fsm.Code(d.Small(math.MaxUint8)),
		Revision:  fsm.Revision(d.Uint()),
		Session:   fsm.SessionID(d.Uint()),
		Succeeded: d.Bool(),
		Ops:       decodeList(d, minOpResult, decodeOpResult),
		Limit:     fsm.Limit(d.Small(math.MaxUint8)),
	}
	if version == 2 {
		const minWait = 6
		r.Slots, r.Slot = uint32(d.Small(math.MaxUint32)), uint32(d.Small(math.MaxUint32))
		if waits := decodeList(d, minWait, decodeWait); waits != nil {
			r.Cycle = &fsm.Cycle{Waits: waits}
		}
		d.news(r.Slots != 0 || r.Slot != 0 || r.Cycle != nil)
	}
	return r
}

func decodeWait(d *Decoder) fsm.Wait {
	d.tuple(5)
	return fsm.Wait{
		Session: fsm.SessionID(d.Uint()), Label: d.String(), Holds: d.String(), Token: fsm.Revision(d.Uint()), WaitsFor: d.String(),
	}
}

func decodeOpResult(d *Decoder) fsm.OpResult {
	d.tuple(2)
	return fsm.OpResult{Found: d.Bool(), KV: decodeKeyValue(d)}
}

func encodeKeyValue(e *Encoder, kv fsm.KeyValue) {
	e.Array(5)
	e.String(kv.Key)
	e.Bytes(kv.Value)
	e.Uint(uint64(kv.Created))
	e.Uint(uint64(kv.Changed))
	e.Uint(uint64(kv.Session))
}

func decodeKeyValue(d *Decoder) fsm.KeyValue {
	d.tuple(5)
	return fsm.KeyValue{
		Key: d.String(), Value: d.Bytes(),
		Created: fsm.Revision(d.Uint()), Changed: fsm.Revision(d.Uint()), Session: fsm.SessionID(d.Uint()),
	}
}

// AppendResult appends a result to dst.
func AppendResult(dst []byte, r fsm.Result) []byte {
	e := NewEncoder(dst)
	encodeResult(e, r)
	return e.Finish()
}

// DecodeResult reads a result.
func DecodeResult(data []byte) (fsm.Result, error) {
	d := NewDecoder(data)
	r := decodeResult(d)
	if err := d.Finish(); err != nil {
		return fsm.Result{}, err
	}
	return r, nil
}
