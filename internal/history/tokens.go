package history

// checkTokens: G2. Tokens and revisions are of one counter that only rises: what was called after a number had been
// seen, of whatever name, gets a higher one. And no number is given twice.
func (v *view) checkTokens() {
	known := newFrontier(v.numbersSeen())
	first := make(map[uint64]*Op)
	for i := range v.h.Ops {
		op := &v.h.Ops[i]
		number := op.number()
		if number == 0 {
			continue
		}
		if other := first[number]; other != nil && !(op.asks() && other.asks() && op.Name == other.Name) {
			v.add("G2", op.Return, "%d was given twice: %v; %v", number, other, op)
		}
		first[number] = op
		if m, ok := known.before(op.Call); ok && m.number >= number {
			v.add("G2", op.Return, "%v got %d, and by %v there was %d: %v", op, number, m.at, m.number, m.by)
		}
	}
}

// number is what op was given by the counter: its token, or its revision; 0 if it was given none.
func (op *Op) number() uint64 {
	switch {
	case op.Outcome != OK || op.Return == Pending:
		return 0
	case op.asks():
		return op.Token
	case op.Kind == Put, op.Kind == Delete:
		return op.Revision
	}
	return 0
}

// numbersSeen is who saw which token or revision when.
func (v *view) numbersSeen() (marks []mark) {
	for i := range v.h.Ops {
		op := &v.h.Ops[i]
		if op.Outcome != OK || op.Return == Pending {
			continue
		}
		switch {
		case op.number() != 0:
			marks = append(marks, mark{op.Return, op.number(), op})
		case op.Kind == Lookup, op.Kind == Leader:
			marks = append(marks, mark{op.Return, op.Token, op})
		case op.Kind == Get:
			marks = append(marks, mark{op.Return, op.Revision, op})
		}
	}
	for i := range v.h.Batches {
		if b := &v.h.Batches[i]; !b.End {
			marks = append(marks, mark{b.At, b.Revision, b})
		}
	}
	return marks
}

// checkFence: G4. A resource that has accepted a token accepts no lower one. The order of two writes is certain if one
// began after the other had returned, or if the resource has numbered them (Revision).
func (v *view) checkFence() {
	accepted := make(map[string][]*Op)
	for i := range v.h.Ops {
		if op := &v.h.Ops[i]; op.Kind == Write && op.Outcome == OK && op.Return != Pending {
			accepted[op.Name] = append(accepted[op.Name], op)
		}
	}
	for _, name := range names(accepted) {
		var returned, numbered []mark
		for _, op := range accepted[name] {
			returned = append(returned, mark{op.Return, op.Token, op})
			if op.Revision != 0 {
				numbered = append(numbered, mark{duration(op.Revision), op.Token, op})
			}
		}
		byTime, byNumber := newFrontier(returned), newFrontier(numbered)
		for _, op := range accepted[name] {
			m, ok := byTime.before(op.Call)
			if !ok || m.number <= op.Token {
				m, ok = byNumber.before(duration(op.Revision))
			}
			if ok && m.number > op.Token {
				v.add("G4", op.Return, "resource %q: %v was accepted after %v", name, op, m.by)
			}
		}
	}
}
