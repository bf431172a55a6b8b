package server

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/cancel"
	"github.com/coordcell/coord/internal/forming"
)

// leadership is what this server does as the active leader of one term, beside answering calls: it ends sessions that
// are not renewed, hands on what they held, and looks after the members and the agreement of the replicas.
type leadership struct {
	mu     sync.Mutex
	cancel context.CancelFunc // ends what the running term does
	work   chan struct{}      // of one: something may be left to reap, or a hold to end
	hashes chan fsm.Check

	members *forming.Membership // of the running term
}

func newLeadership() *leadership {
	return &leadership{work: make(chan struct{}, 1), hashes: make(chan fsm.Check, 1)}
}

// activated begins a term, on raft's FSM goroutine, when this server's own TermStart has been applied. From this moment
// every session has a full TTL, and only from now on anything is acknowledged, expired or read: whatever an earlier
// leader acknowledged, it did before this one was elected.
func (s *Server) activated(term uint64) {
	s.replica.View(func(state *fsm.State) {
		s.expiry.Start(term, ttls(state))
		s.timed.start(term, state)
	})
	ctx, end := context.WithCancel(s.stop)
	s.lead.mu.Lock()
	s.lead.cancel = end
	s.lead.mu.Unlock()
	s.poke()
	if !s.Go(func() { s.runTerm(ctx, term) }) {
		end()
	}
	s.log.Info("leading", "term", term)
}

// deactivated ends a term. Those who wait for an answer of this server are told to ask the next leader.
func (s *Server) deactivated(term uint64) {
	s.expiry.Stop()
	s.timed.stop()
	s.lead.mu.Lock()
	if s.lead.cancel != nil {
		s.lead.cancel()
	}
	s.lead.mu.Unlock()
	s.guests.dismiss()
	s.log.Info("leading no more", "term", term)
}

func ttls(state *fsm.State) iter.Seq2[fsm.SessionID, time.Duration] {
	return func(yield func(fsm.SessionID, time.Duration) bool) {
		for v := range state.Sessions() {
			if !yield(v.ID, time.Duration(v.TTL)) {
				return
			}
		}
	}
}

// poke wakes the loop of the running term.
func (s *Server) poke() {
	select {
	case s.lead.work <- struct{}{}:
	default:
	}
}

// runTerm does the chores of a term until it ends.
func (s *Server) runTerm(ctx context.Context, term uint64) {
	var chores sync.WaitGroup
	defer chores.Wait()
	chores.Go(func() { s.tendMembers(ctx) })
	chores.Go(func() { s.endHold(ctx, term) })
	chores.Go(func() { s.raiseFormat(ctx, term) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.lead.work:
			s.reap(ctx)
		case check := <-s.lead.hashes:
			if err := s.propose(ctx, check); err != nil {
				s.log.Debug("a checkpoint was not written", "error", err)
			}
		}
	}
}

// reapBackoff is how long a leader waits before it repeats a step of reaping that was not written.
const reapBackoff = 5 * time.Millisecond

// reap hands on what ended sessions held, step by step, so that a lost zone does not keep everybody else waiting.
func (s *Server) reap(ctx context.Context) {
	for ctx.Err() == nil {
		left := false
		s.replica.View(func(state *fsm.State) { left = state.Reaping() })
		if !left {
			return
		}
		if err := s.propose(ctx, fsm.Reap{}); err != nil {
			s.log.Debug("a step of reaping was not written", "error", err)
			sleep(ctx, reapBackoff)
		}
	}
}

// endHold lets grants be made again after a restore. The longest TTL of the sessions that were ended is waited for from
// the beginning of this leader's term, which is later than that of any holder's last renewal.
func (s *Server) endHold(ctx context.Context, term uint64) {
	for {
		var ttl time.Duration
		var on bool
		s.replica.View(func(state *fsm.State) {
			var ns int64
			ns, on = state.Hold()
			ttl = time.Duration(ns)
		})
		if !on {
			return
		}
		until := s.now() + ttl
		for s.now() < until && ctx.Err() == nil {
			sleep(ctx, max(until-s.now(), time.Millisecond))
		}
		if ctx.Err() != nil {
			return
		}
		if err := s.propose(ctx, fsm.EndHold{Term: term}); err != nil {
			s.log.Debug("the end of a hold was not written", "error", err)
		}
	}
}

// expire writes the end of sessions that the table has marked, decided in term. It returns when that has been applied.
func (s *Server) expire(ctx context.Context, term uint64, ids []fsm.SessionID) error {
	s.log.Debug("sessions expire", "count", len(ids), "term", term)
	return s.propose(ctx, fsm.Expire{Term: term, Sessions: ids})
}

// propose writes a command of the leader's own, and returns when it has been applied here. After an error it may still
// be, as long as the term lasts.
func (s *Server) propose(ctx context.Context, cmd fsm.Command) error {
	done := make(chan error, 1)
	err := s.packer.submit(proposal{
		cmd: cmd, written: func() { done <- nil }, failed: func(err error) { done <- err },
	})
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return cancel.Reason(ctx)
	}
}

// applied is told, on the FSM goroutine, what each entry did.
func (s *Server) applied(_, _ uint64, out *fsm.Output) {
	for _, e := range out.Opened {
		s.expiry.Opened(e.Session, time.Duration(e.TTL))
	}
	for _, e := range out.Ended {
		s.expiry.Ended(e.Session)
	}
	s.timed.applied(out, s.replica.View)
	if len(out.Ended) > 0 || len(out.Marked) > 0 {
		s.poke() // a marked session's places in queues are handed on as well
	}
	if out.Format {
		s.tooNew()
	}
	if out.Members {
		s.learnMembers()
	}
	s.hub.Publish(out)
	if s.cfg.Applied != nil && s.caughtUp.Load() {
		s.cfg.Applied(out, s.replica.Since)
	}
}

// restored is told that a snapshot has replaced the state. A leader never restores one.
func (s *Server) restored() {
	s.tooNew()
	s.learnMembers()
	s.hub.Reset()
}

// hashed is told the hash of a checkpoint; the leader writes it down for the others to compare.
func (s *Server) hashed(index, hash uint64) {
	if s.raft.ActiveTerm() == 0 {
		return
	}
	select {
	case s.lead.hashes <- fsm.Check{Index: index, Hash: hash}:
	default: // the last one is still waiting to be written
	}
}

// mismatch is told that this server's state is not the leader's. Whoever is in the minority stops, the leader included.
func (s *Server) mismatch(index, ours, leaders uint64) {
	s.log.Error("this server's state differs from the leader's", "index", index, "ours", ours, "leaders", leaders)
	s.Go(func() { s.settle(index, ours) })
}

// settleTries bounds how often the others are asked, an election timeout apart: one that is behind answers later.
const settleTries = 60

// settle asks every other voter for its hash at a checkpoint until it is clear who is right, and stops this server if a
// majority agrees on another hash. Each server that is asked and finds a difference settles in its turn: so does a
// leader that is wrong.
func (s *Server) settle(index, ours uint64) {
	if !s.settling.begin(index) {
		return
	}
	theirs := make(map[string]uint64) // by voter
	for try := 0; try < settleTries && s.stop.Err() == nil; try++ {
		if try > 0 {
			sleep(s.stop, s.cfg.ElectionTimeout)
		}
		voters := s.collectHashes(index, ours, theirs)
		votes := map[uint64]int{ours: 1}
		for _, hash := range theirs {
			votes[hash]++
		}
		for hash, n := range votes {
			switch {
			case n <= voters/2:
			case hash == ours:
				s.log.Warn("this server is in the majority", "index", index, "agreeing", n, "voters", voters)
				return
			default:
				s.fail(fmt.Errorf("the state of this server differs from that of %d of %d voters after entry %d: it has been damaged, by a fault of the hardware or of the program; remove its Dir and start it anew", n, voters, index))
				return
			}
		}
		if len(theirs) == voters-1 {
			break
		}
	}
	s.log.Error("the servers disagree, and there is no majority", "index", index)
}

// collectHashes asks the other voters that have not answered yet. It returns how many voters there are.
func (s *Server) collectHashes(index, ours uint64, theirs map[string]uint64) (voters int) {
	servers, _ := s.raft.Configuration()
	for _, peer := range servers {
		if !peer.Voter {
			continue
		}
		voters++
		if _, known := theirs[peer.ID]; known || peer.ID == s.id {
			continue
		}
		if hash, known, err := s.askHash(s.stop, peer.ID, index, ours); err == nil && known {
			theirs[peer.ID] = hash
		}
	}
	return voters
}

// sleep waits, at most until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
