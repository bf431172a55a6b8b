package server

import (
	"context"

	"github.com/coordcell/coord/fsm"
)

// asLeader is how only the leader's word is given. arrive is called at once; it moves deadlines, or does nothing. look
// makes the answer from the state, when a quorum of voters has answered something that was sent after arrive was called.
// Until then another leader may have been elected, who knows nothing of what arrived, and only its being elected later,
// and giving everybody a full TTL from then on, makes an acknowledgement true. What look says is not is not: this leader
// has applied all that was committed when it was asked, and has evidence that nobody else led by then.
//
// urgent asks for a round of evidence at once. Errors: errNotLeader, also when the term has ended meanwhile; ctx's.
func (s *Server) asLeader(ctx context.Context, urgent bool, arrive func(), look func(*fsm.State)) error {
	term := s.raft.ActiveTerm()
	if term == 0 {
		return errNotLeader
	}
	stamp := s.raft.Stamp()
	arrive()
	if err := s.raft.WaitEvidence(ctx, term, stamp, urgent); err != nil {
		return err
	}
	s.replica.View(look)
	if s.raft.ActiveTerm() != term {
		return errNotLeader
	}
	return nil
}
