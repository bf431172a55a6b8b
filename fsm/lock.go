package fsm

import (
	"math"
	"slices"
)

func (st *step) lock(c Lock) {
	ttl := int64(math.MaxInt64)
	if s, ok := st.live(c.Session); ok && c.Terms != nil {
		ttl = s.ttl
	}
	if !st.take(c.Change, c.Name != "" && c.Terms.wellFormed(c.Name, ttl), false) {
		return
	}
	w := &waiter{c.Session, c.Seq, newClaim(c)}
	switch refused, at := st.judge(c, w); {
	case refused.Code != 0:
		st.answer(c.Change, "", refused)
	case at:
		st.grant(c.Name, w, 0)
	default:
		st.enqueue(c.Name, w)
	}
}

// judge says how a Lock is refused, or else whether it is granted now.
func (st *step) judge(c Lock, w *waiter) (refused Result, now bool) {
	if st.leaving(c.Session) {
		return Result{Code: Revoked}, false
	}
	now = !st.hold
	unused, full := 0, false
	for i := range w.claim.width() {
		name := w.claim.at(i, c.Name)
		l, used := st.locks.Get(name)
		if !used {
			unused++
			continue
		}
		if n := st.slots(name, l); n > 0 && w.claim != nil && w.claim.slots > 0 && w.claim.slots != n {
			return Result{Code: SlotsMismatch, Slots: n}, false
		}
		now = now && l.waiting == 0 && st.admits(name, l, w.claim)
		full = full || int(l.waiting) >= st.params.Waiters
	}
	if w.claim != nil && len(w.claim.holding) > 0 {
		if !st.keepHeld(c.Name, w) {
			return Result{Code: Upgrade}, false
		}
	}
	switch {
	case !now && c.Try:
		return Result{Code: Locked}, false
	case unused > 0 && st.locks.Len()+unused > st.params.Locks:
		return Result{Code: LimitReached, Limit: LimitLocks}, false
	case now:
		return Result{}, true
	case full:
		return Result{Code: LimitReached, Limit: LimitWaiters}, false
	}
	if cycle := st.cycle(c.Name, w); cycle != nil {
		return Result{Code: Deadlock, Cycle: cycle}, false
	}
	return Result{}, false
}

// keepHeld leaves of what the caller says it holds what is held, by a session that lives and in its own right: all
// else stands in nobody's way for long. It reports false if one of those is held under a name that the caller asks
// for in another way.
func (st *step) keepHeld(name string, w *waiter) bool {
	kept := w.claim.holding
	for i, g := range w.claim.holding {
		h, ok := st.find(g.Name, g.Token)
		if !ok || !st.stays(h) {
			if len(kept) == len(w.claim.holding) {
				kept = slices.Clone(kept[:i]) // it is the command's
			}
			continue
		}
		if len(kept) < len(w.claim.holding) {
			kept = append(kept, g)
		}
		for i := range h.claim.width() {
			for j := range w.claim.width() {
				if h.claim.at(i, h.name) == w.claim.at(j, name) && !h.claim.sameWay(w.claim) {
					return false
				}
			}
		}
	}
	w.claim.holding = kept // the claim is new, and nobody else's yet
	return true
}

func (st *step) unlock(c Unlock) {
	// A holder must be able to free what it holds, however many of its own session wait for it.
	h, held := st.heldAs(c.Session, c.Name, c.Token)
	if !st.take(c.Change, c.Name != "", held) {
		return
	}
	if !held {
		st.answer(c.Change, "", Result{Code: NotHeld})
		return
	}
	st.answer(c.Change, "", Result{Code: OK, Revision: st.next()})
	st.release(h, Unlocked)
}

func (st *step) setData(c SetData) {
	if !st.take(c.Change, c.Name != "", false) {
		return
	}
	h, ok := st.heldAs(c.Session, c.Name, c.Token)
	if !ok {
		st.answer(c.Change, "", Result{Code: NotHeld})
		return
	}
	claim := h.claim.withData(c.Data)
	for i := range claim.width() {
		name := claim.at(i, h.name)
		if claim.exclusive() {
			next := st.lockOf(name)
			next.claim = claim
			st.locks.Set(name, &next)
		} else {
			next, _ := st.holders.Get(holder{name: name, token: h.token})
			next.claim = claim
			st.holders.Set(next)
		}
		st.touched(name)
	}
	st.answer(c.Change, "", Result{Code: OK, Revision: st.next()})
}

// handOver passes the queue by, which is the holder's right: those who are passed wait for one holder after the other
// as before.
func (st *step) handOver(c HandOver) {
	if !st.take(c.Change, c.Name != "" && c.To != 0, false) {
		return
	}
	h, ok := st.heldAs(c.Session, c.Name, c.Token)
	p, queued := st.candidate(c.To, c.Name)
	switch {
	case !ok:
		st.answer(c.Change, "", Result{Code: NotHeld})
	case st.marked(h) || st.refusal(c.To) == Revoked:
		st.answer(c.Change, "", Result{Code: Revoked})
	case !queued || !h.claim.exclusive() || h.claim.width() > 1:
		st.answer(c.Change, "", Result{Code: NotQueued})
	default:
		st.answer(c.Change, "", Result{Code: OK, Revision: st.next()})
		st.dequeue(p)
		st.takeBack(h, HandedOver)
		st.grant(p.name, p.waiter, p.position)
	}
}

// candidate returns the first place of a session that lives in the queue of a name, among those that wait for the name
// alone and for themselves alone.
func (s *State) candidate(id SessionID, name string) (p place, ok bool) {
	if _, live := s.live(id); !live {
		return place{}, false
	}
	s.waiting.Ascend(ticket{session: id}, func(t ticket) bool {
		if t.session != id {
			return false
		}
		if t.name == name && (!ok || t.position < p.position) {
			if q := s.placeOf(t); q.claim.exclusive() && q.claim.width() == 1 {
				p, ok = q, true
			}
		}
		return true
	})
	return p, ok
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
		p := st.placeOf(t)
		st.dequeue(p)
		st.settle(target, true)
		st.reply(target, Result{Code: Withdrawn})
		st.answer(c.Change, "", Result{Code: code, Revision: st.next()})
		st.handOnAll(p)
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
	if !granted {
		st.answer(c.Change, "", Result{Code: OK})
	} else if h, held := st.heldAs(c.Session, was.name, was.Revision); held {
		st.answer(c.Change, "", Result{Code: OK, Revision: st.next()})
		st.release(h, Unlocked)
	} else {
		st.answer(c.Change, "", Result{Code: OK})
	}
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
