package fsm

// lock asks for a lock, every other time in a way of its own.
func (g *generator) lock(s *State, name string) Command {
	c := Lock{Change: g.change(s), Name: name, Data: g.value(), Try: g.chance(5)}
	if g.chance(2) {
		return c
	}
	t := &Terms{}
	for g.chance(3) && len(t.More) < 4 {
		t.More = append(t.More, g.name())
	}
	switch g.choose(4) {
	case 0:
		t.Shared = true
	case 1:
		t.Slots = 1 + g.choose(3)
		if !g.chance(4) { // all agree, usually
			t.Slots = 2
		}
	}
	if g.chance(5) {
		t.TTL = int64(g.choose(20))
	}
	if g.chance(4) {
		t.Delay = int64(g.choose(3))
	}
	for g.chance(2) && len(t.Holding) < 4 {
		t.Holding = append(t.Holding, g.grant(s, c.Session))
	}
	if g.chance(60) {
		t.Slots, t.Shared = g.choose(3)-1, g.chance(2)
	}
	c.Terms = t
	return c
}

// grant picks a grant, of the session given if there is one at the name that comes up.
func (g *generator) grant(s *State, id SessionID) GrantID {
	name := g.name()
	v := s.Lookup(name)
	for i := 0; len(v.Holders) == 0 && i < 3; i++ {
		name = g.name()
		v = s.Lookup(name)
	}
	if len(v.Holders) == 0 || g.chance(10) {
		return GrantID{name, s.Revision()}
	}
	for _, h := range v.Holders {
		if h.Session == id {
			return GrantID{name, h.Token}
		}
	}
	return GrantID{name, v.Holders[g.choose(len(v.Holders))].Token}
}

// decision is what a leader decides, and what steps in from outside.
func (g *generator) decision(s *State, name string) Command {
	switch g.choose(10) {
	case 0, 1:
		c := HandOver{Change: g.holder(s, name), Name: name, Token: g.token(s, name), To: g.session(s)}
		if q := s.Lookup(name).Queue; len(q) > 0 && !g.chance(3) {
			c.To = q[g.choose(len(q))].Session
		}
		return c
	case 2:
		id := g.grant(s, 0)
		return Revoke{Change: g.change(s), Name: id.Name, Token: id.Token, Force: g.chance(3)}
	case 3:
		c := RevokeSession{Change: g.change(s), Target: g.session(s), Force: g.chance(3)}
		if g.chance(3) {
			c.Target = SessionID(s.Revision()) // hardly one
		}
		return c
	case 4, 5:
		c := EndDelay{Term: g.otherTerm()}
		for l := range s.Delays() {
			if g.chance(2) {
				c.Losses = append(c.Losses, GrantID{l.Name, l.Token})
			}
		}
		return c
	case 6:
		c := FinishRevoke{Term: g.otherTerm()}
		for m := range s.Marks() {
			if m.Token == 0 && g.chance(2) {
				c.Sessions = append(c.Sessions, m.Session)
			} else if m.Token != 0 {
				c.Grants = append(c.Grants, GrantID{m.Name, m.Token})
			}
		}
		if g.chance(4) {
			c.Grants, c.Sessions = append(c.Grants, g.grant(s, 0)), append(c.Sessions, g.session(s))
		}
		return c
	case 7:
		if g.chance(10) {
			return SetFormat{Format: uint16(g.choose(4))}
		}
		fallthrough
	default:
		c := ExpireGrants{Term: g.otherTerm(), Grants: []GrantID{g.grant(s, 0)}}
		for l := range s.Leases() {
			if g.chance(3) {
				c.Grants = append(c.Grants, l.GrantID)
			}
		}
		return c
	}
}
