package history

import (
	"slices"
	"strings"
	"time"
)

// checkExpiry: G8. When somebody has seen a session to be over, its own process does not take it for alive any more, and
// the cell accepts nothing from it. And no session of a process that goes on expires sooner than half a TTL after it was
// asked for: that leaves room for clocks that go wrong on purpose. (A node that is shut down closes its sessions, so what
// others see early says nothing.)
func (v *view) checkExpiry() {
	over := v.sessionsOver()
	opened := make(map[uint64]*Op)
	for i := range v.h.Ops {
		op := &v.h.Ops[i]
		if op.Kind == Open && op.Outcome == OK {
			opened[op.Session] = op
		}
		end, ok := over[op.Session]
		if ok && op.provesLife() && op.Call > end.at {
			v.add("G8", op.Call, "session %d was over by %v (%v): %v", op.Session, end.at, end.by, op)
		}
		open := opened[op.Session]
		if open != nil && op.Return != Pending && strings.Contains(op.Err, textExpired) && op.Return < open.Call+open.TTL/2 {
			v.add("G8", op.Return, "much less than a TTL after %v: %v", open, op)
		}
	}
}

// sessionsOver is when each session was first known to be over, and from what: an ephemeral key of its expired, or a
// lock that it never gave back was granted to another.
func (v *view) sessionsOver() map[uint64]mark {
	over := make(map[uint64]mark)
	note := func(session uint64, at time.Duration, by any) {
		if m, ok := over[session]; session != 0 && (!ok || at < m.at) {
			over[session] = mark{at: at, by: by}
		}
	}
	for i := range v.h.Batches {
		for _, e := range v.h.Batches[i].Events {
			if e.Type == eventExpire {
				note(e.Session, v.h.Batches[i].At, e)
			}
		}
	}
	for _, name := range names(v.grants) {
		freed := make(map[uint64]bool)
		for _, op := range v.locks[name] {
			if op.frees() {
				freed[op.Token] = true
			}
		}
		var next *grant // of the later ones, the one that was known first
		for _, g := range slices.Backward(v.grants[name]) {
			if next != nil && g.op != nil && !freed[g.token] {
				note(g.session, next.known, next)
			}
			if next == nil || g.known < next.known {
				next = g
			}
		}
	}
	return over
}
