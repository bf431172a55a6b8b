package server

import (
	"context"

	"github.com/coordcell/coord/internal/forming"
)

func (s *Server) tendMembers(ctx context.Context, term uint64) {}

func (s *Server) admit(ctx context.Context, r forming.JoinRequest) forming.JoinReply {
	return forming.JoinReply{Code: forming.Retry}
}
