package wire

import (
	"math"

	"github.com/coordcell/coord/fsm"
)

// The questions about grants that only the leader of the cell answers, with evidence. They travel in an Ask, which any
// server takes.

// AskKind says what an Ask asks. Each number is for ever.
type AskKind uint8

const (
	AskRefresh AskKind = 1
	AskStopped AskKind = 2
	AskHeld    AskKind = 3
)

// Ask carries a question to whoever leads. Its answer is that of the question.
type Ask struct {
	Passed   bool // on by a server that does not lead: not to be passed on again, or two servers might do so for ever
	Kind     AskKind
	Question []byte // a Refresh, a Stopped, or a Held
}

// Append appends the message to dst.
func (m Ask) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 3)
	e.Bool(m.Passed)
	e.Uint(uint64(m.Kind))
	e.Bytes(m.Question)
	return e.Finish()
}

// DecodeAsk reads an Ask.
func DecodeAsk(data []byte) (Ask, error) {
	return decodeMessage(data, func(d *Decoder) Ask {
		d.Open(3)
		return Ask{Passed: d.Bool(), Kind: AskKind(d.Small(math.MaxUint8)), Question: d.Bytes()}
	})
}

// Refresh asks for a full TTL of a grant's own lease. Number rises with each Refresh that the session's node sends.
type Refresh struct {
	Session fsm.SessionID
	Number  uint64
	Grant   fsm.GrantID
}

// Append appends the message to dst.
func (m Refresh) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 4)
	e.Uint(uint64(m.Session))
	e.Uint(m.Number)
	e.String(m.Grant.Name)
	e.Uint(uint64(m.Grant.Token))
	return e.Finish()
}

// DecodeRefresh reads a Refresh.
func DecodeRefresh(data []byte) (Refresh, error) {
	return decodeMessage(data, func(d *Decoder) Refresh {
		d.Open(4)
		return Refresh{Session: fsm.SessionID(d.Uint()), Number: d.Uint(), Grant: fsm.GrantID{Name: d.String(), Token: fsm.Revision(d.Uint())}}
	})
}

// RefreshState says what became of a Refresh. Each number is for ever.
type RefreshState uint8

const (
	Refreshed    RefreshState = 1
	RefreshGone  RefreshState = 2 // the session does not hold the grant any more
	RefreshAgain RefreshState = 3 // nothing is said yet
)

// RefreshAnswer answers the Refresh of that Number.
type RefreshAnswer struct {
	Number uint64
	State  RefreshState
	Marks  []fsm.Mark // of the session
}

// Append appends the message to dst.
func (m RefreshAnswer) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 3)
	e.Uint(m.Number)
	e.Uint(uint64(m.State))
	encodeMarks(e, m.Marks)
	return e.Finish()
}

// DecodeRefreshAnswer reads a RefreshAnswer.
func DecodeRefreshAnswer(data []byte) (RefreshAnswer, error) {
	return decodeMessage(data, func(d *Decoder) RefreshAnswer {
		d.Open(3)
		return RefreshAnswer{Number: d.Uint(), State: RefreshState(d.Small(math.MaxUint8)), Marks: decodeMarks(d)}
	})
}

// Stopped tells the leader that nobody acts any more on what is marked. Its answer is empty.
type Stopped struct{ Marks []fsm.Mark }

// Append appends the message to dst.
func (m Stopped) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 1)
	encodeMarks(e, m.Marks)
	return e.Finish()
}

// DecodeStopped reads a Stopped.
func DecodeStopped(data []byte) (Stopped, error) {
	return decodeMessage(data, func(d *Decoder) Stopped {
		d.Open(1)
		return Stopped{decodeMarks(d)}
	})
}

// Held asks which of some grants the session still holds.
type Held struct {
	Session fsm.SessionID
	Grants  []fsm.GrantID
}

// Append appends the message to dst.
func (m Held) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 2)
	e.Uint(uint64(m.Session))
	encodeGrantIDs(e, m.Grants)
	return e.Finish()
}

// DecodeHeld reads a Held.
func DecodeHeld(data []byte) (Held, error) {
	return decodeMessage(data, func(d *Decoder) Held {
		d.Open(2)
		return Held{Session: fsm.SessionID(d.Uint()), Grants: decodeGrantIDs(d)}
	})
}

// HeldAnswer is how it was at Revision.
type HeldAnswer struct {
	Revision fsm.Revision
	Lost     []fsm.Revision // the tokens of those that the session does not hold
	Marks    []fsm.Mark     // of the session
}

// Append appends the message to dst.
func (m HeldAnswer) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 3)
	e.Uint(uint64(m.Revision))
	encodeUints(e, m.Lost)
	encodeMarks(e, m.Marks)
	return e.Finish()
}

// DecodeHeldAnswer reads a HeldAnswer.
func DecodeHeldAnswer(data []byte) (HeldAnswer, error) {
	return decodeMessage(data, func(d *Decoder) HeldAnswer {
		d.Open(3)
		return HeldAnswer{Revision: fsm.Revision(d.Uint()), Lost: decodeList(d, 1, decodeUint[fsm.Revision]), Marks: decodeMarks(d)}
	})
}

// FormatAsked asks a server which format of commands it reads. One that does not know the question reads the first only.
type FormatAsked struct{}

// Append appends the message to dst.
func (m FormatAsked) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 0)
	return e.Finish()
}

// FormatAnswer is the newest format that the server reads.
type FormatAnswer struct{ Format uint16 }

// Append appends the message to dst.
func (m FormatAnswer) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 1)
	e.Uint(uint64(m.Format))
	return e.Finish()
}

// DecodeFormatAnswer reads a FormatAnswer.
func DecodeFormatAnswer(data []byte) (FormatAnswer, error) {
	return decodeMessage(data, func(d *Decoder) FormatAnswer {
		d.Open(1)
		return FormatAnswer{Format: uint16(d.Small(math.MaxUint16))}
	})
}

func encodeMarks(e *Encoder, marks []fsm.Mark) {
	e.Array(len(marks))
	for _, m := range marks {
		e.Array(3)
		e.Uint(uint64(m.Session))
		e.Uint(uint64(m.Token))
		e.String(m.Name)
	}
}

func decodeMarks(d *Decoder) []fsm.Mark {
	const minMark = 4
	return decodeList(d, minMark, func(d *Decoder) fsm.Mark {
		d.tuple(3)
		return fsm.Mark{Session: fsm.SessionID(d.Uint()), Token: fsm.Revision(d.Uint()), Name: d.String()}
	})
}
