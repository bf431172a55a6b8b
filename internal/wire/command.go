package wire

import (
	"math"

	"github.com/coordcell/coord/fsm"
)

// The commands with more than a few fields, each as its encoder and its decoder. A struct literal evaluates its fields
// in the order written, which is the order of the bytes.

func encodeOpenSession(e *Encoder, c fsm.OpenSession) {
	openCommand(e, opOpenSession, 5)
	e.Bytes(c.Nonce[:])
	e.Int(c.TTL)
	e.String(c.Label)
	e.String(c.Node)
	e.Bool(c.Internal)
}

func decodeOpenSession(d *Decoder, n int) fsm.Command {
	d.version(n, 5)
	return fsm.OpenSession{Nonce: decodeNonce(d), TTL: d.Int(), Label: d.String(), Node: d.String(), Internal: d.Bool()}
}

// encodeLock writes version 1 where there are no terms.
func encodeLock(e *Encoder, c fsm.Lock) {
	plain := c.Terms.Zero()
	if plain {
		openChange(e, opLock, 3, c.Change)
	} else {
		openVersion(e, opLock, 2, changeFields+3+termsFields)
		encodeChange(e, c.Change)
	}
	e.String(c.Name)
	e.Bytes(c.Data)
	e.Bool(c.Try)
	if !plain {
		encodeTerms(e, c.Terms)
	}
}

func decodeLock(d *Decoder, n int) fsm.Command {
	version := d.version(n, changeFields+3, changeFields+3+termsFields)
	c := fsm.Lock{Change: readChange(d), Name: d.String(), Data: d.Bytes(), Try: d.Bool()}
	if version == 2 {
		c.Terms = decodeTerms(d)
	}
	return c
}

func encodeUnlock(e *Encoder, c fsm.Unlock) {
	openChange(e, opUnlock, 2, c.Change)
	e.String(c.Name)
	e.Uint(uint64(c.Token))
}

func decodeUnlock(d *Decoder, n int) fsm.Command {
	return fsm.Unlock{Change: decodeChange(d, n, 2), Name: d.String(), Token: fsm.Revision(d.Uint())}
}

func encodeWithdraw(e *Encoder, c fsm.Withdraw) {
	openChange(e, opWithdraw, 2, c.Change)
	e.Uint(c.Target)
	e.Bool(c.OnlyQueued)
}

func decodeWithdraw(d *Decoder, n int) fsm.Command {
	return fsm.Withdraw{Change: decodeChange(d, n, 2), Target: d.Uint(), OnlyQueued: d.Bool()}
}

func encodeSetData(e *Encoder, c fsm.SetData) {
	openChange(e, opSetData, 3, c.Change)
	e.String(c.Name)
	e.Uint(uint64(c.Token))
	e.Bytes(c.Data)
}

func decodeSetData(d *Decoder, n int) fsm.Command {
	return fsm.SetData{Change: decodeChange(d, n, 3), Name: d.String(), Token: fsm.Revision(d.Uint()), Data: d.Bytes()}
}

func encodePut(e *Encoder, c fsm.Put) {
	openChange(e, opPut, 5, c.Change)
	e.String(c.Key)
	e.Bytes(c.Value)
	e.Bool(c.Ephemeral)
	encodePrecondition(e, c.If)
}

func decodePut(d *Decoder, n int) fsm.Command {
	return fsm.Put{
		Change: decodeChange(d, n, 5), Key: d.String(), Value: d.Bytes(), Ephemeral: d.Bool(), If: decodePrecondition(d),
	}
}

func encodeDelete(e *Encoder, c fsm.Delete) {
	openChange(e, opDelete, 3, c.Change)
	e.String(c.Key)
	encodePrecondition(e, c.If)
}

func decodeDelete(d *Decoder, n int) fsm.Command {
	return fsm.Delete{Change: decodeChange(d, n, 3), Key: d.String(), If: decodePrecondition(d)}
}

func encodePrecondition(e *Encoder, p fsm.Precondition) {
	e.Bool(p.Absent)
	e.Uint(uint64(p.At))
}

func decodePrecondition(d *Decoder) fsm.Precondition {
	return fsm.Precondition{Absent: d.Bool(), At: fsm.Revision(d.Uint())}
}

func encodeTxn(e *Encoder, c fsm.Txn) {
	openChange(e, opTxn, 4, c.Change)
	e.Array(len(c.If))
	for _, cond := range c.If {
		e.Array(4)
		e.Uint(uint64(cond.Kind))
		e.String(cond.Key)
		e.Uint(uint64(cond.Revision))
		e.Bytes(cond.Value)
	}
	encodeOps(e, c.Then)
	encodeOps(e, c.Else)
	e.Bool(c.Ephemeral)
}

func decodeTxn(d *Decoder, n int) fsm.Command {
	const minCondition, minOp = 6, 5
	return fsm.Txn{
		Change:    decodeChange(d, n, 4),
		If:        decodeList(d, minCondition, decodeCondition),
		Then:      decodeList(d, minOp, decodeOp),
		Else:      decodeList(d, minOp, decodeOp),
		Ephemeral: d.Bool(),
	}
}

func decodeCondition(d *Decoder) fsm.Condition {
	d.tuple(4)
	return fsm.Condition{
		Kind: fsm.ConditionKind(d.Small(math.MaxUint8)), Key: d.String(), Revision: fsm.Revision(d.Uint()), Value: d.Bytes(),
	}
}

func encodeOps(e *Encoder, ops []fsm.Op) {
	e.Array(len(ops))
	for _, op := range ops {
		e.Array(3)
		e.Uint(uint64(op.Kind))
		e.String(op.Key)
		e.Bytes(op.Value)
	}
}

func decodeOp(d *Decoder) fsm.Op {
	d.tuple(3)
	return fsm.Op{Kind: fsm.OpKind(d.Small(math.MaxUint8)), Key: d.String(), Value: d.Bytes()}
}

func encodeTermStart(e *Encoder, c fsm.TermStart) {
	openCommand(e, opTermStart, 2)
	e.Bytes(c.Nonce[:])
	e.Uint(uint64(c.Format))
}

func decodeTermStart(d *Decoder, n int) fsm.Command {
	d.version(n, 2)
	return fsm.TermStart{Nonce: decodeNonce(d), Format: uint16(d.Small(math.MaxUint16))}
}

func encodeGeneration(e *Encoder, c fsm.Generation) {
	openCommand(e, opGeneration, 4)
	e.Bool(c.First)
	e.Bytes(c.Cell[:])
	e.Uint(c.Seconds)
	encodeParams(e, c.Params)
}

func decodeGeneration(d *Decoder, n int) fsm.Command {
	d.version(n, 4)
	return fsm.Generation{First: d.Bool(), Cell: decodeNonce(d), Seconds: d.Uint(), Params: decodeParams(d)}
}

func encodeParams(e *Encoder, p fsm.Params) {
	numbers := [...]int{p.HistoryEvents, p.HistoryBytes, p.Sessions, p.Locks, p.Keys, p.Waiters, p.ReapStep}
	e.Array(len(numbers))
	for _, n := range numbers {
		e.Int(int64(n))
	}
}

func decodeParams(d *Decoder) fsm.Params {
	d.tuple(7)
	return fsm.Params{
		HistoryEvents: decodeInt(d), HistoryBytes: decodeInt(d),
		Sessions: decodeInt(d), Locks: decodeInt(d), Keys: decodeInt(d), Waiters: decodeInt(d), ReapStep: decodeInt(d),
	}
}

func encodeMember(e *Encoder, m fsm.Member) {
	e.String(m.ID)
	e.String(m.Name)
	e.String(m.Addr)
}

func decodeMember(d *Decoder) fsm.Member {
	return fsm.Member{ID: d.String(), Name: d.String(), Addr: d.String()}
}

func decodeNonce(d *Decoder) (n fsm.Nonce) {
	d.Fixed(n[:])
	return n
}

// tuple reads the head of an array that has exactly n items.
func (d *Decoder) tuple(n int) {
	if got := d.Array(1); d.err == nil && got != n {
		d.Fail("%d items where %d belong", got, n)
	}
}
