package server

import (
	"context"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/forming"
	"github.com/coordcell/coord/internal/gossip"
)

// memberState shows package forming the members in the cell's state.
type memberState struct{ s *Server }

func (m memberState) Members() (out []gossip.Peer) {
	m.s.replica.View(func(state *fsm.State) {
		for _, member := range state.Members() {
			out = append(out, gossip.Peer(member))
		}
	})
	return out
}

func (m memberState) SetMember(ctx context.Context, p gossip.Peer) error {
	return m.s.propose(ctx, fsm.SetMember{Member: fsm.Member(p)})
}

func (m memberState) RemoveMember(ctx context.Context, id string) error {
	return m.s.propose(ctx, fsm.RemoveMember{ID: id})
}

// tendMembers keeps the cell's members in order for as long as this server leads the term.
func (s *Server) tendMembers(ctx context.Context) {
	m := forming.NewMembership(forming.MembershipConfig{
		ID: s.id, Raft: s.raft, State: memberState{s}, View: s.gossip,
		ElectionTimeout: s.cfg.ElectionTimeout, Logger: s.log,
	})
	s.lead.mu.Lock()
	s.lead.members = m
	s.lead.mu.Unlock()
	m.Run(ctx)
	s.lead.mu.Lock()
	if s.lead.members == m {
		s.lead.members = nil
	}
	s.lead.mu.Unlock()
}

// admit decides about a server that asks to join.
func (s *Server) admit(ctx context.Context, r forming.JoinRequest) forming.JoinReply {
	s.lead.mu.Lock()
	m := s.lead.members
	s.lead.mu.Unlock()
	if m == nil {
		return forming.JoinReply{Code: forming.Redirect, Leader: s.leader(), Reason: errNotLeader.Error()}
	}
	return m.Admit(ctx, r)
}
