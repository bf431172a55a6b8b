package fsm

import (
	"maps"
	"slices"
)

// modelLocks is the part of the model that knows locks: three lists, searched from end to end.
type modelLocks struct {
	requests []*modelRequest // in the order in which they were queued
	grants   []*modelGrant   // in the order of their tokens
	losses   []modelGrant    // each of one name
}

// modelRequest is a Lock that is queued.
type modelRequest struct {
	Lock
	position Revision
}

// modelGrant is what became of one.
type modelGrant struct {
	Lock
	token  Revision
	slot   map[string]int // of each name
	marked bool
}

func (c Lock) terms() Terms {
	if c.Terms == nil {
		return Terms{}
	}
	return *c.Terms
}

func (c Lock) names() []string { return append([]string{c.Name}, c.terms().More...) }

func (c Lock) on(name string) bool { return slices.Contains(c.names(), name) }

// way is how a lock is wanted or held: alone, shared, or in slots.
func (c Lock) way() string {
	switch t := c.terms(); {
	case t.Shared:
		return "shared"
	case t.Slots > 0:
		return "slots"
	}
	return "alone"
}

// used returns the names in use, in order.
func (m *model) used() []string {
	names := map[string]bool{}
	for _, r := range m.requests {
		for _, name := range r.names() {
			names[name] = true
		}
	}
	for _, g := range m.grants {
		for _, name := range g.names() {
			names[name] = true
		}
	}
	for _, l := range m.losses {
		names[l.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// at returns the grants of a name.
func (m *model) at(name string) (list []*modelGrant) {
	for _, g := range m.grants {
		if g.on(name) {
			list = append(list, g)
		}
	}
	return list
}

// kept returns what is held at a name, or was lost and kept back.
func (m *model) kept(name string) (list []modelGrant) {
	for _, g := range m.at(name) {
		list = append(list, *g)
	}
	for _, l := range m.losses {
		if l.Name == name {
			list = append(list, l)
		}
	}
	return list
}

// queue returns the requests for a name.
func (m *model) queue(name string) (list []*modelRequest) {
	for _, r := range m.requests {
		if r.on(name) {
			list = append(list, r)
		}
	}
	return list
}

func (m *model) queued(id SessionID, seq uint64) *modelRequest {
	for _, r := range m.requests {
		if r.Session == id && r.Seq == seq {
			return r
		}
	}
	return nil
}

func (m *model) grant(name string, token Revision) *modelGrant {
	for _, g := range m.grants {
		if g.token == token && g.on(name) {
			return g
		}
	}
	return nil
}

func (m *model) grantOf(id SessionID, name string, token Revision) *modelGrant {
	if g := m.grant(name, token); g != nil && g.Session == id {
		return g
	}
	return nil
}

func (m *model) lockCommand(c Command) {
	switch c := c.(type) {
	case Lock:
		t := c.terms()
		ok := c.Name != "" && t.Slots >= 0 && t.Slots <= MaxSlots && !(t.Shared && t.Slots > 0) && t.TTL >= 0 && t.Delay >= 0
		for i, name := range c.names() {
			ok = ok && name != "" && !slices.Contains(c.names()[:i], name)
		}
		ok = ok && len(c.names()) <= MaxNames && len(t.Holding) <= MaxHolding
		if s := m.sessions[c.Session]; s != nil && s.end == 0 && t.TTL > s.TTL {
			ok = false
		}
		if s := m.begin(c.Change, ok); s != nil {
			m.lock(c, s)
		}
	case Unlock:
		if s := m.begin(c.Change, c.Name != ""); s != nil {
			if g := m.grantOf(c.Session, c.Name, c.Token); g == nil {
				m.finish(c.Change, Result{Code: NotHeld})
			} else {
				m.rev++
				m.finish(c.Change, Result{Code: OK, Revision: m.rev})
				m.release(g, Unlocked)
			}
		}
	case Withdraw:
		if s := m.begin(c.Change, c.Target != 0 && c.Target != c.Seq); s != nil {
			m.withdraw(s, c)
		}
	case SetData:
		if s := m.begin(c.Change, c.Name != ""); s != nil {
			if g := m.grantOf(c.Session, c.Name, c.Token); g == nil {
				m.finish(c.Change, Result{Code: NotHeld})
			} else {
				m.rev++
				g.Data = c.Data
				m.finish(c.Change, Result{Code: OK, Revision: m.rev})
			}
		}
	case HandOver:
		if s := m.begin(c.Change, c.Name != "" && c.To != 0); s != nil {
			m.handOver(c)
		}
	case Revoke:
		if s := m.begin(c.Change, c.Name != ""); s != nil {
			m.revoke(c)
		}
	case RevokeSession:
		if s := m.begin(c.Change, c.Target != 0); s != nil {
			m.revokeSession(c)
		}
	default:
		m.leaderCommand(c)
	}
}

// leaderCommand performs what the leader decides, if it is the leader of this very term.
func (m *model) leaderCommand(c Command) {
	switch c := c.(type) {
	case ExpireGrants:
		for _, id := range c.Grants {
			if g := m.grant(id.Name, id.Token); c.Term == m.term && g != nil && g.terms().TTL > 0 {
				m.rev++
				m.release(g, LockExpired)
			}
		}
	case EndDelay:
		for _, id := range c.Losses {
			same := func(l modelGrant) bool { return l.Name == id.Name && l.token == id.Token }
			if c.Term == m.term && slices.ContainsFunc(m.losses, same) {
				m.rev++
				m.losses = slices.DeleteFunc(slices.Clone(m.losses), same)
				m.handOn(id.Name)
			}
		}
	case FinishRevoke:
		if c.Term != m.term {
			return
		}
		for _, id := range c.Grants {
			if g := m.grant(id.Name, id.Token); g != nil && g.marked {
				m.rev++
				m.release(g, GrantRevoked)
			}
		}
		for _, id := range c.Sessions {
			if m.live(id) && m.sessions[id].marked {
				m.end(id, SessionExpired)
			}
		}
		m.reap(m.params.ReapStep)
	}
}

func (m *model) lock(c Lock, s *modelSession) {
	used := m.used()
	unused, full, now := 0, false, !m.hold
	for _, name := range c.names() {
		if !slices.Contains(used, name) {
			unused++
		}
		if n := m.slots(name); c.terms().Slots > 0 && n > 0 && n != c.terms().Slots && !s.marked {
			m.finish(c.Change, Result{Code: SlotsMismatch, Slots: uint32(n)})
			return
		}
		q := m.queue(name)
		now = now && len(q) == 0 && m.admits(name, c)
		full = full || len(q) >= m.params.Waiters
	}
	switch {
	case s.marked:
		m.finish(c.Change, Result{Code: Revoked})
	case m.upgrade(c):
		m.finish(c.Change, Result{Code: Upgrade})
	case c.Try && !now:
		m.finish(c.Change, Result{Code: Locked})
	case unused > 0 && len(used)+unused > m.params.Locks:
		m.finish(c.Change, Result{Code: LimitReached, Limit: LimitLocks})
	case now:
		m.give(c, 0)
	case full:
		m.finish(c.Change, Result{Code: LimitReached, Limit: LimitWaiters})
	case m.deadlock(c):
		m.finish(c.Change, Result{Code: Deadlock})
	default:
		m.rev++
		m.requests = append(m.requests, &modelRequest{c, m.rev})
	}
}

// slots is how many slots those say there are who have one, lost one, or ask for one.
func (m *model) slots(name string) int {
	for _, g := range m.kept(name) {
		if n := g.terms().Slots; n > 0 {
			return n
		}
	}
	for _, r := range m.queue(name) {
		if n := r.terms().Slots; n > 0 {
			return n
		}
	}
	return 0
}

// admits reports whether nothing that is kept of a name is in the way.
func (m *model) admits(name string, c Lock) bool {
	kept := m.kept(name)
	for _, g := range kept {
		if g.way() != c.way() || g.way() == "alone" {
			return false
		}
	}
	return c.way() != "slots" || len(kept) < c.terms().Slots
}

func (m *model) upgrade(c Lock) bool {
	for _, id := range c.terms().Holding {
		if g := m.grant(id.Name, id.Token); g != nil && m.stays(g) && g.way() != c.way() {
			if slices.ContainsFunc(g.names(), c.on) {
				return true
			}
		}
	}
	return false
}

// stays: nobody is about to take it away.
func (m *model) stays(g *modelGrant) bool { return !g.marked && m.mayHave(g.Session) }

func (m *model) mayHave(id SessionID) bool { return m.live(id) && !m.sessions[id].marked }

func (m *model) give(c Lock, queued Revision) {
	m.rev++
	g := &modelGrant{Lock: c, token: m.rev, slot: map[string]int{}}
	g.Data = orNil(c.Data)
	for _, name := range c.names() {
		taken := map[int]bool{}
		for _, other := range m.kept(name) {
			taken[other.slot[name]] = true
		}
		for c.way() == "slots" && taken[g.slot[name]] {
			g.slot[name]++
		}
	}
	m.grants = append(m.grants, g)
	m.sessions[c.Session].granted[c.Seq] = c.Name
	e := GrantEvent{
		Name: c.Name, Session: c.Session, Token: m.rev, Queued: queued,
		Shared: c.terms().Shared, Slots: c.terms().Slots, Slot: g.slot[c.Name], TTL: c.terms().TTL,
	}
	if len(c.names()) > 1 {
		e.Names = c.names()
	}
	m.out.Grants = append(m.out.Grants, e)
	m.finish(c.Change, Result{Code: OK, Revision: m.rev, Slot: uint32(e.Slot)})
}

// remove takes a grant away from its holder, and keeps its names back if it was lost.
func (m *model) remove(g *modelGrant, why ReleaseReason) {
	if g.marked {
		why = GrantRevoked
	}
	m.grants = slices.DeleteFunc(m.grants, func(other *modelGrant) bool { return other == g })
	e := ReleaseEvent{Name: g.Name, Session: g.Session, Token: g.token, Reason: why}
	if len(g.names()) > 1 {
		e.Names = g.names()
	}
	m.out.Releases = append(m.out.Releases, e)
	delay := g.terms().Delay
	if delay == 0 || why == Unlocked || why == SessionClosed || why == HandedOver {
		return
	}
	for _, name := range g.names() {
		l := modelGrant{Lock: Lock{Name: name}, token: g.token, slot: g.slot}
		l.Terms = &Terms{Shared: g.terms().Shared, Slots: g.terms().Slots, Delay: delay}
		m.losses = append(m.losses, l)
		m.out.Delayed = append(m.out.Delayed, DelayEvent{name, g.token, delay})
	}
}

// release returns how many dead places it removed.
func (m *model) release(g *modelGrant, why ReleaseReason) (removed int) {
	m.remove(g, why)
	for _, name := range g.names() {
		removed += m.handOn(name)
	}
	return removed
}

func (m *model) leave(r *modelRequest) {
	m.requests = slices.DeleteFunc(m.requests, func(other *modelRequest) bool { return other == r })
}

// handOn looks at the queue of a name, then at those of the other names of what left it.
func (m *model) handOn(name string) (removed int) {
	if m.hold {
		return 0
	}
	look := []string{name}
	for len(look) > 0 {
		q := m.queue(look[0])
		if len(q) == 0 || !m.room(look[0]) || m.mayHave(q[0].Session) && !m.grantable(q[0]) {
			look = look[1:]
			continue
		}
		r := q[0]
		m.leave(r)
		for _, other := range r.names() {
			if other != look[0] {
				look = append(look, other)
			}
		}
		if m.mayHave(r.Session) {
			m.give(r.Lock, r.position)
		} else {
			m.turnAway(r)
			removed += len(r.names())
		}
	}
	return removed
}

func (m *model) turnAway(r *modelRequest) {
	if m.live(r.Session) {
		m.finish(r.Change, Result{Code: Revoked})
	} else {
		m.reply(r.Change, Result{Code: UnknownSession})
	}
}

// room reports whether anybody would be admitted.
func (m *model) room(name string) bool {
	return m.admits(name, Lock{Terms: &Terms{Shared: true}}) || m.admits(name, Lock{Terms: &Terms{Slots: max(1, m.slots(name))}})
}

func (m *model) grantable(r *modelRequest) bool {
	for _, name := range r.names() {
		if m.queue(name)[0] != r || !m.admits(name, r.Lock) {
			return false
		}
	}
	return true
}

func (m *model) withdraw(s *modelSession, c Withdraw) {
	r, known := s.results[c.Target]
	lockName, granted := s.granted[c.Target]
	if q := m.queued(c.Session, c.Target); q != nil {
		m.leave(q)
		s.refused[c.Target] = true
		m.reply(Change{Session: c.Session, Seq: c.Target}, Result{Code: Withdrawn})
		m.rev++
		code := OK
		if c.OnlyQueued {
			code = Locked
		}
		m.finish(c.Change, Result{Code: code, Revision: m.rev})
		for _, name := range q.names() {
			m.handOn(name)
		}
		return
	}
	if known && granted && c.OnlyQueued {
		m.finish(c.Change, Result{Code: Granted, Revision: r.Revision})
		return
	}
	delete(s.results, c.Target)
	delete(s.granted, c.Target)
	s.refused[c.Target] = true
	if g := m.grantOf(c.Session, lockName, r.Revision); known && granted && g != nil {
		m.rev++
		m.finish(c.Change, Result{Code: OK, Revision: m.rev})
		m.release(g, Unlocked)
		return
	}
	m.finish(c.Change, Result{Code: OK})
}

func (m *model) handOver(c HandOver) {
	g := m.grantOf(c.Session, c.Name, c.Token)
	var to *modelRequest
	for _, r := range m.requests {
		if to == nil && r.Session == c.To && r.Name == c.Name && len(r.names()) == 1 && r.way() == "alone" {
			to = r
		}
	}
	switch {
	case g == nil:
		m.finish(c.Change, Result{Code: NotHeld})
	case g.marked, m.live(c.To) && m.sessions[c.To].marked:
		m.finish(c.Change, Result{Code: Revoked})
	case to == nil || !m.live(c.To) || len(g.names()) > 1 || g.way() != "alone":
		m.finish(c.Change, Result{Code: NotQueued})
	default:
		m.rev++
		m.finish(c.Change, Result{Code: OK, Revision: m.rev})
		m.leave(to)
		m.remove(g, HandedOver)
		m.give(to.Lock, to.position)
	}
}

func (m *model) revoke(c Revoke) {
	g := m.grant(c.Name, c.Token)
	switch {
	case g == nil || !m.live(g.Session):
		m.finish(c.Change, Result{Code: NotHeld})
	case c.Force:
		m.rev++
		m.finish(c.Change, Result{Code: OK, Revision: m.rev})
		m.release(g, GrantRevoked)
	default:
		if !g.marked {
			m.rev++
			m.out.Marked = append(m.out.Marked, Mark{g.Session, g.token, g.Name})
		}
		g.marked = true
		m.finish(c.Change, Result{Code: OK, Revision: m.rev})
	}
}

func (m *model) revokeSession(c RevokeSession) {
	switch {
	case !m.live(c.Target):
		m.finish(c.Change, Result{Code: NoSuchSession})
		return
	case c.Force:
		m.finish(c.Change, Result{Code: OK, Revision: m.rev + 1})
		m.end(c.Target, SessionExpired)
	default:
		if s := m.sessions[c.Target]; !s.marked {
			m.rev++
			s.marked = true
			m.out.Marked = append(m.out.Marked, Mark{Session: c.Target})
		}
		m.finish(c.Change, Result{Code: OK, Revision: m.rev})
	}
	m.reap(m.params.ReapStep)
}

// firstGrant is the grant of a session whose turn it is to be reaped: what it has alone before the rest, each by name.
func (m *model) firstGrant(id SessionID) (first *modelGrant) {
	for _, alone := range []bool{true, false} {
		for _, name := range m.used() {
			for _, g := range m.at(name) {
				if g.Session == id && (g.way() == "alone") == alone {
					return g
				}
			}
		}
	}
	return nil
}

func (m *model) reapQueued(id SessionID, why Code, budget int) int {
	for budget > 0 {
		var next *modelRequest
		for _, r := range m.requests {
			if r.Session == id && (next == nil || r.Seq < next.Seq) {
				next = r
			}
		}
		if next == nil {
			break
		}
		m.leave(next)
		m.turnAway(next)
		budget -= len(next.names())
		for _, name := range next.names() {
			budget -= m.handOn(name)
		}
	}
	return budget
}
