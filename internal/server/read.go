package server

import (
	"context"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/cancel"
)

// Fresh waits until this server's replica has everything that was acknowledged to anybody before the call: what is read
// from it afterwards is linearizable. The leader takes its commit index and waits for evidence from after that moment;
// others ask the leader for such an index, all callers that wait sharing one question, and wait until they have applied
// it (Ongaro, "Consensus: Bridging Theory and Practice", section 6.4, with evidence in the place of its heartbeats).
//
// Errors: ErrNoLeader with ctx's, ErrClosed.
func (s *Server) Fresh(ctx context.Context) error {
	for try := 0; ; try++ {
		rt := s.route()
		var err error = errNotLeader
		var index uint64
		switch {
		case rt.local:
			index, err = s.raft.ReadIndex(ctx)
		case rt.leader != "":
			index, err = s.rounds.join(ctx, s)
		}
		if err == nil {
			err = s.raft.WaitApplied(ctx, index)
		}
		if err == nil {
			return nil
		}
		if err := s.pause(ctx, &request{}, rt, try); err != nil {
			// An old leader that is cut off still takes itself for one: what counts is proof.
			return s.gaveUp(err, false, s.EvidenceAge() <= 2*s.cfg.ElectionTimeout)
		}
	}
}

// View reads the state as it is here. See replica.Replica.View.
func (s *Server) View(read func(*fsm.State)) { s.replica.View(read) }

// Clone returns a copy of the state as it is here.
func (s *Server) Clone() *fsm.State { return s.replica.Clone() }

// Since says how long ago this server has seen the state reach a revision.
func (s *Server) Since(rev fsm.Revision) time.Duration { return s.replica.Since(rev) }

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
