package caller

import (
	"context"
	"slices"
	"sync"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/lease"
	"github.com/coordcell/coord/internal/wire"
)

// A mark says that the cell is about to take a grant, or a whole session, from its holder. It comes with acknowledgements.
// Whoever it concerns stops, and only then the node tells the leader so, which hands on what was marked: nobody of this
// process passes Check on it when the message leaves, nor ever after.
//
//	mark arrives, the grant is registered      stop is called, then the stop is confirmed
//	mark arrives, it is not                    nobody acts on it: confirmed at once. Remembered: if the answer to the
//	                                           Lock comes after all, OnMark calls stop before it returns
//
// Both look at one map under one mutex, so that one of the two happens, whatever the order.
//
// A session with a grace period may miss a mark, and its end: while it was suspended, no acknowledgement came. Before one
// revives it, the cell is asked which of its grants are left (review). What was granted before that answer, and was not
// among what was asked for, is as if it were marked: nobody knows whether it outlived the time that was missed.

// marks is what one session knows of its grants being taken away. It is small unless somebody steps in: what was marked
// is remembered until the session is forgotten, 8 bytes for each.
type marks struct {
	mu     sync.Mutex
	grants map[fsm.Revision]*registered // that somebody of this process may act on, by token
	marked map[fsm.Revision]struct{}
	doubt  fsm.Revision // tokens up to here that are not registered count as marked
}

type registered struct {
	name string
	stop func()
}

// OnMark registers a grant that this process is about to act on. stop is called, once, when the cell says that the grant
// is marked; if it has said so already, before OnMark returns. It ends the hold at once, and must not block: when it
// returns, nobody may act on the grant any more. The caller hands the grant out only if the hold has not ended after
// OnMark; one that has is released. The grant counts as stopped, and its stop is never called, after forget, which is
// called when the hold has ended.
//
// A session that is marked as a whole needs nothing of this: its lease is ended, with ErrSessionExpired.
func (x *Session) OnMark(g fsm.GrantID, stop func()) (forget func()) {
	x.marks.mu.Lock()
	if x.marks.isMarked(g.Token) {
		x.marks.mu.Unlock()
		stop()
		return func() {}
	}
	if x.marks.grants == nil {
		x.marks.grants = make(map[fsm.Revision]*registered)
	}
	x.marks.grants[g.Token] = &registered{g.Name, stop}
	x.marks.mu.Unlock()
	return func() {
		x.marks.mu.Lock()
		defer x.marks.mu.Unlock()
		delete(x.marks.grants, g.Token)
	}
}

// Marked reports whether the cell has said that a grant is marked. One that was before it was registered must not be
// handed out.
func (x *Session) Marked(token fsm.Revision) bool {
	x.marks.mu.Lock()
	defer x.marks.mu.Unlock()
	return x.marks.isMarked(token)
}

// isMarked, under mu.
func (m *marks) isMarked(token fsm.Revision) bool {
	if _, registered := m.grants[token]; registered {
		return false
	}
	_, marked := m.marked[token]
	return marked || token <= m.doubt
}

// mark takes note of a mark, and stops whoever it concerns.
func (m *marks) mark(token fsm.Revision) {
	m.mu.Lock()
	found := m.grants[token]
	delete(m.grants, token)
	if m.marked == nil {
		m.marked = make(map[fsm.Revision]struct{})
	}
	m.marked[token] = struct{}{}
	m.mu.Unlock()
	if found != nil {
		found.stop()
	}
}

// heed stops what is marked, and then has the leader told. Marks of sessions that this process does not have any more
// are confirmed as well: their leases have ended.
func (c *Caller) heed(all []fsm.Mark) {
	for _, m := range all {
		x := c.sessions.find(m.Session)
		switch {
		case x == nil:
		case m.Token == 0:
			x.lease.End(ErrSessionExpired)
		default:
			x.marks.mark(m.Token)
		}
	}
	c.stopped.confirm(c, all)
}

// keepAlive is lease.Send: what is marked stops before the acknowledgement that says so takes effect.
func (c *Caller) keepAlive(ctx context.Context, number uint64, ids []fsm.SessionID) (lease.Reply, error) {
	reply, err := c.cfg.Cell.KeepAlive(ctx, number, ids)
	if err != nil {
		return reply, err
	}
	c.heed(reply.Marks)
	for _, id := range ids {
		x := c.sessions.find(id)
		if x == nil || x.lease.State() != lease.Suspended || slices.Contains(reply.Dead, id) || slices.Contains(reply.Again, id) {
			continue
		}
		if err := x.review(ctx); err != nil {
			c.cfg.Logger.Debug("a suspended session could not be reviewed", "session", id, "error", err)
			reply.Again = append(reply.Again, id)
		}
	}
	return reply, nil
}

// reviewed is how many grants one question names.
const reviewed = 2048

// review asks which grants of a suspended session are left, before an acknowledgement revives it, and ends the others.
//
// The renewal was sent before the question. A mark that was made before the answer is in it, or the grant is gone and is
// in it; one that is made later takes effect one TTL later at the earliest, unless its stop has been confirmed, and by
// then the revived lease is over or has been acknowledged by an answer that carries the mark. A lease that was not
// suspended when an acknowledgement came needs no review: it was acknowledged within the last TTL, so that whatever was
// marked meanwhile is still marked, or was confirmed.
func (x *Session) review(ctx context.Context) error {
	x.marks.mu.Lock()
	all := make([]fsm.GrantID, 0, len(x.marks.grants))
	for token, r := range x.marks.grants {
		all = append(all, fsm.GrantID{Name: r.name, Token: token})
	}
	x.marks.mu.Unlock()
	left := make(map[fsm.Revision]bool, len(all))
	for _, g := range all {
		left[g.Token] = true
	}
	for {
		n := min(len(all), reviewed)
		payload, err := x.caller.cfg.Cell.Ask(ctx, wire.AskHeld, wire.Held{Session: x.id, Grants: all[:n]}.Append(nil))
		if err != nil {
			return err
		}
		a, err := wire.DecodeHeldAnswer(payload)
		if err != nil {
			return err
		}
		x.caller.heed(a.Marks)
		for _, token := range a.Lost {
			left[token] = false
		}
		if all = all[n:]; len(all) == 0 {
			x.marks.settle(left, a.Revision)
			return nil
		}
	}
}

// settle ends what is not left at a revision: what is lost, and what came in meanwhile and was granted before.
func (m *marks) settle(left map[fsm.Revision]bool, at fsm.Revision) {
	var gone []fsm.Revision
	m.mu.Lock()
	m.doubt = max(m.doubt, at)
	for token := range m.grants {
		if token <= at && !left[token] {
			gone = append(gone, token)
		}
	}
	m.mu.Unlock()
	for _, token := range gone {
		m.mark(token)
	}
}

// find returns a session that lives in this process, nil if there is none of this id.
func (s *sessions) find(id fsm.SessionID) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

// stopped are the marks whose stop the leader has not been told of yet. One message at a time tells of many. A stop that
// was told to a leader that was replaced right after is told again: the next acknowledgement carries the mark once more.
type stopped struct {
	mu      sync.Mutex
	pending map[fsm.Mark]struct{}
	running bool
}

// confirmed is how many marks one message names.
const confirmed = 2048

func (s *stopped) confirm(c *Caller, all []fsm.Mark) {
	if len(all) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == nil {
		s.pending = make(map[fsm.Mark]struct{})
	}
	for _, m := range all {
		s.pending[m] = struct{}{}
	}
	if !s.running {
		s.running = c.cfg.Go(func() { s.run(c) })
	}
}

// run tells the leader, for as long as there is something to tell.
func (s *stopped) run(c *Caller) {
	for try := 0; ; {
		s.mu.Lock()
		all := make([]fsm.Mark, 0, min(len(s.pending), confirmed))
		for m := range s.pending {
			if all = append(all, m); len(all) == cap(all) {
				break
			}
		}
		if len(all) == 0 || c.cfg.Stop.Err() != nil {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		rt := c.cfg.Cell.Route()
		err := c.tellStopped(rt, all)
		if err == nil {
			s.mu.Lock()
			for _, m := range all {
				delete(s.pending, m)
			}
			s.mu.Unlock()
			try = 0
			continue
		}
		_ = c.Pause(c.cfg.Stop, rt, try) // it ends when the node stops, which is looked at above
		try++
	}
}

func (c *Caller) tellStopped(rt Route, all []fsm.Mark) error {
	if rt.Leader == "" {
		return ErrNotLeader
	}
	ctx, done := context.WithTimeout(c.cfg.Stop, 2*c.cfg.ElectionTimeout)
	defer done()
	_, err := c.cfg.Cell.Ask(ctx, wire.AskStopped, wire.Stopped{Marks: all}.Append(nil))
	return err
}
