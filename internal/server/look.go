package server

import (
	"strconv"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/wire"
)

// sessionsAnswered is how many sessions one answer has at most.
const sessionsAnswered = 1000

// lookAtLocks fills an answer with locks until it has partBytes. One that would fill it alone is only named: who wants it
// asks for it by name, and gets it in parts.
func (s *Server) lookAtLocks(r wire.Read, a *wire.ReadAnswer) {
	state := s.replica.Clone()
	a.Revision = state.Revision()
	bytes := 0
	for name, v := range state.Locks(r.Name, r.After) {
		if bytes >= partBytes || r.Limit > 0 && len(a.Locks) == r.Limit {
			a.More = true
			return
		}
		l := wire.LockAnswer{Name: name, Lock: v}
		size := lockBytes(v)
		if l.Large = size > partBytes/4; l.Large {
			l.Lock, size = fsm.LockView{}, 0
		}
		l.Held, l.Waited = s.since(l.Lock)
		a.Locks = append(a.Locks, l)
		bytes += size + len(name) + 32
	}
}

// lookAtSessions fills an answer with users' sessions.
func (s *Server) lookAtSessions(r wire.Read, a *wire.ReadAnswer) {
	state := s.replica.Clone()
	a.Revision = state.Revision()
	after, _ := strconv.ParseUint(r.After, 10, 64) // of a client: what is no number is the beginning
	for v := range state.SessionsAfter(fsm.SessionID(after)) {
		if v.Internal {
			continue
		}
		if len(a.Sessions) == sessionsAnswered {
			a.More = true
			return
		}
		a.Sessions = append(a.Sessions, wire.SessionAnswer{ID: v.ID, Label: v.Label, Node: v.Node, TTL: v.TTL, Uses: state.Uses(v.ID)})
	}
}

// since says for how long this server has seen the holders hold and the waiters wait.
func (s *Server) since(v fsm.LockView) (held, waited []time.Duration) {
	for _, h := range v.Holders {
		held = append(held, s.replica.Since(h.Token))
	}
	for _, w := range v.Queue {
		waited = append(waited, s.replica.Since(w.Queued))
	}
	return held, waited
}

// lockBytes is about as much as a lock takes in a message.
func lockBytes(v fsm.LockView) (n int) {
	for _, h := range v.Holders {
		n += holderBytes(h)
	}
	for _, w := range v.Queue {
		n += waiterBytes(w)
	}
	return n + 64*len(v.Delayed)
}

func holderBytes(h fsm.Holder) int {
	return 64 + len(h.Label) + len(h.Data) + namesBytes(h.Names)
}

func waiterBytes(w fsm.Waiter) int { return 56 + len(w.Label) + namesBytes(w.Names) }

func namesBytes(names []string) (n int) {
	for _, name := range names {
		n += len(name) + 5
	}
	return n
}
