package fsm

func (b *builder) addGrant(r GrantRecord) error {
	if err := b.enter(atGrants); err != nil {
		return err
	}
	c, err := b.claim(r.Names, Terms{Shared: r.Shared, Slots: int(r.Slots), TTL: r.TTL, Delay: r.Delay}, r.Data)
	if err != nil {
		return err
	}
	h := held{name: r.Names[0], session: r.Session, token: r.Token, claim: c}
	if p := (place{name: h.name, position: h.token}); b.place.name != "" && !b.place.before(p) {
		return damaged("grant %q/%d after %q/%d", h.name, h.token, b.place.name, b.place.position)
	} else {
		b.place = p
	}
	if _, ok := b.sessions.Get(r.Session); !ok || b.hold {
		return damaged("grant %q/%d: held by session %d", h.name, h.token, r.Session)
	}
	switch wanted := c.slots > 0; {
	case c.plain() || len(r.Slot) > 0 != wanted || wanted && len(r.Slot) != len(r.Names):
		return damaged("grant %q/%d: contradictory", h.name, h.token)
	}
	for i := range c.width() {
		h.name = c.at(i, r.Names[0])
		if l, ok := b.locks.Get(h.name); ok && !b.admits(h.name, l, c) {
			return damaged("lock %q: another grant is in the way of %d", h.name, h.token)
		}
		if c.slots > 0 {
			h.slot = r.Slot[i]
		}
		if err := b.hasSlots(h.name, c.slots, h.slot); err != nil {
			return err
		}
		b.occupyAt(h)
	}
	b.count(c, 1)
	if c.ttl > 0 {
		b.leases.Set(Lease{GrantID{r.Names[0], h.token}, h.session, c.ttl})
	}
	return b.given(r.Token)
}

// claim makes what a request asks for, or a grant has.
func (b *builder) claim(names []string, t Terms, data []byte) (*claim, error) {
	if len(names) == 0 || names[0] == "" {
		return nil, damaged("a grant or a request without a name")
	}
	t.More = names[1:]
	if !t.wellFormed(names[0], t.TTL) {
		return nil, damaged("%q: contradictory terms %+v", names[0], t)
	}
	return newClaim(Lock{Name: names[0], Data: data, Terms: &t}), nil
}

// occupyAt is occupy, with the slot given.
func (b *builder) occupyAt(h held) {
	if h.claim.slots == 0 {
		b.occupy(h)
		return
	}
	b.fill(h.name, h.claim.slots, h.slot)
	b.holders.Set(holder(h))
	b.stakes.Set(stake{h.session, h.name, h.token})
}

// fill takes a slot that is free. Those below it that nobody has taken become vacancies.
func (b *builder) fill(name string, slots, slot uint32) {
	c, _ := b.crowds.Get(name)
	c.slots = slots
	c.taken++
	b.vacant.Delete(vacancy{name, slot})
	for ; c.top <= slot; c.top++ {
		if c.top < slot {
			b.vacant.Set(vacancy{name, c.top})
		}
	}
	b.setCrowd(name, c)
}

// hasSlots checks that a slot exists and is free, and that there are as many as others say.
func (b *builder) hasSlots(name string, slots, slot uint32) error {
	if slots == 0 {
		return nil
	}
	c, _ := b.crowds.Get(name)
	_, vacant := b.vacant.Get(vacancy{name, slot})
	if slot >= slots || c.slots != 0 && c.slots != slots || slot < c.top && !vacant {
		return damaged("lock %q: slot %d of %d is taken, or does not exist", name, slot, slots)
	}
	return nil
}

func (b *builder) addLoss(r LossRecord) error {
	if err := b.enter(atLosses); err != nil {
		return err
	}
	t := Terms{Shared: r.Shared, Slots: int(r.Slots), Delay: r.Delay}
	c, err := b.claim([]string{r.Name}, t, nil)
	if err != nil {
		return err
	}
	gone := loss{r.Name, r.Token, r.Delay, r.Shared, r.Slots, r.Slot}
	if last, ok := b.losses.Max(); ok && !last.before(gone) || r.Delay == 0 {
		return damaged("loss %q/%d: delay %d, or out of order", r.Name, r.Token, r.Delay)
	}
	if l, ok := b.locks.Get(r.Name); ok && !b.admits(r.Name, l, c) {
		return damaged("lock %q: a grant is in the way of the loss of %d", r.Name, r.Token)
	}
	if err := b.hasSlots(r.Name, r.Slots, r.Slot); err != nil {
		return err
	}
	b.losses.Set(gone)
	switch crowd, _ := b.crowds.Get(r.Name); {
	case r.Slots > 0:
		b.fill(r.Name, r.Slots, r.Slot)
	case r.Shared:
		crowd.readers++
		b.setCrowd(r.Name, crowd)
	default:
		crowd.shut = true
		b.setCrowd(r.Name, crowd)
	}
	return b.given(r.Token)
}

func (b *builder) addMark(r MarkRecord) error {
	if err := b.enter(atMarks); err != nil {
		return err
	}
	m := r.Mark
	if last, ok := b.marks.Max(); ok && !last.before(m) {
		return damaged("mark %d/%d after %d/%d", m.Session, m.Token, last.Session, last.Token)
	}
	h, held := b.find(m.Name, m.Token)
	if _, live := b.live(m.Session); m.Token == 0 && (!live || m.Name != "") ||
		m.Token != 0 && (!held || h.session != m.Session || h.first() != m.Name) {
		return damaged("mark of what there is not: %+v", m)
	}
	b.marks.Set(m)
	return nil
}

func (b *builder) addRequest(r RequestRecord) error {
	if err := b.enter(atRequests); err != nil {
		return err
	}
	c, err := b.claim(r.Names, Terms{
		Shared: r.Shared, Slots: int(r.Slots), TTL: r.TTL, Delay: r.Delay, Holding: r.Holding,
	}, r.Data)
	if err != nil {
		return err
	}
	if c.plain() {
		return damaged("request %q/%d: it asks for nothing", r.Names[0], r.Position)
	}
	return b.queued(place{r.Names[0], r.Position, &waiter{r.Session, r.Seq, c}})
}

// checkQueues checks, when all is there, that nobody waits for what he could have.
func (b *builder) checkQueues() (err error) {
	if !b.hold {
		b.locks.Scan(func(name string, l *lock) bool {
			if l.waiting == 0 || !b.room(name, l) {
				return true
			}
			if p, _ := b.first(name); b.grantable(p) {
				err = damaged("queue of %q, which is free", name)
			}
			return err == nil
		})
	}
	return err
}
