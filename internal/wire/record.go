package wire

import (
	"math"

	"github.com/coordcell/coord/fsm"
)

// The kinds of records in a snapshot. A number is never used for another kind.
const (
	recHeader  = 1
	recMember  = 2
	recSession = 3
	recResult  = 4
	recLock    = 5
	recWaiter  = 6
	recKey     = 7
	recEvent   = 8
	recTrailer = 9
)

// A record is an array of its kind, its version and its fields, like a command.
func encodeRecord(e *Encoder, r fsm.Record) error {
	switch r := r.(type) {
	case fsm.Header:
		encodeHeader(e, r)
	case fsm.MemberRecord:
		openCommand(e, recMember, 3)
		encodeMember(e, r.Member)
	case fsm.SessionRecord:
		encodeSession(e, r)
	case fsm.ResultRecord:
		openCommand(e, recResult, 4)
		e.Uint(uint64(r.Session))
		e.Uint(r.Seq)
		e.String(r.Name)
		encodeResult(e, r.Result)
	case fsm.LockRecord:
		openCommand(e, recLock, 4)
		e.String(r.Name)
		e.Uint(uint64(r.Session))
		e.Uint(uint64(r.Token))
		e.Bytes(r.Data)
	case fsm.WaiterRecord:
		openCommand(e, recWaiter, 5)
		e.String(r.Name)
		e.Uint(uint64(r.Position))
		e.Uint(uint64(r.Session))
		e.Uint(r.Seq)
		e.Bytes(r.Data)
	case fsm.KeyRecord:
		openCommand(e, recKey, 1)
		encodeKeyValue(e, r.KV)
	case fsm.EventRecord:
		encodeEvent(e, r)
	case fsm.Trailer:
		encodeTrailer(e, r)
	default:
		return encodeLockRecord(e, r)
	}
	return nil
}

func decodeRecord(d *Decoder) fsm.Record {
	n, kind := d.command()
	switch kind {
	case recHeader:
		return decodeHeader(d, n)
	case recMember:
		d.version(n, 3)
		return fsm.MemberRecord{Member: decodeMember(d)}
	case recSession:
		return decodeSession(d, n)
	case recResult:
		d.version(n, 4)
		return fsm.ResultRecord{
			Session: fsm.SessionID(d.Uint()), Seq: d.Uint(), Name: d.String(), Result: decodeResult(d),
		}
	case recLock:
		d.version(n, 4)
		return fsm.LockRecord{
			Name: d.String(), Session: fsm.SessionID(d.Uint()), Token: fsm.Revision(d.Uint()), Data: d.Bytes(),
		}
	case recWaiter:
		d.version(n, 5)
		return fsm.WaiterRecord{
			Name: d.String(), Position: fsm.Revision(d.Uint()),
			Session: fsm.SessionID(d.Uint()), Seq: d.Uint(), Data: d.Bytes(),
		}
	case recKey:
		d.version(n, 1)
		return fsm.KeyRecord{KV: decodeKeyValue(d)}
	case recEvent:
		return decodeEvent(d, n)
	case recTrailer:
		return decodeTrailer(d, n)
	}
	return decodeLockRecord(d, n, kind)
}

func encodeHeader(e *Encoder, r fsm.Header) {
	if r.Format == 0 {
		openCommand(e, recHeader, 11)
	} else {
		openVersion(e, recHeader, 2, 12)
	}
	e.Uint(r.Index)
	e.Uint(uint64(r.Revision))
	e.Uint(uint64(r.Floor))
	e.Bool(r.Formed)
	e.Bytes(r.Cell[:])
	encodeParams(e, r.Params)
	e.Bool(r.Hold)
	e.Int(r.HoldTTL)
	e.Uint(r.Term)
	e.Bytes(r.Start.Nonce[:])
	e.Uint(uint64(r.Start.Format))
	if r.Format != 0 {
		e.Uint(uint64(r.Format))
	}
}

func decodeHeader(d *Decoder, n int) fsm.Record {
	version := d.version(n, 11, 12)
	h := fsm.Header{
		Index: d.Uint(), Revision: fsm.Revision(d.Uint()), Floor: fsm.Revision(d.Uint()),
		Formed: d.Bool(), Cell: decodeNonce(d), Params: decodeParams(d),
		Hold: d.Bool(), HoldTTL: d.Int(), Term: d.Uint(),
		Start: fsm.TermStart{Nonce: decodeNonce(d), Format: uint16(d.Small(math.MaxUint16))},
	}
	if version == 2 {
		h.Format = uint16(d.Small(math.MaxUint16))
		d.news(h.Format != 0)
	}
	return h
}

func encodeSession(e *Encoder, r fsm.SessionRecord) {
	openCommand(e, recSession, 8)
	e.Uint(uint64(r.ID))
	e.Bytes(r.Nonce[:])
	e.Int(r.TTL)
	e.String(r.Label)
	e.String(r.Node)
	e.Bool(r.Internal)
	e.Uint(uint64(r.Ended))
	e.Array(len(r.Acked))
	for _, a := range r.Acked {
		e.Array(2)
		e.Uint(a.First)
		e.Uint(a.Last)
	}
}

func decodeSession(d *Decoder, n int) fsm.Record {
	const minRange = 3
	d.version(n, 8)
	return fsm.SessionRecord{
		ID: fsm.SessionID(d.Uint()), Nonce: decodeNonce(d), TTL: d.Int(), Label: d.String(), Node: d.String(),
		Internal: d.Bool(), Ended: fsm.ReleaseReason(d.Small(math.MaxUint8)), Acked: decodeList(d, minRange, decodeRange),
	}
}

func decodeRange(d *Decoder) fsm.SeqRange {
	d.tuple(2)
	return fsm.SeqRange{First: d.Uint(), Last: d.Uint()}
}

func encodeEvent(e *Encoder, r fsm.EventRecord) {
	openCommand(e, recEvent, 7)
	e.Uint(uint64(r.N))
	e.Uint(uint64(r.Event.Type))
	e.String(r.Event.Key)
	e.Bytes(r.Event.Value)
	e.Bytes(r.Event.Previous)
	e.Uint(uint64(r.Event.Revision))
	e.Uint(uint64(r.Event.Session))
}

func decodeEvent(d *Decoder, n int) fsm.Record {
	d.version(n, 7)
	return fsm.EventRecord{
		N: uint32(d.Small(math.MaxUint32)),
		Event: fsm.Event{
			Type: fsm.EventType(d.Small(math.MaxUint8)), Key: d.String(), Value: d.Bytes(), Previous: d.Bytes(),
			Revision: fsm.Revision(d.Uint()), Session: fsm.SessionID(d.Uint()),
		},
	}
}
