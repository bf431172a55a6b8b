package fsm

import "math"

func (st *step) termStart(c TermStart) {
	st.term, st.start = st.entryTerm, c
	st.out.Started = &c
}

// maxSeconds is some 34,000 years; a Generation that claims more is ignored.
const maxSeconds = 1 << 40

// generation begins a new life of the state. Sessions end at once and completely, whatever the number: it is rare, and
// what comes after it should find nothing of what was before.
func (st *step) generation(c Generation) {
	if c.First && st.formed || c.Seconds > maxSeconds {
		return
	}
	st.revision = max(st.revision+1<<32, Revision(c.Seconds<<23))
	st.formed, st.cell, st.params = true, c.Cell, c.Params.withDefaults()
	var live []SessionID
	st.sessions.Scan(func(id SessionID, s *session) bool {
		if s.end == 0 {
			live = append(live, id)
			st.holdTTL = max(st.holdTTL, s.ttl)
		}
		return true
	})
	if len(live) > 0 {
		st.hold, st.out.Held = true, true
	}
	for _, id := range live {
		s, _ := st.live(id)
		st.end(id, s, SessionExpired)
	}
	st.reap(math.MaxInt)
}

// endHold grants, in every queue, to the first.
func (st *step) endHold(c EndHold) {
	if c.Term != st.entryTerm || !st.hold {
		return
	}
	st.hold, st.holdTTL, st.out.Held = false, 0, true
	var names []string
	st.locks.Scan(func(name string, l *lock) bool {
		if l.session == 0 {
			names = append(names, name)
		}
		return true
	})
	for _, name := range names {
		st.handOn(name)
	}
}

func (st *step) setFormat(c SetFormat) {
	if c.Format > st.Format() {
		st.format, st.out.Format = c.Format, true
	}
}

func (st *step) setMember(m Member) {
	if old, _ := st.members.Get(m.ID); m.ID == "" || old == m {
		return
	}
	st.members.Set(m.ID, m)
	st.out.Members = true
}

func (st *step) removeMember(id string) {
	if _, had := st.members.Delete(id); had {
		st.out.Members = true
	}
}
