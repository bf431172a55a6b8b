package wire

import (
	"fmt"

	"github.com/coordcell/coord/fsm"
)

// entryVersion is the version of the envelope; each command in it has its own.
const entryVersion = 1

// Format is the newest format of log entries that this program reads: a leader says so in its TermStart, and a
// server to those that it meets. Format 2 brought what FormatOf says. A cell uses a format once its state says so (see
// fsm.SetFormat, which is of format 2 itself: whoever proposes it knows that every server reads it).
const Format = 2

// FormatOf returns the oldest format of log entries in which c can be written. A leader proposes nothing of a newer
// format than fsm.State.Format, but for the SetFormat that raises it.
func FormatOf(c fsm.Command) uint16 {
	switch c := c.(type) {
	case fsm.Lock:
		if c.Terms.Zero() {
			return 1
		}
		return 2
	case fsm.HandOver, fsm.Revoke, fsm.RevokeSession, fsm.ExpireGrants, fsm.EndDelay, fsm.FinishRevoke, fsm.SetFormat:
		return 2
	}
	return 1
}

// AppendEntry appends the log entry that carries cmds to dst. It fails only on a command of no known type; dst is
// returned unchanged then.
func AppendEntry(dst []byte, cmds []fsm.Command) ([]byte, error) {
	e := NewEncoder(dst)
	e.Open(entryVersion, 1)
	err := encodeCommands(e, cmds)
	out := e.Finish()
	if err != nil {
		return dst, err
	}
	return out, nil
}

// DecodeEntry reads a log entry. After an error no command of the entry may be applied: with ErrUnknown because the
// other replicas apply it, with ErrMalformed because the log is damaged.
func DecodeEntry(data []byte) ([]fsm.Command, error) {
	d := NewDecoder(data)
	d.Open(1)
	cmds := decodeCommands(d)
	if err := d.Finish(); err != nil {
		return nil, fmt.Errorf("log entry: %w", err)
	}
	return cmds, nil
}

// minCommand is the least number of bytes of a command: head, op, version.
const minCommand = 3

func encodeCommands(e *Encoder, cmds []fsm.Command) error {
	e.Array(len(cmds))
	for _, c := range cmds {
		if err := encodeCommand(e, c); err != nil {
			return err
		}
	}
	return nil
}

func decodeCommands(d *Decoder) []fsm.Command { return decodeList(d, minCommand, decodeCommand) }

// The ops of commands. A number is never used for another command.
const (
	opOpenSession  = 1
	opCloseSession = 2
	opLock         = 3
	opUnlock       = 4
	opWithdraw     = 5
	opSetData      = 6
	opPut          = 7
	opDelete       = 8
	opTxn          = 9
	opTermStart    = 10
	opGeneration   = 11
	opEndHold      = 12
	opExpire       = 13
	opReap         = 14
	opCheck        = 15
	opSetMember    = 16
	opRemoveMember = 17

	opHandOver      = 18
	opRevoke        = 19
	opRevokeSession = 20
	opExpireGrants  = 21
	opEndDelay      = 22
	opFinishRevoke  = 23
	opSetFormat     = 24
)

func encodeCommand(e *Encoder, c fsm.Command) error {
	switch c := c.(type) {
	case fsm.OpenSession:
		encodeOpenSession(e, c)
	case fsm.CloseSession:
		openChange(e, opCloseSession, 0, c.Change)
	case fsm.Lock:
		encodeLock(e, c)
	case fsm.Unlock:
		encodeUnlock(e, c)
	case fsm.Withdraw:
		encodeWithdraw(e, c)
	case fsm.SetData:
		encodeSetData(e, c)
	case fsm.Put:
		encodePut(e, c)
	case fsm.Delete:
		encodeDelete(e, c)
	case fsm.Txn:
		encodeTxn(e, c)
	case fsm.TermStart:
		encodeTermStart(e, c)
	case fsm.Generation:
		encodeGeneration(e, c)
	case fsm.EndHold:
		openCommand(e, opEndHold, 1)
		e.Uint(c.Term)
	case fsm.Expire:
		openCommand(e, opExpire, 2)
		e.Uint(c.Term)
		encodeUints(e, c.Sessions)
	case fsm.Reap:
		openCommand(e, opReap, 0)
	case fsm.Check:
		openCommand(e, opCheck, 2)
		e.Uint(c.Index)
		e.Uint(c.Hash)
	case fsm.SetMember:
		openCommand(e, opSetMember, 3)
		encodeMember(e, c.Member)
	case fsm.RemoveMember:
		openCommand(e, opRemoveMember, 1)
		e.String(c.ID)
	default:
		return encodeLockCommand(e, c)
	}
	return nil
}

func decodeCommand(d *Decoder) fsm.Command {
	n, op := d.command()
	switch op {
	case opOpenSession:
		return decodeOpenSession(d, n)
	case opCloseSession:
		return fsm.CloseSession{Change: decodeChange(d, n, 0)}
	case opLock:
		return decodeLock(d, n)
	case opUnlock:
		return decodeUnlock(d, n)
	case opWithdraw:
		return decodeWithdraw(d, n)
	case opSetData:
		return decodeSetData(d, n)
	case opPut:
		return decodePut(d, n)
	case opDelete:
		return decodeDelete(d, n)
	case opTxn:
		return decodeTxn(d, n)
	case opTermStart:
		return decodeTermStart(d, n)
	case opGeneration:
		return decodeGeneration(d, n)
	case opEndHold:
		d.version(n, 1)
		return fsm.EndHold{Term: d.Uint()}
	case opExpire:
		d.version(n, 2)
		return fsm.Expire{Term: d.Uint(), Sessions: decodeList(d, 1, decodeUint[fsm.SessionID])}
	case opReap:
		d.version(n, 0)
		return fsm.Reap{}
	case opCheck:
		d.version(n, 2)
		return fsm.Check{Index: d.Uint(), Hash: d.Uint()}
	case opSetMember:
		d.version(n, 3)
		return fsm.SetMember{Member: decodeMember(d)}
	case opRemoveMember:
		d.version(n, 1)
		return fsm.RemoveMember{ID: d.String()}
	}
	return decodeLockCommand(d, n, op)
}

// command reads the head of a command and its op, and returns how many fields follow the version, which comes next.
func (d *Decoder) command() (fields int, op uint64) {
	n := d.Array(1)
	if d.Err() == nil && n < 2 {
		d.Fail("array of %d items", n)
	}
	return n - 2, d.Uint()
}

// openCommand begins a command of version 1.
func openCommand(e *Encoder, op uint64, fields int) { openVersion(e, op, 1, fields) }

// openVersion begins a command of any version.
func openVersion(e *Encoder, op, version uint64, fields int) {
	e.Array(2 + fields)
	e.Uint(op)
	e.Uint(version)
}

// changeFields is how many fields a Change takes at the front of its command.
const changeFields = 3

// openChange begins a command of version 1 that has a Change and that many fields more.
func openChange(e *Encoder, op uint64, fields int, c fsm.Change) {
	openCommand(e, op, changeFields+fields)
	encodeChange(e, c)
}

func encodeChange(e *Encoder, c fsm.Change) {
	e.Uint(uint64(c.Session))
	e.Uint(c.Seq)
	encodeUints(e, c.Acks)
}

// decodeChange reads the version and the Change of a command in which n fields follow the version: the Change's own,
// and those that each version has beside it.
func decodeChange(d *Decoder, n int, fields int) fsm.Change {
	d.version(n, changeFields+fields)
	return readChange(d)
}

func readChange(d *Decoder) fsm.Change {
	return fsm.Change{Session: fsm.SessionID(d.Uint()), Seq: d.Uint(), Acks: decodeList(d, 1, decodeUint[uint64])}
}

// decodeInt reads a number that must fit an int of this machine.
func decodeInt(d *Decoder) int {
	v := d.Int()
	if int64(int(v)) != v {
		d.Fail("number %d out of range", v)
		return 0
	}
	return int(v)
}
