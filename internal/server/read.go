package server

import (
	"context"
	"sync"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/cancel"
	"github.com/coordcell/coord/internal/wire"
)

// Fresh waits until this server's replica has everything that was acknowledged to anybody before the call: what is read
// from it afterwards is linearizable. The leader takes its commit index and waits for evidence from after that moment;
// others ask the leader for such an index, all callers that wait sharing one question, and wait until they have applied
// it (Ongaro, "Consensus: Bridging Theory and Practice", section 6.4, with evidence in the place of its heartbeats).
//
// Errors: ErrNoLeader with ctx's, ErrClosed.
func (s *Server) Fresh(ctx context.Context) error {
	leader := ""
	for try := 0; ; try++ {
		rt := s.Route()
		if rt.Leader != leader {
			leader, try = rt.Leader, 0
		}
		var err error = errNotLeader
		var index uint64
		switch {
		case rt.Local:
			index, err = s.raft.ReadIndex(ctx)
		case rt.Leader != "":
			index, err = s.rounds.join(ctx, s)
		}
		if err == nil {
			err = s.raft.WaitApplied(ctx, index)
		}
		if err == nil {
			return nil
		}
		if err := s.caller.Pause(ctx, rt, try); err != nil {
			// An old leader that is cut off still takes itself for one: what counts is proof.
			return caller.GaveUp(err, s.EvidenceAge() <= 2*s.cfg.ElectionTimeout)
		}
	}
}

// Read answers from this server's replica, once it is Fresh or at once if that is not asked for. What it returns is
// shared with the state: it must not be written to.
func (s *Server) Read(ctx context.Context, r wire.Read) (wire.ReadAnswer, error) {
	if r.Stale {
		return s.look(r), s.Err()
	}
	if err := s.Fresh(ctx); err != nil {
		return wire.ReadAnswer{}, err
	}
	return s.look(r), nil
}

// look reads the state as it is here.
func (s *Server) look(r wire.Read) (a wire.ReadAnswer) {
	switch r.Kind {
	case wire.ReadKey:
		s.replica.View(func(state *fsm.State) {
			a.Revision = state.Revision()
			if kv, found := state.Get(r.Name); found {
				a.Keys = []fsm.KeyValue{kv}
			}
		})
	case wire.ReadList:
		state := s.replica.Clone() // a long list keeps nobody waiting
		a.Revision = state.Revision()
		a.Keys, a.More = state.List(r.Name, r.After, r.Limit)
	case wire.ReadLock:
		s.replica.View(func(state *fsm.State) { a.Revision, a.Lock = state.Revision(), state.Lookup(r.Name) })
		a.Held, a.Waited = s.since(a.Lock)
	case wire.ReadLocks:
		s.lookAtLocks(r, &a)
	case wire.ReadSessions:
		s.lookAtSessions(r, &a)
	case wire.ReadRevision:
		s.replica.View(func(state *fsm.State) { a.Revision = state.Revision() })
	}
	return a
}

// View reads the state as it is here. See replica.Replica.View.
func (s *Server) View(read func(*fsm.State)) { s.replica.View(read) }

// Clone returns a copy of the state as it is here.
func (s *Server) Clone() *fsm.State { return s.replica.Clone() }

// rounds shares questions for a read index: those who come while one is under way wait for the next, since the answer
// to a question serves only reads that began before it was sent.
type rounds struct {
	mu      sync.Mutex
	flying  bool
	waiting []chan<- indexAnswer
}

type indexAnswer struct {
	index uint64
	err   error
}

func (r *rounds) join(ctx context.Context, s *Server) (uint64, error) {
	ch := make(chan indexAnswer, 1)
	r.mu.Lock()
	r.waiting = append(r.waiting, ch)
	if !r.flying {
		if !s.Go(func() { r.run(s) }) {
			r.mu.Unlock()
			return 0, errClosing
		}
		r.flying = true
	}
	r.mu.Unlock()
	select {
	case a := <-ch:
		return a.index, a.err
	case <-ctx.Done():
		return 0, cancel.Reason(ctx)
	}
}

// run asks whoever leads, for as long as somebody waits.
func (r *rounds) run(s *Server) {
	for {
		r.mu.Lock()
		waiting := r.waiting
		r.waiting = nil
		if len(waiting) == 0 {
			r.flying = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		ctx, done := context.WithTimeout(s.stop, s.cfg.ElectionTimeout)
		index, err := s.askReadIndex(ctx, s.leader())
		done()
		for _, ch := range waiting {
			ch <- indexAnswer{index, err}
		}
	}
}
