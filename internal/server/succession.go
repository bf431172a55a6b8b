package server

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/raftnode"
	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

// When the leader's process dies, its followers do not wait for an election timeout. Each learns of it from the operating
// system: the streams that the process had opened are ended, and a new one is refused, or answered by another process.
// It asks the other voters whether they have seen the same, each for itself, and the one with the longest log stands for
// election: see raftnode.Stand for the rules, and for what does and does not depend on them.
//
// Silence is never taken for death. A frozen process keeps its streams and its place to listen; a host that is down or
// cut off answers nothing. Then raft's election timeout decides. A firewall that refuses on behalf of a process that
// lives is believed by those whom it keeps away from it, and matters only if they are a majority: a leader that no
// majority reaches cannot serve.

// watchLeader stands for election when the process of the leader has died.
func (s *Server) watchLeader() {
	for {
		changed := s.raft.LeaderChanged()
		leader, term := s.raft.Leader()
		if boot, gone := s.processes.gone(leader); gone {
			s.succeed(leader, boot, term, changed)
		}
		select {
		case <-s.processes.lost:
		case <-changed:
		case <-s.stop.Done():
			return
		}
	}
}

// succeed tries to, until there is another leader, or raft's own timeout is near.
func (s *Server) succeed(leader string, boot, term uint64, changed <-chan struct{}) {
	ctx, cancel := context.WithTimeout(s.stop, s.cfg.ElectionTimeout)
	defer cancel()
	s.Go(func() {
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	})
	for wait := s.cfg.ElectionTimeout / 200; s.hasDied(ctx, leader, boot); wait = min(2*wait, s.cfg.ElectionTimeout/20) {
		said := s.testimonies(ctx, leader, boot, term)
		if now, gone := s.processes.gone(leader); now == boot && !gone {
			return // its streams are there again
		}
		err := s.raft.Stand(s.stop, leader, term, said) // which changes the leader, and so ends ctx
		if err == nil {
			s.log.Info("leader's process is dead: standing for election", "leader", leader, "boot", boot, "term", term)
			return
		}
		s.log.Debug("leader's process is dead", "leader", leader, "boot", boot, "term", term, "error", err)
		sleep(ctx, wait)
	}
}

// hasDied finds out whether a process of another server has died. It tries until that is certain, and is false when it
// is alive, or when ctx ends.
func (s *Server) hasDied(ctx context.Context, id string, boot uint64) bool {
	return s.processes.hasDied(ctx, id, boot, s.cfg.ElectionTimeout/20, func() finding {
		if addr, ok := s.gossip.Lookup(id); ok {
			return knock(ctx, s.mux, addr, id, boot)
		}
		return unknown
	})
}

// hasDied knocks again and again, pausing for pause at most.
func (ps *processes) hasDied(ctx context.Context, id string, boot uint64, pause time.Duration, knock func() finding) bool {
	for wait := time.Millisecond; ctx.Err() == nil; wait = min(2*wait, pause) {
		found := knock()
		last, gone := ps.gone(id)
		gone = gone && last == boot
		switch {
		case found == anotherProcess, found == nobody && gone:
			return true
		case found == sameProcess && !gone: // one that has ended its streams may be about to end altogether
			return false
		}
		sleep(ctx, wait)
	}
	return false
}

// finding is what is found where a process should be.
type finding int

const (
	unknown        finding = iota
	sameProcess            // it lives
	anotherProcess         // of the same server: it is dead
	nobody                 // the operating system refuses, or another server is there
)

// knock opens a stream to a server and looks who answers. Refused is only what is refused at once: that nobody takes the
// stream, or that it is reset afterwards, is also what happens in front of a process that is frozen, or busy.
func knock(ctx context.Context, mux *transport.Mux, addr, id string, boot uint64) finding {
	conn, err := mux.Dial(ctx, transport.KindRaft, addr, id)
	switch {
	case err == nil:
		defer conn.Close()
		if conn.Peer().Boot == boot {
			return sameProcess
		}
		return anotherProcess
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, transport.ErrIdentity):
		return nobody
	}
	return unknown
}

// testimonies asks the other voters, but the one that is dead. When enough agree, the rest is given a moment more: one of
// them may have a longer log.
func (s *Server) testimonies(ctx context.Context, leader string, boot, term uint64) (said []raftnode.Testimony) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ElectionTimeout/2)
	defer cancel()
	servers, _ := s.raft.Configuration()
	voters, asked, agree := 0, 0, 1
	answers := make(chan raftnode.Testimony, len(servers))
	for _, peer := range servers {
		if !peer.Voter {
			continue
		}
		voters++
		if peer.ID == s.id || peer.ID == leader {
			continue
		}
		asked++
		s.Go(func() { answers <- s.askTestimony(ctx, peer.ID, leader, boot, term) })
	}
	var enough <-chan time.Time
	for range asked {
		if agree > voters/2 && enough == nil {
			enough = time.After(s.cfg.ElectionTimeout / 20)
		}
		select {
		case t := <-answers:
			said = append(said, t)
			if t.Dead && t.Term == term {
				agree++
			}
		case <-enough:
			return said
		case <-ctx.Done():
			return said
		}
	}
	return said
}

// askTestimony asks one voter. Whoever does not answer has seen nothing.
func (s *Server) askTestimony(ctx context.Context, voter, leader string, boot, term uint64) raftnode.Testimony {
	t := raftnode.Testimony{Voter: voter}
	s.calls.Hurry(voter)
	payload, err := s.calls.Call(ctx, voter, wire.MethodTestify, wire.Testify{Leader: leader, Boot: boot, Term: term}.Append(nil))
	if err != nil {
		s.log.Debug("a voter does not say whether the leader's process is dead", "voter", voter, "error", err)
		return t
	}
	m, err := wire.DecodeTestimony(payload)
	if err != nil {
		return t
	}
	t.Dead, t.Term, t.LastTerm, t.LastIndex = m.Dead, m.Term, m.LastTerm, m.LastIndex
	return t
}

// serveTestify says whether this server has seen a process die; for that it looks for itself. It promises nothing.
func (s *Server) serveTestify(ctx context.Context, req *calls.Request) {
	m, err := wire.DecodeTestify(req.Payload)
	if err != nil {
		req.Fail(err)
		return
	}
	s.later(req, func() ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.ElectionTimeout/4)
		defer cancel()
		t := s.raft.Testify(s.hasDied(ctx, m.Leader, m.Boot))
		return wire.Testimony{Dead: t.Dead, Term: t.Term, LastTerm: t.LastTerm, LastIndex: t.LastIndex}.Append(nil), nil
	})
}
