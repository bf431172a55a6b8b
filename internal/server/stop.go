package server

import "context"

// Shutdown ends the sessions of this process, hands leadership on, and stops. When ctx ends first it stops at once.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.Leave(ctx, s.caller, s.handOn)
	s.end(ErrClosed)
	return err
}

// handOn hands leadership on, if this server leads.
func (s *Server) handOn(ctx context.Context) {
	if s.raft.ActiveTerm() == 0 {
		return
	}
	ctx, done := context.WithTimeout(ctx, 2*s.cfg.ElectionTimeout)
	defer done()
	if err := s.raft.Transfer(ctx, ""); err != nil {
		s.log.Debug("leadership was not handed on", "error", err)
	}
}

// Close stops at once.
func (s *Server) Close() error {
	s.end(ErrClosed)
	return nil
}

// end stops the node because of err, once, and waits until it has stopped.
//
// First nobody may act on what this process holds any more; only then anything else is given up. The leases end before
// raft does, and raft before the disk and the network that it uses. Callers that wait for an answer are let go by stop.
func (s *Server) end(err error) {
	s.End(err, func() {
		s.caller.End()
		s.Halt()
		s.hub.Close()
	}, s.release)
}

// release closes the parts, in the reverse order of their making, as far as they were made.
func (s *Server) release() {
	closePart := func(what string, f func() error) {
		if err := f(); err != nil {
			s.log.Debug("closing", "part", what, "error", err)
		}
	}
	if s.expiry != nil {
		s.expiry.Close()
		s.timed.close()
	}
	if s.raft != nil {
		closePart("raft", s.raft.Shutdown)
	}
	if s.mux != nil {
		closePart("network", s.mux.Close)
	}
	if s.calls != nil {
		closePart("calls", s.calls.Close)
	}
	if s.gossip != nil {
		closePart("gossip", s.gossip.Close)
	}
	if s.ports != nil {
		s.ports.wait()
	}
	if s.endpoint != nil {
		closePart("endpoint", s.endpoint.Close)
	}
	if s.replica != nil {
		s.replica.Close()
	}
	if s.store != nil {
		closePart("store", s.store.Close)
	}
}
