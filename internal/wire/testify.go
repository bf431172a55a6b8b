package wire

// Testify asks another voter whether it has seen for itself that a process is dead: the one that leads Term, which is
// that of the node Leader, started with the number Boot.
type Testify struct {
	Leader     string
	Boot, Term uint64
}

// Append appends the message to dst.
func (m Testify) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 3)
	e.String(m.Leader)
	e.Uint(m.Boot)
	e.Uint(m.Term)
	return e.Finish()
}

// DecodeTestify reads a Testify.
func DecodeTestify(data []byte) (Testify, error) {
	return decodeMessage(data, func(d *Decoder) Testify {
		d.Open(3)
		return Testify{Leader: d.String(), Boot: d.Uint(), Term: d.Uint()}
	})
}

// Testimony is the answer: whether the process is dead, the answering server's own term, and the last entry of its log.
type Testimony struct {
	Dead                      bool
	Term, LastTerm, LastIndex uint64
}

// Append appends the message to dst.
func (m Testimony) Append(dst []byte) []byte {
	e := NewEncoder(dst)
	e.Open(1, 4)
	e.Bool(m.Dead)
	e.Uint(m.Term)
	e.Uint(m.LastTerm)
	e.Uint(m.LastIndex)
	return e.Finish()
}

// DecodeTestimony reads a Testimony.
func DecodeTestimony(data []byte) (Testimony, error) {
	return decodeMessage(data, func(d *Decoder) Testimony {
		d.Open(4)
		return Testimony{Dead: d.Bool(), Term: d.Uint(), LastTerm: d.Uint(), LastIndex: d.Uint()}
	})
}
