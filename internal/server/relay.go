package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/wire"
)

// errLeaderChanged is why those who wait for an answer of a leader are told to ask again. What they asked for may have
// been done, or may still be.
var errLeaderChanged = errors.New("the leader has changed")

// relay is a change of a client node that this server has passed on to the leader. What the leader says goes back as it
// comes: this server itself neither makes nor refuses a change, and never says that one was made.
type relay struct {
	req *calls.Request

	mu     sync.Mutex
	cancel func()      // of the stream to the leader; nil until it has begun
	stop   func() bool // of what ends it when the client's connection is gone
	over   bool
}

// relays are all that wait. When this server hears of another leader they are sent away, to be asked again: the old one
// may not answer any more.
type relays struct {
	mu  sync.Mutex
	all map[*relay]struct{}
}

func (x *relays) add(r *relay) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all = make(map[*relay]struct{})
	}
	x.all[r] = struct{}{}
}

func (x *relays) remove(r *relay) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, r)
}

func (x *relays) dismiss() {
	x.mu.Lock()
	all := x.all
	x.all = nil
	x.mu.Unlock()
	for r := range all {
		r.end(func(req *calls.Request) { req.Fail(errLeaderChanged) })
	}
}

// serveRelay takes a change of a client node: it makes it if this server leads, and passes it on if another one does.
func (s *Server) serveRelay(ctx context.Context, req *calls.Request) {
	rt := s.Route()
	if rt.Local {
		s.servePropose(ctx, req)
		return
	}
	if rt.Leader == "" {
		req.Fail(s.remote(errNotLeader))
		return
	}
	r := &relay{req: req}
	if !s.Go(func() { s.passOn(ctx, rt.Leader, r) }) {
		req.Fail(errClosing)
	}
}

// passOn sends a change to the leader; from then on the connection's reader carries the answers.
func (s *Server) passOn(ctx context.Context, leader string, r *relay) {
	s.relays.add(r)
	r.mu.Lock()
	r.stop = context.AfterFunc(ctx, func() { s.drop(r, func(*calls.Request) {}) })
	r.mu.Unlock()
	cancel, err := s.calls.Stream(ctx, leader, wire.MethodPropose, r.req.Payload, func(reply []byte, err error) {
		switch {
		case err == nil:
			r.req.Send(reply)
		case errors.Is(err, io.EOF):
			s.drop(r, (*calls.Request).End)
		default:
			s.drop(r, func(req *calls.Request) { req.Fail(s.passedBack(err)) })
		}
	})
	if err != nil {
		s.drop(r, func(req *calls.Request) { req.Fail(s.passedBack(err)) })
		return
	}
	r.mu.Lock()
	over := r.over
	r.cancel = cancel
	r.mu.Unlock()
	if over || s.leader() != leader { // it was dismissed before it could be cancelled, or has missed the dismissal
		cancel()
		s.drop(r, func(req *calls.Request) { req.Fail(errLeaderChanged) })
	}
}

// drop ends a relay.
func (s *Server) drop(r *relay, say func(*calls.Request)) {
	r.end(say)
	s.relays.remove(r)
}

func (r *relay) end(say func(*calls.Request)) {
	r.mu.Lock()
	over, cancel, stop := r.over, r.cancel, r.stop
	r.over = true
	r.mu.Unlock()
	if over {
		return
	}
	if stop != nil {
		stop()
	}
	if cancel != nil {
		cancel()
	}
	say(r.req)
}

// passedBack is what a client hears of a failure between this server and the leader. Only what certainly did nothing is
// said to have done nothing: of all else the client does not know whether it was done, and asks again under its number.
func (s *Server) passedBack(err error) error {
	switch {
	case errors.Is(caller.Unsent(err), errNotSent):
		return fmt.Errorf("%w: %w", &calls.NotLeaderError{Leader: s.leader()}, err)
	case errors.Is(err, calls.ErrTooLarge):
		return calls.ErrTooLarge
	default:
		return err
	}
}
