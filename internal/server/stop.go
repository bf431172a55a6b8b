package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordcell/coord/internal/cancel"
)

// shutdownStep bounds how long a server tries to end its sessions before it goes.
const shutdownStep = 5 * time.Second

// Done is closed when the node has stopped.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why the node has stopped; nil while it has not.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stopped is the error of a call that finds the node stopping: ErrClosed, with the reason if there is another one.
func (s *Server) Stopped() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil && !errors.Is(s.err, ErrClosed) {
		return fmt.Errorf("%w: %w", ErrClosed, s.err)
	}
	return ErrClosed
}

// Shutdown ends the sessions of this process, hands leadership on, and stops. When ctx ends first it stops at once.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.farewell(ctx)
	s.end(ErrClosed)
	return err
}

// farewell does what a node does before it goes, so that nobody has to wait for its sessions and its leadership to run
// out. Without a leader nothing can be said, and it does not try for long.
func (s *Server) farewell(ctx context.Context) error {
	select {
	case s.leaving <- struct{}{}:
	case <-s.stop.Done(): // the first call has done what could be done
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.stop.Err() != nil {
		return nil
	}
	bounded, done := context.WithTimeout(ctx, max(shutdownStep, 4*s.cfg.ElectionTimeout))
	defer done()
	s.caller.Leave(bounded)
	if s.raft.ActiveTerm() != 0 && ctx.Err() == nil {
		handing, done := context.WithTimeout(ctx, 2*s.cfg.ElectionTimeout)
		defer done()
		if err := s.raft.Transfer(handing, ""); err != nil {
			s.log.Debug("leadership was not handed on", "error", err)
		}
	}
	if ctx.Err() != nil {
		return cancel.Reason(ctx)
	}
	return nil
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
	s.mu.Lock()
	first := !s.ending
	if first {
		s.err, s.ending = err, true
	}
	s.mu.Unlock()
	if first {
		s.caller.End()
		s.halt()
		s.hub.Close()
		s.tasks.Wait()
		s.release()
		close(s.done)
	}
	<-s.done
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
