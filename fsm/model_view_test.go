package fsm

import (
	"fmt"
	"slices"
)

func (m *model) lookup(name string) LockView {
	v := LockView{}
	for _, g := range m.at(name) {
		if !m.live(g.Session) {
			v.Freeing = true
			continue
		}
		h := Holder{
			Session: g.Session, Label: m.sessions[g.Session].Label, Token: g.token, Data: orNil(g.Data),
			Shared: g.terms().Shared, Slot: g.slot[name], TTL: g.terms().TTL, Revoked: !m.stays(g),
		}
		if len(g.names()) > 1 {
			h.Names = g.names()
		}
		v.Holders = append(v.Holders, h)
	}
	for _, l := range m.losses {
		if l.Name == name {
			v.Freeing = true
			v.Delayed = append(v.Delayed, DelayEvent{name, l.token, l.terms().Delay})
		}
	}
	slices.SortFunc(v.Delayed, func(a, b DelayEvent) int { return int(a.Token) - int(b.Token) })
	for _, r := range m.queue(name) {
		if m.mayHave(r.Session) {
			w := Waiter{
				Session: r.Session, Label: m.sessions[r.Session].Label, Seq: r.Seq, Queued: r.position,
				Shared: r.terms().Shared, Slots: r.terms().Slots,
			}
			if len(r.names()) > 1 {
				w.Names = r.names()
			}
			v.Queue = append(v.Queue, w)
		}
	}
	v.Slots = m.slots(name)
	return v
}

func (m *model) uses(id SessionID) (u Uses) {
	if m.sessions[id] == nil {
		return u
	}
	for _, g := range m.grants {
		if g.Session == id {
			u.Locks += len(g.names())
		}
	}
	for _, kv := range m.keys {
		if kv.Session == id {
			u.Keys++
		}
	}
	for _, r := range m.requests {
		if r.Session == id {
			u.Waiting++
		}
	}
	return u
}

func (m *model) levels() (list []string) {
	for _, g := range m.grants {
		if ttl := g.terms().TTL; ttl > 0 {
			list = append(list, fmt.Sprint("lease ", g.Name, g.token, g.Session, ttl))
		}
		if g.marked {
			list = append(list, fmt.Sprint("mark ", g.Session, g.token, g.Name))
		}
	}
	for _, l := range m.losses {
		list = append(list, fmt.Sprint("delay ", l.Name, l.token, l.terms().Delay))
	}
	for id, s := range m.sessions {
		if s.marked && s.end == 0 {
			list = append(list, fmt.Sprint("mark ", id, Revision(0), ""))
		}
	}
	slices.Sort(list)
	return list
}

// deadlock reports whether c would wait for itself. Everybody is looked at: a request is free if all that is in its way
// will go without c, and c is refused if it is not free, but would be if its caller held nothing.
func (m *model) deadlock(c Lock) bool {
	return len(c.terms().Holding) > 0 && !m.willBeGranted(c, true) && m.willBeGranted(c, false)
}

func (m *model) willBeGranted(c Lock, holds bool) bool {
	own := &modelRequest{c, m.rev + 1}
	all := append(slices.Clone(m.requests), own)
	free := map[*modelRequest]bool{}
	// goes reports whether a grant will go.
	goes := func(g *modelGrant) bool {
		if !m.stays(g) {
			return true
		}
		for _, r := range all {
			if r == own && !holds || !m.mayHave(r.Session) || free[r] {
				continue
			}
			for _, id := range r.terms().Holding {
				// What was not held when it was said does not count, and tokens are given once.
				if id.Token == g.token && g.on(id.Name) {
					return false
				}
			}
		}
		return true
	}
	for range len(all) + 1 {
		for _, r := range all {
			ok := true
			for _, name := range r.names() {
				alone := false // somebody up to r asks in another way than it is held
				for _, other := range all {
					if other.position > r.position || !other.on(name) || other != r && !m.mayHave(other.Session) {
						continue
					}
					ok = ok && (other == r || free[other])
					for _, g := range m.at(name) {
						alone = alone || g.way() != other.way() || g.way() == "alone"
					}
				}
				gone := 0
				for _, g := range m.at(name) {
					if goes(g) {
						gone++
					}
				}
				switch held := m.at(name); {
				case len(held) == 0:
				case alone:
					ok = ok && gone == len(held)
				case held[0].way() == "slots":
					ok = ok && (gone > 0 || len(held) < held[0].terms().Slots)
				}
			}
			if ok {
				free[r] = true
			}
		}
	}
	return free[own]
}
