package history

// checkExclusion: once a grant is known to anybody, nobody acts under an earlier one of that name.
//
// G3 for Check: none that began after that moment is nil. G1 for what the cell itself decides, in the order of its log:
// an earlier grant cannot be given back, proclaim, or be the condition of a write any more.
func (v *view) checkExclusion() {
	for _, name := range names(v.grants) {
		var marks []mark
		for _, g := range v.grants[name] {
			marks = append(marks, mark{g.known, g.token, g})
		}
		known := newFrontier(marks)
		for _, op := range v.locks[name] {
			token := op.Token
			if op.If.Lock != "" {
				token = op.If.Token
			}
			later, ok := known.before(op.Call)
			if !ok || op.Outcome != OK || op.Return == Pending || later.number <= token {
				continue
			}
			switch {
			case op.Kind == Check:
				v.add("G3", op.Call, "%q: %v may act, and since %v there has been %v", name, op, later.at, later.by)
			case op.frees(), op.Kind == Proclaim, op.If.Lock != "":
				v.add("G1", op.Call, "%q: %v was still held, and since %v there has been %v", name, op, later.at, later.by)
			}
		}
	}
}

// checkReleased: who has let go may not act (G3). Only after the release has returned is it certain to have begun
// before the Check.
func (v *view) checkReleased() {
	for _, name := range names(v.locks) {
		freed := make(map[uint64]*Op)
		for _, op := range v.locks[name] {
			if op.frees() && op.Return != Pending {
				if first := freed[op.Token]; first == nil || op.Return < first.Return {
					freed[op.Token] = op
				}
			}
		}
		for _, op := range v.locks[name] {
			free := freed[op.Token]
			if op.Kind == Check && op.Outcome == OK && free != nil && op.Call > free.Return {
				v.add("G3", op.Call, "%q: %v may act after %v", name, op, free)
			}
		}
	}
}
