package fsm

// enqueue gives a request the last place in the queue of each of its names: the same position everywhere.
func (st *step) enqueue(name string, w *waiter) {
	p := place{position: st.next(), waiter: w}
	st.waiting.Set(ticket{w.session, w.seq, w.claim.at(0, name), p.position})
	for i := range w.claim.width() {
		p.name = w.claim.at(i, name)
		st.line(p)
		st.touched(p.name)
	}
	st.note(p)
}

// line puts a place into the queue of its name.
func (s *State) line(p place) {
	s.queue.Set(p)
	if p.claim.width() > 1 {
		s.joint.Set(p)
	}
	if p.claim != nil && p.claim.slots > 0 {
		c, _ := s.crowds.Get(p.name)
		c.asking++
		c.slots = p.claim.slots
		s.setCrowd(p.name, c)
	}
	l := s.lockOf(p.name)
	l.waiting++
	s.setLock(p.name, l)
}

// note keeps up what is known of a request as a whole.
func (s *State) note(p place) {
	if p.claim.plain() {
		return
	}
	s.requests++
	for _, g := range p.claim.holding {
		s.declared.Set(declaration{g.Token, p.position, p.claim.at(0, p.name)})
	}
}

// dequeue takes a request out of the queues of all its names. p is any of its places.
func (st *step) dequeue(p place) {
	st.waiting.Delete(ticket{session: p.session, seq: p.seq})
	for i := range p.claim.width() {
		st.unline(place{p.claim.at(i, p.name), p.position, p.waiter})
	}
	if !p.claim.plain() {
		st.requests--
		for _, g := range p.claim.holding {
			st.declared.Delete(declaration{token: g.Token, position: p.position})
		}
	}
}

// unline takes a place out of the queue of its name.
func (st *step) unline(p place) {
	st.queue.Delete(p)
	if p.claim.width() > 1 {
		st.joint.Delete(p)
	}
	if p.claim != nil && p.claim.slots > 0 {
		c, _ := st.crowds.Get(p.name)
		c.asking--
		st.setCrowd(p.name, c)
	}
	l := st.lockOf(p.name)
	l.waiting--
	st.setLock(p.name, l)
	st.touched(p.name)
}

// handOn grants a name as far as it goes: to the first in its queue, and to those behind it that are admitted beside it.
// Then it looks in the same way at the other names of those that were granted or removed, in that order, for their
// queues have moved up. Places of sessions that may not be granted anything are removed when their turn comes; it
// returns how many.
func (st *step) handOn(name string) (removed int) {
	if st.hold {
		return 0
	}
	var others []string
	for {
		for {
			l, used := st.locks.Get(name)
			if !used || l.waiting == 0 || !st.room(name, l) {
				break
			}
			p, _ := st.first(name)
			refused := st.refusal(p.session)
			if refused == 0 && !st.grantable(p) {
				break
			}
			for i := range p.claim.width() {
				if other := p.claim.at(i, name); other != name {
					others = append(others, other)
				}
			}
			// With its last place dequeue may drop the name as well; grant takes it up again.
			st.dequeue(p)
			if refused == 0 {
				st.grant(p.name, p.waiter, p.position)
				continue
			}
			st.turnAway(p, refused)
			removed += p.claim.width()
		}
		if len(others) == 0 {
			return removed
		}
		name, others = others[0], others[1:]
	}
}

// handOnAll hands on every name of a request that has left its queues.
func (st *step) handOnAll(p place) (removed int) {
	for i := range p.claim.width() {
		removed += st.handOn(p.claim.at(i, p.name))
	}
	return removed
}

// turnAway answers a request that has left its queues without a grant. The result is of use to a session that lives.
func (st *step) turnAway(p place, why Code) {
	c := Change{Session: p.session, Seq: p.seq}
	if _, live := st.live(p.session); live {
		st.answer(c, "", Result{Code: why})
	} else {
		st.reply(c, Result{Code: why})
	}
}

// refusal is why a session is granted nothing, 0 if it may be.
func (s *State) refusal(id SessionID) Code {
	if _, ok := s.live(id); !ok {
		return UnknownSession
	}
	if s.leaving(id) {
		return Revoked
	}
	return 0
}

// grantable reports whether p, the first in the queue of its name, is the first in the queue of each of its names, and
// admitted by each.
func (s *State) grantable(p place) bool {
	for i := range p.claim.width() {
		name := p.claim.at(i, p.name)
		if l, ok := s.locks.Get(name); !ok || !s.admits(name, l, p.claim) {
			return false
		}
		if name == p.name {
			continue
		}
		if front, _ := s.first(name); front.position != p.position {
			return false
		}
	}
	return true
}

// first returns the first place in the queue of a name.
func (s *State) first(name string) (p place, ok bool) {
	s.queue.Ascend(place{name: name}, func(q place) bool {
		p, ok = q, q.name == name
		return false
	})
	return p, ok
}

// placeOf returns the place of a ticket at its first name.
func (s *State) placeOf(t ticket) place {
	p, ok := s.queue.Get(place{name: t.name, position: t.position})
	if !ok {
		panic("fsm: broken invariant: a ticket without a place")
	}
	return p
}
