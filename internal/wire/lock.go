package wire

import (
	"fmt"
	"math"

	"github.com/coordcell/coord/fsm"
)

// The commands and records of format 2: what locks can do beside being held by one session. Of a thing that has two
// versions the first is written wherever it says all there is to say, and the second is malformed there, so that there
// is one encoding of everything, and a program of format 1 reads a cell that uses nothing new.

// news fails a second version that says nothing the first cannot.
func (d *Decoder) news(some bool) {
	if d.err == nil && !some {
		d.Fail("a newer version with nothing new in it")
	}
}

const termsFields = 6

func encodeTerms(e *Encoder, t *fsm.Terms) {
	encodeStrings(e, t.More)
	e.Bool(t.Shared)
	e.Int(int64(t.Slots))
	e.Int(t.TTL)
	e.Int(t.Delay)
	encodeGrantIDs(e, t.Holding)
}

func decodeTerms(d *Decoder) *fsm.Terms {
	t := &fsm.Terms{
		More: decodeList(d, 1, (*Decoder).String), Shared: d.Bool(), Slots: decodeInt(d), TTL: d.Int(), Delay: d.Int(),
		Holding: decodeGrantIDs(d),
	}
	d.news(!t.Zero())
	return t
}

func encodeStrings(e *Encoder, list []string) {
	e.Array(len(list))
	for _, s := range list {
		e.String(s)
	}
}

func encodeGrantIDs(e *Encoder, list []fsm.GrantID) {
	e.Array(len(list))
	for _, g := range list {
		e.Array(2)
		e.String(g.Name)
		e.Uint(uint64(g.Token))
	}
}

func decodeGrantIDs(d *Decoder) []fsm.GrantID {
	const minGrantID = 3
	return decodeList(d, minGrantID, func(d *Decoder) fsm.GrantID {
		d.tuple(2)
		return fsm.GrantID{Name: d.String(), Token: fsm.Revision(d.Uint())}
	})
}

func encodeLockCommand(e *Encoder, c fsm.Command) error {
	switch c := c.(type) {
	case fsm.HandOver:
		openChange(e, opHandOver, 3, c.Change)
		e.String(c.Name)
		e.Uint(uint64(c.Token))
		e.Uint(uint64(c.To))
	case fsm.Revoke:
		openChange(e, opRevoke, 3, c.Change)
		e.String(c.Name)
		e.Uint(uint64(c.Token))
		e.Bool(c.Force)
	case fsm.RevokeSession:
		openChange(e, opRevokeSession, 2, c.Change)
		e.Uint(uint64(c.Target))
		e.Bool(c.Force)
	case fsm.ExpireGrants:
		openCommand(e, opExpireGrants, 2)
		e.Uint(c.Term)
		encodeGrantIDs(e, c.Grants)
	case fsm.EndDelay:
		openCommand(e, opEndDelay, 2)
		e.Uint(c.Term)
		encodeGrantIDs(e, c.Losses)
	case fsm.FinishRevoke:
		openCommand(e, opFinishRevoke, 3)
		e.Uint(c.Term)
		encodeGrantIDs(e, c.Grants)
		encodeUints(e, c.Sessions)
	case fsm.SetFormat:
		openCommand(e, opSetFormat, 1)
		e.Uint(uint64(c.Format))
	default:
		return fmt.Errorf("wire: no encoding for a command of type %T", c)
	}
	return nil
}

func decodeLockCommand(d *Decoder, n int, op uint64) fsm.Command {
	switch op {
	case opHandOver:
		return fsm.HandOver{
			Change: decodeChange(d, n, 3), Name: d.String(), Token: fsm.Revision(d.Uint()), To: fsm.SessionID(d.Uint()),
		}
	case opRevoke:
		return fsm.Revoke{
			Change: decodeChange(d, n, 3), Name: d.String(), Token: fsm.Revision(d.Uint()), Force: d.Bool(),
		}
	case opRevokeSession:
		return fsm.RevokeSession{Change: decodeChange(d, n, 2), Target: fsm.SessionID(d.Uint()), Force: d.Bool()}
	case opExpireGrants:
		d.version(n, 2)
		return fsm.ExpireGrants{Term: d.Uint(), Grants: decodeGrantIDs(d)}
	case opEndDelay:
		d.version(n, 2)
		return fsm.EndDelay{Term: d.Uint(), Losses: decodeGrantIDs(d)}
	case opFinishRevoke:
		d.version(n, 3)
		return fsm.FinishRevoke{
			Term: d.Uint(), Grants: decodeGrantIDs(d), Sessions: decodeList(d, 1, decodeUint[fsm.SessionID]),
		}
	case opSetFormat:
		d.version(n, 1)
		return fsm.SetFormat{Format: uint16(d.Small(math.MaxUint16))}
	}
	d.unknown("command %d", op)
	return nil
}

// The kinds of records of format 2.
const (
	recGrant   = 10
	recLoss    = 11
	recMark    = 12
	recRequest = 13
)

func encodeLockRecord(e *Encoder, r fsm.Record) error {
	switch r := r.(type) {
	case fsm.GrantRecord:
		openCommand(e, recGrant, 9)
		encodeStrings(e, r.Names)
		e.Uint(uint64(r.Token))
		e.Uint(uint64(r.Session))
		e.Bytes(r.Data)
		e.Bool(r.Shared)
		e.Uint(uint64(r.Slots))
		e.Array(len(r.Slot))
		for _, slot := range r.Slot {
			e.Uint(uint64(slot))
		}
		e.Int(r.TTL)
		e.Int(r.Delay)
	case fsm.LossRecord:
		openCommand(e, recLoss, 6)
		e.String(r.Name)
		e.Uint(uint64(r.Token))
		e.Int(r.Delay)
		e.Bool(r.Shared)
		e.Uint(uint64(r.Slots))
		e.Uint(uint64(r.Slot))
	case fsm.MarkRecord:
		openCommand(e, recMark, 3)
		e.Uint(uint64(r.Mark.Session))
		e.Uint(uint64(r.Mark.Token))
		e.String(r.Mark.Name)
	case fsm.RequestRecord:
		openCommand(e, recRequest, 10)
		encodeStrings(e, r.Names)
		e.Uint(uint64(r.Position))
		e.Uint(uint64(r.Session))
		e.Uint(r.Seq)
		e.Bytes(r.Data)
		e.Bool(r.Shared)
		e.Uint(uint64(r.Slots))
		e.Int(r.TTL)
		e.Int(r.Delay)
		encodeGrantIDs(e, r.Holding)
	default:
		return fmt.Errorf("wire: no encoding for a record of type %T", r)
	}
	return nil
}

func decodeLockRecord(d *Decoder, n int, kind uint64) fsm.Record {
	switch kind {
	case recGrant:
		d.version(n, 9)
		return fsm.GrantRecord{
			Names: decodeList(d, 1, (*Decoder).String), Token: fsm.Revision(d.Uint()), Session: fsm.SessionID(d.Uint()),
			Data: d.Bytes(), Shared: d.Bool(), Slots: decodeUint32(d), Slot: decodeList(d, 1, decodeUint32),
			TTL: d.Int(), Delay: d.Int(),
		}
	case recLoss:
		d.version(n, 6)
		return fsm.LossRecord{
			Name: d.String(), Token: fsm.Revision(d.Uint()), Delay: d.Int(), Shared: d.Bool(),
			Slots: decodeUint32(d), Slot: decodeUint32(d),
		}
	case recMark:
		d.version(n, 3)
		return fsm.MarkRecord{Mark: fsm.Mark{
			Session: fsm.SessionID(d.Uint()), Token: fsm.Revision(d.Uint()), Name: d.String(),
		}}
	case recRequest:
		d.version(n, 10)
		return fsm.RequestRecord{
			Names: decodeList(d, 1, (*Decoder).String), Position: fsm.Revision(d.Uint()),
			Session: fsm.SessionID(d.Uint()), Seq: d.Uint(), Data: d.Bytes(), Shared: d.Bool(), Slots: decodeUint32(d),
			TTL: d.Int(), Delay: d.Int(), Holding: decodeGrantIDs(d),
		}
	}
	d.unknown("record %d", kind)
	return nil
}

func decodeUint32(d *Decoder) uint32 { return uint32(d.Small(math.MaxUint32)) }

// encodeTrailer writes version 1 where there are no records of format 2.
func encodeTrailer(e *Encoder, r fsm.Trailer) {
	counts := []uint64{
		r.Members, r.Sessions, r.Results, r.Locks, r.Waiters, r.Keys, r.Events, r.Grants, r.Losses, r.Marks, r.Requests,
	}
	version := uint64(2)
	if r.Grants == 0 && r.Losses == 0 && r.Marks == 0 && r.Requests == 0 {
		version, counts = 1, counts[:7]
	}
	openVersion(e, recTrailer, version, len(counts))
	for _, n := range counts {
		e.Uint(n)
	}
}

func decodeTrailer(d *Decoder, n int) fsm.Record {
	version := d.version(n, 7, 11)
	r := fsm.Trailer{
		Members: d.Uint(), Sessions: d.Uint(), Results: d.Uint(), Locks: d.Uint(),
		Waiters: d.Uint(), Keys: d.Uint(), Events: d.Uint(),
	}
	if version == 2 {
		r.Grants, r.Losses, r.Marks, r.Requests = d.Uint(), d.Uint(), d.Uint(), d.Uint()
		d.news(r.Grants != 0 || r.Losses != 0 || r.Marks != 0 || r.Requests != 0)
	}
	return r
}
