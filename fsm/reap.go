package fsm

// reap hands on what ended sessions have left, the lowest session first: its locks, its places in queues, its
// ephemeral keys, its kept results, at last itself. Each of these is a thing, and about budget things are dealt with:
// the dead waiters that the release of a lock passes count too, which may go over. A grant or a request for several
// names counts once for each. Of sessions that are marked it takes the places in queues, and leaves them alone then.
func (st *step) reap(budget int) {
	for budget > 0 {
		id, _, ok := st.ended.Min()
		if !ok {
			break
		}
		budget = st.reapSession(id, budget)
	}
	for budget > 0 {
		id, ok := st.turnedAway()
		if !ok {
			break
		}
		budget = st.reapPlaces(id, Revoked, budget)
	}
}

// reapSession returns what is left of the budget.
func (st *step) reapSession(id SessionID, budget int) int {
	s, _ := st.sessions.Get(id)
	for budget > 0 {
		h, ok := st.firstHeld(id)
		if !ok {
			break
		}
		st.next()
		budget -= h.claim.width() + st.release(h, s.end)
	}
	budget = st.reapPlaces(id, UnknownSession, budget)
	for budget > 0 {
		name, ok := firstOwned(st.owns, id)
		if !ok {
			break
		}
		st.remove(name, EventExpire, st.next())
		budget--
	}
	for budget > 0 {
		r, ok := st.firstOutcome(id)
		if !ok {
			break
		}
		st.results.Delete(r)
		budget--
	}
	if budget > 0 {
		st.sessions.Delete(id)
		st.ended.Delete(id)
		budget--
	}
	return budget
}

// reapPlaces takes a session out of queues, and hands on what it stood in the way of.
func (st *step) reapPlaces(id SessionID, why Code, budget int) int {
	for budget > 0 {
		t, ok := st.firstTicket(id)
		if !ok {
			break
		}
		p := st.placeOf(t)
		st.dequeue(p)
		st.turnAway(p, why)
		budget -= p.claim.width() + st.handOnAll(p)
	}
	return budget
}

// turnedAway returns the first session that is marked and waits for something nevertheless.
func (s *State) turnedAway() (id SessionID, ok bool) {
	s.marks.Scan(func(m Mark) bool {
		if m.Token == 0 {
			id = m.Session
			_, ok = s.firstTicket(id)
		}
		return !ok
	})
	return id, ok
}

// firstHeld returns what a session holds: by name, what it holds for itself alone first.
func (s *State) firstHeld(id SessionID) (h held, ok bool) {
	if name, ok := firstOwned(s.holds, id); ok {
		l, _ := s.locks.Get(name)
		return held{name: name, session: id, token: l.token, claim: l.claim}, true
	}
	s.stakes.Ascend(stake{session: id}, func(found stake) bool {
		if ok = found.session == id; ok {
			h, _ = s.find(found.name, found.token)
		}
		return false
	})
	return h, ok
}
