package server

import (
	"context"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/lease"
	"github.com/coordcell/coord/internal/wire"
)

// KeepAlive carries one renewal message of this server to whoever leads. It is the only message an interval, whatever
// the number of sessions. It never answers by itself: only an active leader with evidence acknowledges or refuses.
func (s *Server) KeepAlive(ctx context.Context, number uint64, ids []fsm.SessionID) (lease.Reply, error) {
	rt := s.Route()
	switch {
	case rt.Local:
		answers, err := s.renew(ctx, []wire.RenewGroup{{Number: number, Sessions: ids}})
		if err != nil {
			return lease.Reply{}, err
		}
		return lease.Reply{Dead: answers[0].Dead, Again: answers[0].Again, Marks: answers[0].Marks}, nil
	case rt.Leader == "":
		select { // not to be asked again before there is somebody to ask
		case <-rt.Changed:
		case <-ctx.Done():
		}
		return lease.Reply{}, errNotLeader
	default:
		ctx, cancel := context.WithTimeout(ctx, 2*s.cfg.ElectionTimeout)
		defer cancel()
		return s.askKeepAlive(ctx, rt.Leader, number, ids)
	}
}

// renew answers renewal messages as the leader, all with one wait. Their sessions' deadlines move when they arrive, before
// anything else.
func (s *Server) renew(ctx context.Context, groups []wire.RenewGroup) ([]wire.RenewedGroup, error) {
	refused := make(map[fsm.SessionID]bool)
	answers := make([]wire.RenewedGroup, len(groups))
	err := s.asLeader(ctx, false, func() {
		for _, g := range groups {
			for _, id := range g.Sessions {
				if !s.expiry.Renew(id, g.Number) {
					refused[id] = true
				}
			}
		}
	}, func(state *fsm.State) {
		marks := 0 // in the answers before
		for i, g := range groups {
			a := &answers[i]
			a.Number = g.Number
			for _, id := range g.Sessions {
				if _, live := state.Session(id); !live { // its end is in the log, or it never was
					a.Dead = append(a.Dead, id)
					continue
				}
				var all bool
				a.Marks, all = marksOf(state, id, a.Marks, marks)
				if !all || refused[id] || s.expiry.Expiring(id) {
					a.Again = append(a.Again, id)
				}
			}
			marks += len(a.Marks)
		}
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}
