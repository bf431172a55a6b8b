package server

import (
	"context"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/lease"
)

// KeepAlive carries one renewal message of this server to whoever leads. It is the only message an interval, whatever
// the number of sessions. It never answers by itself: only an active leader with evidence acknowledges or refuses.
func (s *Server) KeepAlive(ctx context.Context, number uint64, ids []fsm.SessionID) (lease.Reply, error) {
	rt := s.Route()
	switch {
	case rt.Local:
		return s.renew(ctx, number, ids)
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

// renew answers a renewal message as the leader. Its sessions' deadlines move when it arrives, before anything else;
// it is acknowledged when a quorum of voters has answered something that was sent after that. Until then another
// leader may have been elected, who knows nothing of the renewal, and only its being elected later, and giving everybody
// a full TTL from then on, makes an acknowledgement true.
func (s *Server) renew(ctx context.Context, number uint64, ids []fsm.SessionID) (lease.Reply, error) {
	term := s.raft.ActiveTerm()
	if term == 0 {
		return lease.Reply{}, errNotLeader
	}
	stamp := s.raft.Stamp()
	var reply lease.Reply
	for _, id := range ids {
		if !s.expiry.Renew(id, number) {
			reply.Again = append(reply.Again, id)
		}
	}
	if err := s.raft.WaitEvidence(ctx, term, stamp, false); err != nil {
		return lease.Reply{}, err
	}
	refused := reply.Again
	reply.Again = nil
	gone := make(map[fsm.SessionID]bool, len(refused))
	for _, id := range refused {
		gone[id] = true
	}
	s.replica.View(func(state *fsm.State) {
		for _, id := range ids {
			_, live := state.Session(id)
			switch {
			case !live:
				// The session's end is in the log, or it never was: this leader has applied all that was committed
				// when the message arrived, and has evidence that nobody else led by then.
				reply.Dead = append(reply.Dead, id)
			case gone[id], s.expiry.Expiring(id):
				reply.Again = append(reply.Again, id)
			}
		}
	})
	if s.raft.ActiveTerm() != term {
		return lease.Reply{}, errNotLeader
	}
	return reply, nil
}
