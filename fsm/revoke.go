package fsm

// A mark is a level, not an event: it stays until the grant or the session it marks has ended. It takes nothing from
// anybody by itself. The holder's node hears of it with every acknowledgement and stops; that is what makes it safe to
// hand on later, and what Force does without.

func (st *step) revoke(c Revoke) {
	if !st.take(c.Change, c.Name != "", false) {
		return
	}
	h, ok := st.find(c.Name, c.Token)
	if _, live := st.live(h.session); !ok || !live {
		st.answer(c.Change, "", Result{Code: NotHeld})
		return
	}
	m := Mark{h.session, h.token, h.first()}
	if c.Force {
		st.answer(c.Change, "", Result{Code: OK, Revision: st.next()})
		st.release(h, GrantRevoked)
		return
	}
	st.mark(m)
	st.answer(c.Change, "", Result{Code: OK, Revision: st.revision})
}

func (st *step) revokeSession(c RevokeSession) {
	if !st.take(c.Change, c.Target != 0, false) {
		return
	}
	s, ok := st.live(c.Target)
	switch {
	case !ok:
		st.answer(c.Change, "", Result{Code: NoSuchSession})
	case c.Force:
		// The answer comes first: it may be the caller's own session that ends.
		st.answer(c.Change, "", Result{Code: OK, Revision: st.revision + 1})
		st.end(c.Target, s, SessionExpired)
		st.reap(st.params.ReapStep)
	default:
		st.mark(Mark{Session: c.Target})
		st.answer(c.Change, "", Result{Code: OK, Revision: st.revision})
		// Its places in queues go now, or as far as the step goes.
		st.reap(st.params.ReapStep)
	}
}

// mark raises the revision, unless the mark is there already.
func (st *step) mark(m Mark) {
	if _, had := st.marks.Get(m); had {
		return
	}
	st.next()
	st.marks.Set(m)
	st.out.Marked = append(st.out.Marked, m)
}

func (st *step) finishRevoke(c FinishRevoke) {
	if c.Term != st.entryTerm {
		return
	}
	for _, g := range c.Grants {
		if h, ok := st.find(g.Name, g.Token); ok && st.marked(h) {
			st.next()
			st.release(h, GrantRevoked)
		}
	}
	for _, id := range c.Sessions {
		if s, ok := st.live(id); ok && st.leaving(id) {
			st.end(id, s, SessionExpired)
		}
	}
	st.reap(st.params.ReapStep)
}

// leaving reports whether a session is marked.
func (s *State) leaving(id SessionID) bool {
	if s.marks.Len() == 0 {
		return false
	}
	_, ok := s.marks.Get(Mark{Session: id})
	return ok
}

// marked reports whether a grant is marked.
func (s *State) marked(h held) bool {
	if s.marks.Len() == 0 {
		return false
	}
	_, ok := s.marks.Get(Mark{Session: h.session, Token: h.token})
	return ok
}

// stays reports whether only its holder will end a grant: it has not been, and is not being, taken away.
func (s *State) stays(h held) bool { return s.refusal(h.session) == 0 && !s.marked(h) }
