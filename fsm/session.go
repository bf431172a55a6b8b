package fsm

func (st *step) openSession(c OpenSession) {
	reply := func(r Result) {
		st.out.Replies = append(st.out.Replies, Reply{Nonce: c.Nonce, Result: r})
	}
	if c.TTL <= 0 {
		reply(Result{Code: Malformed})
		return
	}
	if known, ok := st.nonces.Get(nonceOf{nonce: c.Nonce}); ok {
		reply(opened(known.session))
		return
	}
	if !c.Internal && st.users >= st.params.Sessions {
		reply(Result{Code: LimitReached, Limit: LimitSessions})
		return
	}
	id := SessionID(st.next())
	s := &session{nonce: c.Nonce, ttl: c.TTL, label: c.Label, node: c.Node, internal: c.Internal}
	st.sessions.Set(id, s)
	st.nonces.Set(nonceOf{c.Nonce, id})
	if !s.internal {
		st.users++
	}
	st.out.Opened = append(st.out.Opened, s.event(id))
	reply(opened(id))
}

// opened is the result of the OpenSession that made id, which is also the revision of that change.
func opened(id SessionID) Result {
	return Result{Code: OK, Revision: Revision(id), Session: id}
}

// closeSession keeps no result: it would go with the session.
func (st *step) closeSession(c CloseSession) {
	if !st.take(c.Change, true, true) {
		return
	}
	s, _ := st.live(c.Session)
	st.reply(c.Change, Result{Code: OK, Revision: st.end(c.Session, s, SessionClosed)})
	st.reap(st.params.ReapStep)
}

// expire ends the sessions it names, unless the leader that decided so was no longer the leader when the entry was
// written: what it knew of renewals was out of date then.
func (st *step) expire(c Expire) {
	if c.Term != st.entryTerm {
		return
	}
	for _, id := range c.Sessions {
		if s, ok := st.live(id); ok {
			st.end(id, s, SessionExpired)
		}
	}
	st.reap(st.params.ReapStep)
}

// end marks a live session as ended. From here on it may do nothing, and what it has left is reaped.
func (st *step) end(id SessionID, s *session, why ReleaseReason) Revision {
	ended := *s
	ended.end = why
	st.sessions.Set(id, &ended)
	st.ended.Set(id, struct{}{})
	st.nonces.Delete(nonceOf{nonce: s.nonce})
	st.marks.Delete(Mark{Session: id})
	if !s.internal {
		st.users--
	}
	st.out.Ended = append(st.out.Ended, ended.event(id))
	return st.next()
}

// live returns a session that has not ended.
func (s *State) live(id SessionID) (*session, bool) {
	found, ok := s.sessions.Get(id)
	if !ok || found.end != 0 {
		return nil, false
	}
	return found, true
}

// label returns the label of a session, be it live or ended.
func (s *State) label(id SessionID) string {
	found, ok := s.sessions.Get(id)
	if !ok {
		panic("fsm: broken invariant: something belongs to a session that does not exist")
	}
	return found.label
}

func (s *session) event(id SessionID) SessionEvent {
	return SessionEvent{
		Session: id, TTL: s.ttl, Label: s.label, Node: s.node, Internal: s.internal,
		Closed: s.end == SessionClosed,
	}
}
