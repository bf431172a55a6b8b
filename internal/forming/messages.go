package forming

// status is what a server says when asked: what it is and where it stands.
type status struct {
	ID, Name, Cell string
	CellID         string // the cell that it belongs to; empty: it has no state
	Expect         uint64
	Limits         string // digest of the limits that are fixed when a cell forms
	Leader         string // id of the leader it knows
	Record         Record
}

func (s status) hasState() bool { return s.CellID != "" }

func (s status) encode() []byte {
	e := newEncoder()
	for _, v := range []string{s.ID, s.Name, s.Cell, s.CellID, s.Limits, s.Leader} {
		e.string(v)
	}
	e.number(s.Expect)
	s.Record.encode(e)
	return e.b
}

func decodeStatus(b []byte) (s status, err error) {
	d := newDecoder(b)
	for _, v := range []*string{&s.ID, &s.Name, &s.Cell, &s.CellID, &s.Limits, &s.Leader} {
		*v = d.string()
	}
	s.Expect = d.number()
	s.Record.decode(d)
	return s, d.end()
}

func encodeProposal(p Proposal) []byte {
	e := newEncoder()
	p.encode(e)
	return e.b
}

func decodeProposal(b []byte) (p Proposal, err error) {
	d := newDecoder(b)
	p.decode(d)
	return p, d.end()
}

// answer to a proposal or to the word that all have adopted it.
type answer struct {
	OK     bool
	Reason string // if not
}

func (a answer) encode() []byte {
	e := newEncoder()
	e.number(flag(a.OK))
	e.string(clip(a.Reason))
	return e.b
}

func decodeAnswer(b []byte) (a answer, err error) {
	d := newDecoder(b)
	a.OK = d.number() != 0
	a.Reason = d.string()
	return a, d.end()
}

// JoinRequest asks a cell to admit a server.
type JoinRequest struct{ ID, Name, Addr, Cell string }

// JoinCode says what became of a JoinRequest.
type JoinCode uint8

const (
	Admitted JoinCode = 1 // the server is in the configuration
	Retry    JoinCode = 2 // not now; Reason says why
	Redirect JoinCode = 3 // ask Leader, if it is known
	Refused  JoinCode = 4 // never; Reason says why
)

// JoinReply answers a JoinRequest.
type JoinReply struct {
	Code   JoinCode
	CellID string // with Admitted
	Leader string // with Redirect: the leader's id, or empty
	Reason string
}

func (r JoinRequest) encode() []byte {
	e := newEncoder()
	for _, v := range []string{r.ID, r.Name, r.Addr, r.Cell} {
		e.string(v)
	}
	return e.b
}

func decodeJoinRequest(b []byte) (r JoinRequest, err error) {
	d := newDecoder(b)
	for _, v := range []*string{&r.ID, &r.Name, &r.Addr, &r.Cell} {
		*v = d.string()
	}
	return r, d.end()
}

func (r JoinReply) encode() []byte {
	e := newEncoder()
	e.number(uint64(r.Code))
	for _, v := range []string{r.CellID, r.Leader, clip(r.Reason)} {
		e.string(v)
	}
	return e.b
}

func decodeJoinReply(b []byte) (r JoinReply, err error) {
	d := newDecoder(b)
	r.Code = JoinCode(d.count(int(Refused)))
	for _, v := range []*string{&r.CellID, &r.Leader, &r.Reason} {
		*v = d.string()
	}
	return r, d.end()
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// clip shortens a text that is only for people.
func clip(s string) string { return s[:min(len(s), maxString)] }
