package history

import "time"

// What may be the case with a lock, once its index'th known grant has been made.
const (
	free    = 1 << iota
	held    // under that grant
	freeing // the session of that grant has ended, and the lock is with nobody else yet
	dark    // held by a request whose caller does not know of it, and which nobody saw
)

// lockModel is what is known of one lock or election.
type lockModel struct {
	grants []*grant
	// freed is, for each grant, from when on it may have ended unseen: a release was not answered, or its session may
	// have ended.
	freed []time.Duration
	dark  time.Duration // from when on a request may have been granted unseen
}

// checkLocks: G5 of locks and elections.
func (v *view) checkLocks() {
	for _, name := range names(v.locks) {
		m := v.lockModel(name)
		var steps []step
		for _, op := range v.locks[name] {
			if next := m.step(op); next != nil {
				steps = append(steps, step{int64(op.Call), int64(op.ret()), op, next})
			}
		}
		for i, g := range m.grants {
			steps = append(steps, step{int64(min(g.call, g.known)), int64(g.known), g, m.granted(i)})
		}
		steps = append(steps, m.proclaimed(v.locks[name])...)
		v.checkLinear("lock", name, state{index: -1, may: free}, steps)
	}
}

func (v *view) lockModel(name string) *lockModel {
	m := &lockModel{grants: v.grants[name], dark: never}
	for _, g := range m.grants {
		from := v.alive[g.session]
		if g.op == nil { // its caller has given up, and so it is withdrawn in the background
			from = 0
		}
		m.freed = append(m.freed, from)
	}
	for _, op := range v.locks[name] {
		switch {
		case op.maybe():
			m.dark = min(m.dark, op.Call)
		case op.frees() && op.Outcome != OK && !op.refused(textNotHeld), op.frees() && op.Return == Pending:
			if i, ok := findGrant(m.grants, op.Token); ok {
				m.freed[i] = min(m.freed[i], op.Call)
			}
		}
	}
	return m
}

// meanwhile adds what may have become of s, unseen, by the time ret.
func (m *lockModel) meanwhile(s state, ret time.Duration) state {
	if s.may&held != 0 && ret >= m.freed[s.index] {
		s.may |= freeing | free
	}
	if s.may&(freeing|dark) != 0 {
		s.may |= free
	}
	if s.may&free != 0 && ret >= m.dark {
		s.may |= dark
	}
	return s
}

func (m *lockModel) granted(i int) func(state) (state, bool) {
	return func(s state) (state, bool) {
		ok := s.index == i-1 && m.meanwhile(s, m.grants[i].known).may&free != 0
		next := state{index: i, may: held}
		if g := m.grants[i]; g.op != nil {
			next.value = g.op.Value
		}
		return next, ok
	}
}

// step is what op says of the lock, nil if nothing. Grants and changes of the value are steps of their own.
func (m *lockModel) step(op *Op) func(state) (state, bool) {
	token := op.Token
	if op.If.Lock != "" {
		token = op.If.Token
	}
	i, known := findGrant(m.grants, token)
	ok := op.Outcome == OK && op.Return != Pending
	only := func(bits uint8, same bool) func(state) (state, bool) {
		return func(s state) (state, bool) {
			s = m.meanwhile(s, op.Return)
			s.may &= bits
			return s, s.may != 0 && (!same || s.index == i)
		}
	}
	switch {
	case op.Kind == TryLock && op.refused(textLocked):
		return only(held|freeing|dark, false)
	case (op.Kind == Lookup || op.Kind == Leader) && ok && op.Holder == 0:
		return only(free|freeing, false)
	case op.Kind == Lookup && ok:
		return only(held|freeing, true)
	case op.Kind == Leader && ok:
		return m.led(op, i)
	case !known:
		return nil
	case op.frees() && ok:
		return func(s state) (state, bool) {
			return state{index: i, may: free}, s.index == i && s.may&held != 0
		}
	case op.Kind == Put && op.If.Lock != "" && ok:
		return only(held, true)
	case op.frees() && op.refused(textNotHeld), op.Kind == Proclaim && op.refused(textNotHeld),
		op.Kind == Put && op.refused(textConflict) && !op.If.Absent && op.If.Revision == 0:
		return m.notHeld(op, i)
	}
	return nil
}

// notHeld: the cell said that the grant is held no longer.
func (m *lockModel) notHeld(op *Op, i int) func(state) (state, bool) {
	return func(s state) (state, bool) {
		s = m.meanwhile(s, op.Return)
		if s.index == i {
			s.may &^= held
		}
		return s, s.may != 0 && s.index >= i
	}
}

// led: the leader was seen, and its value.
func (m *lockModel) led(op *Op, i int) func(state) (state, bool) {
	return func(s state) (state, bool) {
		ok := s.index == i && s.may&held != 0 && (s.value == op.Value || s.value == "" && m.grants[i].op == nil)
		s.may &= held
		return s, ok
	}
}

// proclaimed are the changes of an election's value. One whose outcome is unknown counts if its value was seen, and had
// been made by then; that of one that was never seen can have made no difference to anybody.
func (m *lockModel) proclaimed(ops []*Op) (steps []step) {
	seen := make(map[string]time.Duration)
	for _, op := range ops {
		if op.Kind == Leader && op.Outcome == OK && op.Return != Pending {
			if at, ok := seen[op.Value]; !ok || op.Return < at {
				seen[op.Value] = op.Return
			}
		}
	}
	for _, op := range ops {
		i, known := findGrant(m.grants, op.Token)
		at, wasSeen := seen[op.Value]
		ret := op.ret()
		if wasSeen {
			ret = min(ret, at)
			if op.open() {
				ret = at
			}
		}
		if op.Kind != Proclaim || !known || op.Outcome == Refused || op.open() && !wasSeen {
			continue
		}
		steps = append(steps, step{int64(op.Call), int64(ret), op, func(s state) (state, bool) {
			ok := s.index == i && s.may&held != 0
			s.may, s.value = held, op.Value
			return s, ok
		}})
	}
	return steps
}
