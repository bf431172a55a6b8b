package server

import (
	"context"

	"github.com/coordcell/coord/internal/hub"
)

// BeginWatch says where a watch that is asked for now begins: no earlier than everything that was acknowledged to anybody
// before the call.
func (s *Server) BeginWatch(ctx context.Context, o hub.Options) (hub.Options, error) {
	return o, s.Fresh(ctx)
}

// Watch reads changes, from where BeginWatch has said. See hub.Hub.Watch.
func (s *Server) Watch(o hub.Options, ready func()) (hub.Reader, error) {
	c, err := s.hub.Watch(o, ready)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Observe follows a lock.
func (s *Server) Observe(name string) hub.LockReader { return s.hub.Observe(name) }

// Pump gives turns to the readers of watches.
func (s *Server) Pump() *hub.Pump { return s.hub.Pump() }
