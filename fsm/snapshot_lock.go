package fsm

// The records that came with readers, slots, several names, leases, delays and marks. A state that has nothing of
// these yields none, and its snapshot is what it was before there were any.

// yieldGrants yields the grants that no LockRecord holds, each under its first name.
func (s *State) yieldGrants(yield func(Record) bool) (more bool) {
	more = true
	if s.grants == 0 {
		return more
	}
	s.locks.Scan(func(name string, l *lock) bool {
		if l.session != 0 && !l.claim.plain() && l.claim.at(0, name) == name {
			more = yield(s.grantRecord(held{name: name, session: l.session, token: l.token, claim: l.claim}))
		}
		if l.crowded && more {
			s.holders.Ascend(holder{name: name}, func(h holder) bool {
				if h.name == name && h.claim.at(0, name) == name {
					more = yield(s.grantRecord(held(h)))
				}
				return more && h.name == name
			})
		}
		return more
	})
	return more
}

func (s *State) grantRecord(h held) GrantRecord {
	c := h.claim
	r := GrantRecord{
		Names: c.list(h.name), Token: h.token, Session: h.session, Data: c.data,
		Shared: c.shared, Slots: c.slots, TTL: c.ttl, Delay: c.delay,
	}
	if c.slots > 0 {
		for _, name := range r.Names {
			at, _ := s.holders.Get(holder{name: name, token: h.token})
			r.Slot = append(r.Slot, at.slot)
		}
	}
	return r
}

func (s *State) yieldLosses(yield func(Record) bool) (more bool) {
	more = true
	s.losses.Scan(func(l loss) bool {
		more = yield(LossRecord{l.name, l.token, l.delay, l.shared, l.slots, l.slot})
		return more
	})
	return more
}

func (s *State) yieldMarks(yield func(Record) bool) (more bool) {
	more = true
	s.marks.Scan(func(m Mark) bool {
		more = yield(MarkRecord{m})
		return more
	})
	return more
}

// yieldRequests yields the requests that no WaiterRecord holds, each at its first name.
func (s *State) yieldRequests(yield func(Record) bool) (more bool) {
	more = true
	if s.requests == 0 {
		return more
	}
	s.queue.Scan(func(p place) bool {
		if c := p.claim; !c.plain() && c.at(0, p.name) == p.name {
			more = yield(RequestRecord{
				Names: c.list(p.name), Position: p.position, Session: p.session, Seq: p.seq, Data: c.data,
				Shared: c.shared, Slots: c.slots, TTL: c.ttl, Delay: c.delay, Holding: c.holding,
			})
		}
		return more
	})
	return more
}

// list returns all names; the only one is name.
func (c *claim) list(name string) []string {
	if c.names == nil {
		return []string{name}
	}
	return c.names
}
