package fsm

// reap hands on what ended sessions have left, the lowest session first: its locks, its places in queues, its
// ephemeral keys, its kept results, at last itself. Each of these is a thing, and about budget things are dealt with:
// the dead waiters that the release of a lock passes count too, which may go over.
func (st *step) reap(budget int) {
	for budget > 0 {
		id, _, ok := st.ended.Min()
		if !ok {
			return
		}
		budget = st.reapSession(id, budget)
	}
}

// reapSession returns what is left of the budget.
func (st *step) reapSession(id SessionID, budget int) int {
	s, _ := st.sessions.Get(id)
	for budget > 0 {
		name, ok := firstOwned(st.holds, id)
		if !ok {
			break
		}
		st.next()
		budget -= 1 + st.release(name, s.end)
	}
	for budget > 0 {
		t, ok := st.firstTicket(id)
		if !ok {
			break
		}
		st.dequeue(place{name: t.name, position: t.position, waiter: &waiter{session: id, seq: t.seq}})
		st.reply(Change{Session: id, Seq: t.seq}, Result{Code: UnknownSession})
		budget--
	}
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
