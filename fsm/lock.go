package fsm

func (st *step) lock(c Lock) {
	if !st.take(c.Change, c.Name != "", false) {
		return
	}
	l, used := st.locks.Get(c.Name)
	free := !used && !st.hold
	switch {
	case !free && c.Try:
		st.answer(c.Change, "", Result{Code: Locked})
	case !used && st.locks.Len() >= st.params.Locks:
		st.answer(c.Change, "", Result{Code: LimitReached, Limit: LimitLocks})
	case free:
		st.grant(place{name: c.Name, waiter: &waiter{c.Session, c.Seq, c.Data}}, 0)
	case used && l.waiting >= st.params.Waiters:
		st.answer(c.Change, "", Result{Code: LimitReached, Limit: LimitWaiters})
	default:
		st.enqueue(c)
	}
}

func (st *step) unlock(c Unlock) {
	// A holder must be able to free what it holds, however many of its own session wait for it.
	held := st.heldAs(c.Session, c.Name, c.Token)
	if !st.take(c.Change, c.Name != "", held) {
		return
	}
	if !held {
		st.answer(c.Change, "", Result{Code: NotHeld})
		return
	}
	st.answer(c.Change, "", Result{Code: OK, Revision: st.next()})
	st.release(c.Name, Unlocked)
}

func (st *step) setData(c SetData) {
	if !st.take(c.Change, c.Name != "", false) {
		return
	}
	if !st.heldAs(c.Session, c.Name, c.Token) {
		st.answer(c.Change, "", Result{Code: NotHeld})
		return
	}
	l, _ := st.locks.Get(c.Name)
	next := *l
	next.data = c.Data
	st.locks.Set(c.Name, &next)
	st.touched(c.Name)
	st.answer(c.Change, "", Result{Code: OK, Revision: st.next()})
}

// withdraw answers
//
//	OK       the Target was queued and left the queue; or was granted and has been unlocked (or had been before);
//	         or had another result, which is dropped; or will be refused when it comes; or was acknowledged or
//	         withdrawn earlier, and nothing is done
//	Locked   with OnlyQueued: the Target was queued and left the queue
//	Granted  with OnlyQueued: the Target has been granted; Revision is its token, and its result is still kept
//
// Revision, elsewhere, is that of the change, or 0 if only the Target's number was noted. The caller that waits for
// a queued Target gets a Reply with Withdrawn.
func (st *step) withdraw(c Withdraw) {
	target := Change{Session: c.Session, Seq: c.Target}
	if !st.take(c.Change, c.Target != 0 && c.Target != c.Seq, st.withdrawable(c)) {
		return
	}
	if t, ok := st.waiting.Get(ticket{session: c.Session, seq: c.Target}); ok {
		code := OK
		if c.OnlyQueued {
			code = Locked
		}
		st.dequeue(place{name: t.name, position: t.position, waiter: &waiter{session: c.Session, seq: c.Target}})
		st.settle(target, true)
		st.reply(target, Result{Code: Withdrawn})
		st.answer(c.Change, "", Result{Code: code, Revision: st.next()})
		return
	}
	was, ok := st.results.Get(outcome{session: c.Session, seq: c.Target})
	granted := ok && was.name != ""
	if granted && c.OnlyQueued {
		st.answer(c.Change, "", Result{Code: Granted, Revision: was.Revision})
		return
	}
	if s, _ := st.live(c.Session); !ok && len(s.acked.with(c.Target)) > maxRanges {
		st.answer(c.Change, "", Result{Code: Malformed})
		return
	}
	st.settle(target, ok)
	if granted && st.heldAs(c.Session, was.name, was.Revision) {
		st.answer(c.Change, "", Result{Code: OK, Revision: st.next()})
		st.release(was.name, Unlocked)
		return
	}
	st.answer(c.Change, "", Result{Code: OK})
}

// withdrawable reports whether c makes at least as much room as it takes among the outstanding numbers: it is let
// through then, or a session with nothing but queued locks could never give one up.
func (s *State) withdrawable(c Withdraw) bool {
	if _, queued := s.waiting.Get(ticket{session: c.Session, seq: c.Target}); queued {
		return true
	}
	was, ok := s.results.Get(outcome{session: c.Session, seq: c.Target})
	return ok && !(c.OnlyQueued && was.name != "")
}

// settle makes a number count as acknowledged, whatever became of it. outstanding says that it was queued until now
// or has a kept result.
func (st *step) settle(c Change, outstanding bool) {
	s, _ := st.live(c.Session)
	next := *s
	next.acked = s.acked.with(c.Seq)
	if outstanding {
		st.results.Delete(outcome{session: c.Session, seq: c.Seq})
		next.outstanding--
	}
	st.sessions.Set(c.Session, &next)
}

// heldAs reports whether this very grant is held by the session, which the caller knows to be live.
func (s *State) heldAs(id SessionID, name string, token Revision) bool {
	l, ok := s.locks.Get(name)
	return ok && l.session == id && l.token == token
}

// enqueue gives c the last place in the queue of its name.
func (st *step) enqueue(c Lock) {
	p := place{name: c.Name, position: st.next(), waiter: &waiter{c.Session, c.Seq, c.Data}}
	st.queue.Set(p)
	st.waiting.Set(ticket{c.Session, c.Seq, p.name, p.position})
	next := lock{}
	if l, ok := st.locks.Get(c.Name); ok {
		next = *l
	}
	next.waiting++
	st.locks.Set(c.Name, &next)
	st.touched(c.Name)
}

// dequeue removes a place from its queue.
func (st *step) dequeue(p place) {
	st.queue.Delete(p)
	st.waiting.Delete(ticket{session: p.session, seq: p.seq})
	l, _ := st.locks.Get(p.name)
	next := *l
	next.waiting--
	if next.waiting == 0 && next.session == 0 {
		st.locks.Delete(p.name)
	} else {
		st.locks.Set(p.name, &next)
	}
	st.touched(p.name)
}

// grant gives the lock to p, which is in no queue (any more), and answers its Lock. queued is the revision at which
// it was queued, 0 for one that never was.
func (st *step) grant(p place, queued Revision) {
	next := lock{session: p.session, token: st.next(), data: p.data}
	if l, ok := st.locks.Get(p.name); ok {
		next.waiting = l.waiting
	}
	st.locks.Set(p.name, &next)
	st.holds.Set(owned{p.session, p.name})
	st.touched(p.name)
	st.out.Grants = append(st.out.Grants, GrantEvent{
		Name: p.name, Session: p.session, Label: st.label(p.session), Token: next.token, Queued: queued,
	})
	st.answer(Change{Session: p.session, Seq: p.seq}, p.name, Result{Code: OK, Revision: next.token})
}

// release takes a lock from its holder and hands it to the first in the queue that lives. It returns how many dead
// ones it removed on the way.
func (st *step) release(name string, why ReleaseReason) (removed int) {
	l, _ := st.locks.Get(name)
	st.holds.Delete(owned{l.session, name})
	st.out.Releases = append(st.out.Releases, ReleaseEvent{
		Name: name, Session: l.session, Label: st.label(l.session), Token: l.token, Reason: why,
	})
	st.touched(name)
	if l.waiting == 0 {
		st.locks.Delete(name)
		return 0
	}
	st.locks.Set(name, &lock{waiting: l.waiting})
	if st.hold {
		return 0
	}
	return st.handOn(name)
}

// handOn grants a lock that nobody holds to the first in its queue whose session lives. Those before it are removed;
// it returns how many.
func (st *step) handOn(name string) (removed int) {
	for {
		p, ok := st.first(name)
		if !ok {
			return removed
		}
		// With its last waiter dequeue drops the name as well; grant takes it up again.
		st.dequeue(p)
		if _, ok := st.live(p.session); ok {
			st.grant(p, p.position)
			return removed
		}
		st.reply(Change{Session: p.session, Seq: p.seq}, Result{Code: UnknownSession})
		removed++
	}
}

// first returns the first place in the queue of a name.
func (s *State) first(name string) (p place, ok bool) {
	s.queue.Ascend(place{name: name}, func(q place) bool {
		p, ok = q, q.name == name
		return false
	})
	return p, ok
}
