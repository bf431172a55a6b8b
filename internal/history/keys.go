package history

import "time"

// What may be the case with a key, once its index'th known change has been made.
const (
	absent = 1 << iota
	known  // as that change has left it
	unseen // written since by a call whose outcome is unknown, with a value that nobody saw
)

// keyModel is what is known of one key.
type keyModel struct {
	changes []*change
	// ended is, for each change, from when on what it wrote may have expired unseen; never for a plain key.
	ended []time.Duration
	// still says of each change that nothing can have happened unseen between it and the next: a watcher was told
	// everything.
	still []bool

	put, delete, expire time.Duration // from when on that may have happened unseen; expire: to a value unseen as well
}

// checkKeys: G5 of keys.
func (v *view) checkKeys() {
	for _, key := range names(v.keys) {
		m := v.keyModel(key)
		var steps []step
		for i, c := range m.changes {
			ret := c.known
			if c.op != nil && !c.op.open() {
				ret = min(ret, c.op.Return)
			}
			steps = append(steps, step{int64(min(c.call, ret)), int64(ret), c, m.changed(i, ret)})
		}
		for _, op := range v.keys[key] {
			if next := m.step(op); next != nil {
				steps = append(steps, step{int64(op.Call), int64(op.Return), op, next})
			}
		}
		v.checkLinear("key", key, state{index: -1, may: absent}, steps)
	}
}

func (v *view) keyModel(key string) *keyModel {
	m := &keyModel{changes: v.changes[key], put: never, delete: never, expire: never}
	seen := make(map[*Op]bool)
	for i, c := range m.changes {
		ended := never
		if c.Session != 0 || c.loose && c.op == nil {
			ended = v.alive[c.Session]
		}
		m.ended = append(m.ended, ended)
		m.still = append(m.still, i+1 < len(m.changes) && v.covered(key, c.Revision, m.changes[i+1].Revision))
		if c.op != nil {
			seen[c.op] = true
		}
	}
	for _, op := range v.keys[key] {
		switch {
		case !op.open() || seen[op]:
		case op.Kind == Delete:
			m.delete = min(m.delete, op.Call)
		case op.Kind == Put:
			m.put = min(m.put, op.Call)
			if !op.Lasting {
				m.expire = min(m.expire, op.Call)
			}
		}
	}
	return m
}

// meanwhile adds what may have become of s, unseen, by the time ret.
func (m *keyModel) meanwhile(s state, ret time.Duration) state {
	if s.index >= 0 && m.still[s.index] {
		return s
	}
	if s.may&known != 0 && (ret >= m.delete || ret >= m.ended[s.index]) {
		s.may |= absent
	}
	if ret >= m.put {
		s.may |= unseen
	}
	if s.may&unseen != 0 && (ret >= m.delete || ret >= m.expire) {
		s.may |= absent
	}
	return s
}

// changed is the i'th known change.
func (m *keyModel) changed(i int, ret time.Duration) func(state) (state, bool) {
	c := m.changes[i]
	return func(s state) (state, bool) {
		if s.index != i-1 {
			return s, false
		}
		s = m.meanwhile(s, ret)
		if c.op != nil {
			s.may = m.met(s, c.op.If)
		}
		next := state{index: i, may: known}
		if c.Type != eventPut {
			s.may &= known | unseen
			next.may = absent
		}
		return next, s.may != 0
	}
}

// met is the part of s in which a condition on the key holds.
func (m *keyModel) met(s state, c Condition) uint8 {
	if c.Absent {
		return s.may & absent
	}
	if c.Revision == 0 {
		return s.may
	}
	if s.index < 0 || m.changes[s.index].Revision != c.Revision {
		return 0
	}
	return s.may & known
}

// step is what op says of the key, nil if nothing. Changes are steps of their own.
func (m *keyModel) step(op *Op) func(state) (state, bool) {
	filter := func(keep func(state) uint8) func(state) (state, bool) {
		return func(s state) (state, bool) {
			s = m.meanwhile(s, op.Return)
			s.may = keep(s)
			return s, s.may != 0
		}
	}
	switch {
	case op.Kind == Get && op.Outcome == OK && op.Return != Pending:
		return filter(func(s state) uint8 {
			switch {
			case op.Revision == 0:
				return s.may & absent
			case s.index >= 0 && m.changes[s.index].Revision == op.Revision:
				return s.may & known
			}
			return 0
		})
	case op.Kind == Delete && op.refused(textNotFound):
		return filter(func(s state) uint8 { return s.may & absent })
	case op.refused(textConflict) && op.If.Lock == "" && (op.If.Absent || op.If.Revision != 0):
		return filter(func(s state) uint8 {
			unmet := s.may &^ m.met(s, op.If)
			if op.Kind == Delete {
				unmet &^= absent
			}
			return unmet
		})
	}
	return nil
}
