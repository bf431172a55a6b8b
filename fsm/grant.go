package fsm

// held is a grant, as it is found at one of its names.
type held struct {
	name    string
	token   Revision
	session SessionID
	slot    uint32
	claim   *claim
}

func (h held) first() string { return h.claim.at(0, h.name) }

// find returns the grant (name, token), whether or not its session lives.
func (s *State) find(name string, token Revision) (held, bool) {
	l, ok := s.locks.Get(name)
	switch {
	case !ok || token == 0:
		return held{}, false
	case l.session != 0:
		return held{name: name, session: l.session, token: l.token, claim: l.claim}, l.token == token
	case !l.crowded:
		return held{}, false
	}
	h, ok := s.holders.Get(holder{name: name, token: token})
	return held(h), ok
}

// heldAs returns this very grant if the session holds it, which the caller knows to be live.
func (s *State) heldAs(id SessionID, name string, token Revision) (held, bool) {
	h, ok := s.find(name, token)
	return h, ok && h.session == id && h.token == token
}

// grant gives w what it asks for, and answers its Lock. It is in no queue (any more). name is its name, if it has but
// one; queued is the revision at which it was queued, 0 if it never was.
func (st *step) grant(name string, w *waiter, queued Revision) {
	h := held{session: w.session, token: st.next(), claim: w.claim.granted()}
	first := h.claim.at(0, name)
	g := GrantEvent{Name: first, Session: h.session, Label: st.label(h.session), Token: h.token, Queued: queued}
	for i := range h.claim.width() {
		h.name = h.claim.at(i, name)
		slot := st.occupy(h)
		if i == 0 {
			g.Slot = int(slot)
		}
		st.touched(h.name)
	}
	if c := h.claim; !c.plain() {
		st.count(c, 1)
		g.Names, g.Shared, g.Slots, g.TTL = c.names, c.shared, int(c.slots), c.ttl
		if c.ttl > 0 {
			st.leases.Set(Lease{GrantID{first, h.token}, h.session, c.ttl})
		}
	}
	st.out.Grants = append(st.out.Grants, g)
	st.answer(Change{Session: w.session, Seq: w.seq}, first, Result{Code: OK, Revision: h.token, Slot: uint32(g.Slot)})
}

// count keeps up how many grants there are that a LockRecord does not hold, and n is one of them more or less.
func (s *State) count(c *claim, n int) {
	s.grants += n
	if c.exclusive() {
		s.special += n * c.width()
	}
}

// occupy makes a grant hold one of its names, and returns the slot, if it is in one.
func (s *State) occupy(h held) (slot uint32) {
	if h.claim.exclusive() {
		next := &lock{session: h.session, token: h.token, claim: h.claim}
		if l, used := s.locks.Set(h.name, next); used { // no clone has seen next yet: to look first costs as much again
			next.waiting, next.crowded = l.waiting, l.crowded
		}
		s.holds.Set(owned{h.session, h.name})
		return 0
	}
	c, _ := s.crowds.Get(h.name)
	if h.claim.shared {
		c.readers++
	} else {
		c.slots = h.claim.slots
		h.slot = s.takeSlot(h.name, &c)
	}
	s.setCrowd(h.name, c)
	s.holders.Set(holder(h))
	s.stakes.Set(stake{h.session, h.name, h.token})
	return h.slot
}

// release takes a grant back and hands its names on. It returns how many dead places it removed on the way.
func (st *step) release(h held, why ReleaseReason) (removed int) {
	st.takeBack(h, why)
	for i := range h.claim.width() {
		removed += st.handOn(h.claim.at(i, h.name))
	}
	return removed
}

// takeBack ends a grant. One that is marked ends as revoked, in whatever way it ends: its holder did not stop because
// it was done.
func (st *step) takeBack(h held, why ReleaseReason) {
	first := h.first()
	if _, marked := st.marks.Delete(Mark{Session: h.session, Token: h.token}); marked {
		why = GrantRevoked
	}
	r := ReleaseEvent{Name: first, Session: h.session, Label: st.label(h.session), Token: h.token, Reason: why}
	delay := int64(0)
	if c := h.claim; !c.plain() {
		st.count(c, -1)
		r.Names = c.names
		st.leases.Delete(Lease{GrantID: GrantID{Token: h.token}})
		if why.loss() {
			delay = c.delay
		}
	}
	st.out.Releases = append(st.out.Releases, r)
	for i := range h.claim.width() {
		st.vacate(h.claim.at(i, h.name), h, delay)
	}
}

// vacate takes one name from a grant. With a delay a loss takes its place.
func (st *step) vacate(name string, h held, delay int64) {
	st.touched(name)
	gone := loss{name: name, token: h.token, delay: delay}
	if h.claim.exclusive() {
		st.holds.Delete(owned{h.session, name})
		l, _ := st.locks.Get(name)
		st.setLock(name, lock{waiting: l.waiting, crowded: l.crowded})
	} else {
		was, _ := st.holders.Delete(holder{name: name, token: h.token})
		st.stakes.Delete(stake{h.session, name, h.token})
		gone.shared, gone.slots, gone.slot = was.claim.shared, was.claim.slots, was.slot
	}
	if delay > 0 {
		st.losses.Set(gone)
		st.out.Delayed = append(st.out.Delayed, DelayEvent{name, h.token, delay})
	}
	switch c, _ := st.crowds.Get(name); {
	case !h.claim.exclusive() && delay == 0:
		st.forget(name, gone)
	case h.claim.exclusive() && delay > 0:
		c.shut = true
		st.setCrowd(name, c)
	}
}

// forget makes room where a loss stood, or would have stood but for its delay.
func (s *State) forget(name string, gone loss) {
	c, _ := s.crowds.Get(name)
	switch {
	case gone.shared:
		c.readers--
	case gone.slots > 0:
		s.freeSlot(name, &c, gone.slot)
	default:
		c.shut = false
	}
	s.setCrowd(name, c)
}
