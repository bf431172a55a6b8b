package server

import (
	"context"
	"fmt"

	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/wire"
)

// Ask carries one question of this process to whoever leads. It never answers by itself: only an active leader with
// evidence does.
func (s *Server) Ask(ctx context.Context, kind wire.AskKind, question []byte) ([]byte, error) {
	return s.ask(ctx, wire.Ask{Kind: kind, Question: question})
}

// ask has a question answered here, if this server leads, or by the leader.
func (s *Server) ask(ctx context.Context, m wire.Ask) ([]byte, error) {
	rt := s.Route()
	switch {
	case rt.Local:
		return s.answerAsk(ctx, m)
	case rt.Leader == "", m.Passed:
		return nil, errNotLeader
	}
	m.Passed = true
	return s.calls.Call(ctx, rt.Leader, wire.MethodAsk, m.Append(nil))
}

// serveAsk takes a question of a client, or one that another server passes on.
func (s *Server) serveAsk(ctx context.Context, req *calls.Request) {
	m, err := wire.DecodeAsk(req.Payload)
	if err != nil {
		req.Fail(err)
		return
	}
	s.later(req, func() ([]byte, error) {
		ctx, done := context.WithTimeout(ctx, 2*s.cfg.ElectionTimeout)
		defer done()
		return s.ask(ctx, m)
	})
}

// answerAsk answers a question as the leader.
func (s *Server) answerAsk(ctx context.Context, m wire.Ask) ([]byte, error) {
	switch m.Kind {
	case wire.AskRefresh:
		q, err := wire.DecodeRefresh(m.Question)
		if err != nil {
			return nil, err
		}
		a, err := s.refresh(ctx, q)
		return a.Append(nil), err
	case wire.AskHeld:
		q, err := wire.DecodeHeld(m.Question)
		if err != nil {
			return nil, err
		}
		a, err := s.heldBy(ctx, q)
		return a.Append(nil), err
	case wire.AskStopped:
		q, err := wire.DecodeStopped(m.Question)
		if err != nil {
			return nil, err
		}
		return nil, s.hear(q)
	default:
		return nil, fmt.Errorf("%w: a question of kind %d", calls.ErrUnknownMethod, m.Kind)
	}
}
