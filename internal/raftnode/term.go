package raftnode

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// termStart is the entry that this node has to see applied before it acts as the leader of term. The nonce is the
// term's, so that a proposal that is repeated counts whichever copy is applied.
type termStart struct {
	term   uint64
	nonce  [16]byte
	active bool // it has been applied: copies of it count no more
}

// leadership is what LeaderChanged announces changes of.
type leadership struct {
	leader string
	term   uint64
	active uint64
}

// ActiveTerm is the term in which this node may acknowledge, expire and serve reads; 0 if it may not. It is a hint that
// ends at the latest with the term: only evidence proves that the term had not ended.
func (n *Node) ActiveTerm() uint64 {
	term := n.active.Load()
	if term == 0 || n.cfg.Switch.Err() != nil || !n.leading(term) {
		return 0
	}
	return term
}

// Leader is the leader that this node knows of and its term; "" if it knows none.
func (n *Node) Leader() (id string, term uint64) {
	r := n.raft.Load()
	term = r.CurrentTerm()
	for {
		_, leader := r.LeaderWithID()
		now := r.CurrentTerm()
		if now == term {
			return string(leader), term
		}
		term = now
	}
}

// LeaderChanged returns a channel that is closed when the leader, the term or ActiveTerm next changes. Take it before
// looking at them.
func (n *Node) LeaderChanged() <-chan struct{} {
	n.changeMu.Lock()
	defer n.changeMu.Unlock()
	return n.changed
}

// leading: raft leads term, and nothing on the wire has shown a later one.
func (n *Node) leading(term uint64) bool {
	r := n.raft.Load()
	return r.State() == raft.Leader && r.CurrentTerm() == term && n.evidence.seen.Load() <= term
}

// watch compares what raft is with what this node acts as, whenever something may have changed. LeaderCh and the
// observations only wake it: both lose events.
func (n *Node) watch() {
	tick := time.NewTicker(n.cfg.ElectionTimeout)
	defer tick.Stop()
	for {
		n.refresh()
		select {
		case <-n.raft.Load().LeaderCh():
		case <-n.observed:
		case <-n.kicked:
		case <-tick.C:
		case <-n.stopping:
			return
		}
	}
}

// kick wakes watch.
func (n *Node) kick() {
	select {
	case n.kicked <- struct{}{}:
	default:
	}
}

// refresh ends the active term if it is over, begins one that raft leads, and announces what is different.
func (n *Node) refresh() {
	r := n.raft.Load()
	if term := n.active.Load(); term != 0 && !n.leading(term) {
		n.deactivate(fmt.Errorf("%w: term %d has ended", ErrNotActive, term))
	}
	switch term := r.CurrentTerm(); {
	case n.leading(term):
		if n.beginTerm(term) {
			n.wg.Go(func() { n.startTerm(term) })
		}
	case r.State() == raft.Leader && n.evidence.seen.Load() > term:
		n.inbound.resign(term) // raft's heartbeats do not look at the term of an answer
	}
	now := leadership{active: n.ActiveTerm()}
	now.leader, now.term = n.Leader()
	n.changeMu.Lock()
	defer n.changeMu.Unlock()
	if now != n.seen {
		n.seen = now
		close(n.changed)
		n.changed = make(chan struct{})
	}
}

// beginTerm makes the nonce of a term that this node leads. It is false if the term has one, or the node is stopping.
func (n *Node) beginTerm(term uint64) bool {
	n.termMu.Lock()
	defer n.termMu.Unlock()
	if term <= n.start.term || n.stopReason() != nil {
		return false
	}
	n.start = termStart{term: term}
	_, _ = rand.Read(n.start.nonce[:]) // never fails
	return true
}

// startTerm proposes the TermStart of term until it has been applied or the term has passed.
func (n *Node) startTerm(term uint64) {
	n.termMu.Lock()
	data := n.cfg.TermStart(n.start.nonce)
	n.termMu.Unlock()
	for n.leading(term) && n.active.Load() != term {
		err := n.propose(n.life, data)
		if err != nil {
			n.cfg.Logger.Debug("TermStart was not applied", "term", term, "error", err)
		}
		select {
		case <-time.After(n.cfg.ElectionTimeout / 20):
		case <-n.stopping:
			return
		}
	}
}

// termStarted is called on the FSM goroutine for each TermStart that it applies. Only the one that this node proposed
// last counts, in the term that it was proposed for: the nonce tells it from other nodes', the entry's own term from
// one of ours that was delayed or that another leader committed.
func (n *Node) termStarted(nonce [16]byte, term uint64) {
	n.termMu.Lock()
	defer n.termMu.Unlock()
	if n.start.active || nonce != n.start.nonce || term != n.start.term || !n.leading(term) || n.stopReason() != nil {
		return
	}
	n.start.active = true
	n.endActive(fmt.Errorf("%w: a later term has begun", ErrNotActive))
	if n.cfg.Activated != nil {
		n.cfg.Activated(term)
	}
	n.evidence.open(term)
	n.active.Store(term)
	n.kick()
}

// deactivate ends the active term, if there is one, for err.
func (n *Node) deactivate(err error) {
	n.termMu.Lock()
	defer n.termMu.Unlock()
	n.endActive(err)
}

// endActive does so under termMu.
func (n *Node) endActive(err error) {
	term := n.active.Swap(0)
	if term == 0 {
		return
	}
	n.evidence.close(err)
	if n.cfg.Deactivated != nil {
		n.cfg.Deactivated(term)
	}
	n.kick()
}

// ofLeadership picks the observations that watch has to wake up for. It runs on raft's goroutines.
func ofLeadership(o *raft.Observation) bool {
	switch o.Data.(type) {
	case raft.LeaderObservation, raft.RaftState:
		return true
	}
	return false
}
