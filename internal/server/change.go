package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/wire"
)

// Caller makes the calls of this process.
func (s *Server) Caller() *caller.Caller { return s.caller }

// Route says where changes go for now.
func (s *Server) Route() caller.Route {
	changed := s.raft.LeaderChanged() // before the rest is read: nothing is missed
	if s.raft.ActiveTerm() != 0 {
		return caller.Route{Leader: s.id, Local: true, Changed: changed}
	}
	leader, _ := s.raft.Leader()
	if leader == s.id {
		leader = "" // elected, and not serving yet
	}
	return caller.Route{Leader: leader, Changed: changed}
}

// Propose makes one attempt at a change: with this server's own packer if it leads, else with the leader's.
func (s *Server) Propose(ctx context.Context, rt caller.Route, cmd fsm.Command, answers chan<- caller.Answer) (forget func()) {
	if rt.Local {
		return s.proposeHere(cmd, answers)
	}
	return caller.Send(ctx, s.calls, rt.Leader, wire.MethodPropose, cmd, answers)
}

// proposeHere hands a command to this server's own packer.
func (s *Server) proposeHere(cmd fsm.Command, answers chan<- caller.Answer) (forget func()) {
	if err := s.checkFormat(cmd); err != nil {
		if errors.Is(err, errBusy) {
			err = fmt.Errorf("%w: %w", errNotSent, err)
		} else {
			err = &caller.RefusedError{Err: err}
		}
		answers <- caller.Answer{Err: err}
		return func() {}
	}
	key, _ := keyOf(cmd)
	forget = s.replica.Await(key, func(res fsm.Result) { answers <- caller.Answer{Result: res} })
	err := s.packer.submit(proposal{cmd: cmd, failed: func(err error) { answers <- caller.Answer{Err: err} }})
	if err != nil {
		forget()
		answers <- caller.Answer{Err: fmt.Errorf("%w: %w", errNotSent, err)}
	}
	return forget
}
