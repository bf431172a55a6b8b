package server

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/expiry"
	"github.com/coordcell/coord/internal/wire"
)

// timed is what the leader times beside sessions. Each table follows the rules of package expiry: it begins anew with
// the leader's term, with the full time for everything that the state has then, marks before it proposes, needs evidence,
// and proposes with its term, so that a decision is ignored in the log of any other.
//
// Leases of grants are to their holders what the session's lease is: an acknowledgement of a Refresh moves the deadline
// here on arrival, and leaves with evidence from after that. So G3 holds for them by the same argument.
//
// Delays nobody renews. A new leader begins them anew, which can only make them longer.
//
// A mark is finished when the holder's node has confirmed that it stopped, or a TTL of the holder's session after the
// mark was applied here. Every acknowledgement that is made after that moment carries the mark. So a holder that is
// acknowledged stops, and one that is not is over a TTL after its last renewal, which was sent before the mark. Under a
// new leader the TTL begins anew: an acknowledgement that does not carry the mark was given by an earlier one, for a
// renewal that it received before this one was elected.
type timed struct {
	leases *expiry.Table[fsm.GrantID] // by the first name
	delays *expiry.Table[fsm.GrantID] // by the very name
	marks  *expiry.Table[fsm.Mark]
}

func newTimed(s *Server) timed {
	grants := func(propose func(context.Context, uint64, []fsm.GrantID) error) *expiry.Table[fsm.GrantID] {
		return expiry.New(expiry.Config[fsm.GrantID]{Now: s.now, Compare: compareGrants, Evidence: s.evidence, Propose: propose})
	}
	return timed{
		leases: grants(s.expireGrants),
		delays: grants(s.endDelays),
		marks:  expiry.New(expiry.Config[fsm.Mark]{Now: s.now, Compare: compareMarks, Evidence: s.evidence, Propose: s.finishRevoke}),
	}
}

func compareGrants(a, b fsm.GrantID) int {
	return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Name, b.Name))
}

func compareMarks(a, b fsm.Mark) int {
	return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Name, b.Name))
}

// start begins a term. See Server.activated.
func (t *timed) start(term uint64, state *fsm.State) {
	t.leases.Start(term, func(yield func(fsm.GrantID, time.Duration) bool) {
		for l := range state.Leases() {
			if !yield(l.GrantID, time.Duration(l.TTL)) {
				return
			}
		}
	})
	t.delays.Start(term, func(yield func(fsm.GrantID, time.Duration) bool) {
		for d := range state.Delays() {
			if !yield(fsm.GrantID{Name: d.Name, Token: d.Token}, time.Duration(d.Delay)) {
				return
			}
		}
	})
	t.marks.Start(term, patience(state, state.Marks()))
}

// patience says how long a mark waits for the confirmation of the holder: one TTL of its session. A grant whose session
// has ended is taken from it by reaping.
func patience(state *fsm.State, marks iter.Seq[fsm.Mark]) iter.Seq2[fsm.Mark, time.Duration] {
	return func(yield func(fsm.Mark, time.Duration) bool) {
		for m := range marks {
			if v, live := state.Session(m.Session); live && !yield(m, time.Duration(v.TTL)) {
				return
			}
		}
	}
}

func (t *timed) stop() {
	t.leases.Stop()
	t.delays.Stop()
	t.marks.Stop()
}

func (t *timed) close() {
	if t.leases != nil {
		t.leases.Close()
		t.delays.Close()
		t.marks.Close()
	}
}

// applied is told what an entry did. What it began comes before what it ended: it may be the same.
func (t *timed) applied(out *fsm.Output, view func(func(*fsm.State))) {
	for i := range out.Grants {
		if g := &out.Grants[i]; g.TTL > 0 {
			t.leases.Opened(fsm.GrantID{Name: g.Name, Token: g.Token}, time.Duration(g.TTL))
		}
	}
	for _, d := range out.Delayed {
		t.delays.Opened(fsm.GrantID{Name: d.Name, Token: d.Token}, time.Duration(d.Delay))
	}
	if len(out.Marked) > 0 {
		view(func(state *fsm.State) {
			for m, ttl := range patience(state, func(yield func(fsm.Mark) bool) {
				for _, m := range out.Marked {
					if !yield(m) {
						return
					}
				}
			}) {
				t.marks.Opened(m, ttl)
			}
		})
	}
	for i := range out.Releases {
		r := &out.Releases[i]
		t.leases.Ended(fsm.GrantID{Name: r.Name, Token: r.Token})
		if r.Reason == fsm.GrantRevoked {
			t.marks.Ended(fsm.Mark{Session: r.Session, Token: r.Token, Name: r.Name})
		}
	}
	for _, e := range out.Ended {
		t.marks.Ended(fsm.Mark{Session: e.Session})
	}
}

// expireGrants writes the end of grants whose own leases the table has marked. It returns when that has been applied.
func (s *Server) expireGrants(ctx context.Context, term uint64, grants []fsm.GrantID) error {
	s.log.Debug("locks expire", "count", len(grants), "term", term)
	return s.propose(ctx, fsm.ExpireGrants{Term: term, Grants: grants})
}

// endDelays writes the end of delays. That an entry was applied does not say that it was one of this term: the delays
// that it ended are those that the state does not have any more.
func (s *Server) endDelays(ctx context.Context, term uint64, losses []fsm.GrantID) error {
	if err := s.propose(ctx, fsm.EndDelay{Term: term, Losses: losses}); err != nil {
		return err
	}
	s.replica.View(func(state *fsm.State) {
		for _, g := range losses {
			if !state.Delayed(g) {
				s.timed.delays.Ended(g)
			}
		}
	})
	return nil
}

// finishRevoke takes from their holders what is marked.
func (s *Server) finishRevoke(ctx context.Context, term uint64, marks []fsm.Mark) error {
	cmd := fsm.FinishRevoke{Term: term}
	for _, m := range marks {
		if m.Token == 0 {
			cmd.Sessions = append(cmd.Sessions, m.Session)
		} else {
			cmd.Grants = append(cmd.Grants, fsm.GrantID{Name: m.Name, Token: m.Token})
		}
	}
	return s.propose(ctx, cmd)
}

// marksInAnswer bounds the marks that one answer carries.
const marksInAnswer = 2048

// marksOf appends the marks of a session to those that an answer has already. False: some did not fit, so the session
// must not be acknowledged by it. When those that did have been confirmed, there is room for others.
func marksOf(state *fsm.State, id fsm.SessionID, marks []fsm.Mark, had int) ([]fsm.Mark, bool) {
	for m := range state.MarksOf(id) {
		if had+len(marks) >= marksInAnswer {
			return marks, false
		}
		marks = append(marks, m)
	}
	return marks, true
}

// refresh answers a Refresh as the leader, in the way of renew. That a grant is not held is said of what has been granted:
// whoever was told of the grant was told by this leader, or by one before its term, and what that had applied this one has
// applied, too.
func (s *Server) refresh(ctx context.Context, m wire.Refresh) (wire.RefreshAnswer, error) {
	key, moved := m.Grant, false
	a := wire.RefreshAnswer{Number: m.Number, State: wire.RefreshAgain}
	err := s.asLeader(ctx, false, func() {
		s.replica.View(func(state *fsm.State) {
			if g, held := state.Grant(key.Name, key.Token); held {
				key.Name = g.Name
			}
		})
		moved = s.timed.leases.Renew(key, m.Number)
	}, func(state *fsm.State) {
		g, held := state.Grant(key.Name, key.Token)
		var all bool
		a.Marks, all = marksOf(state, m.Session, nil, 0)
		switch {
		case !held || g.Session != m.Session:
			a.State = wire.RefreshGone
		case all && (g.TTL == 0 || moved && !s.timed.leases.Expiring(key)):
			a.State = wire.Refreshed
		}
	})
	if err != nil {
		return wire.RefreshAnswer{}, err
	}
	return a, nil
}

// heldBy answers a Held as the leader.
func (s *Server) heldBy(ctx context.Context, m wire.Held) (a wire.HeldAnswer, err error) {
	all := false
	err = s.asLeader(ctx, true, func() {}, func(state *fsm.State) {
		a.Revision = state.Revision()
		for _, asked := range m.Grants {
			if g, held := state.Grant(asked.Name, asked.Token); !held || g.Session != m.Session {
				a.Lost = append(a.Lost, asked.Token)
			}
		}
		a.Marks, all = marksOf(state, m.Session, nil, 0)
	})
	if err == nil && !all {
		err = errNotLeader
	}
	if err != nil {
		return wire.HeldAnswer{}, err
	}
	return a, nil
}

// hear takes a holder's word that it has stopped. If this server does not lead any more, the next leader will hear it: its
// acknowledgements carry the mark again. What is not marked any more is passed over.
func (s *Server) hear(m wire.Stopped) error {
	if s.raft.ActiveTerm() == 0 {
		return errNotLeader
	}
	for _, mark := range m.Marks {
		s.timed.marks.Hasten(mark)
	}
	return nil
}
