package fsm

// Lease is a grant that has a TTL of its own.
type Lease struct {
	GrantID // its first name
	Session SessionID
	TTL     int64 // nanoseconds
}

// expireGrants ends grants, unless the leader that decided so was no longer the leader when the entry was written: what
// it knew of refreshes was out of date then.
func (st *step) expireGrants(c ExpireGrants) {
	if c.Term != st.entryTerm {
		return
	}
	for _, g := range c.Grants {
		if h, ok := st.find(g.Name, g.Token); ok && h.claim != nil && h.claim.ttl > 0 {
			st.next()
			st.release(h, LockExpired)
		}
	}
}

// endDelay makes room where losses stood. The leader of another term has timed them anew, or will.
func (st *step) endDelay(c EndDelay) {
	if c.Term != st.entryTerm {
		return
	}
	for _, g := range c.Losses {
		if gone, ok := st.losses.Delete(loss{name: g.Name, token: g.Token}); ok {
			st.next()
			st.forget(g.Name, gone)
			st.touched(g.Name)
			st.handOn(g.Name)
		}
	}
}
