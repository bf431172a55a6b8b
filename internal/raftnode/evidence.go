package raftnode

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// gatherTime is how long a wait that is not urgent gives the periodic traffic, and others, before it asks for a round.
const gatherTime = 10 * time.Millisecond

// evidence knows which of the AppendEntries that left this node have been answered, and from that since when no other
// leader can have been elected. See doc.go for why this is proof.
type evidence struct {
	self          raft.ServerID
	configuration func() raft.Configuration // raft's latest, committed or not
	clock         func() time.Duration      // Config.Now

	stamps atomic.Uint64 // the last stamp given to an AppendEntries
	seen   atomic.Uint64 // the highest term in any AppendEntries sent and any answer to one

	mu        sync.Mutex
	term      uint64                 // of everything below
	peers     map[raft.ServerID]peer // what each server answered in that term
	confirmed stamp                  // the newest stamp that a quorum of voters has answered
	active    uint64                 // the term for which waits are taken; 0: none
	waits     waitlist
	asked     uint64 // waits up to this stamp are covered by a round that was asked for

	urgent, soon chan struct{} // wake the verifier; capacity 1
}

// stamp is the moment an AppendEntries left: a number for order, a reading of the clock for the age of evidence.
type stamp struct {
	n    uint64
	sent time.Duration
}

// peer is what the answers of one server in the current term have shown.
type peer struct {
	answered stamp // the newest AppendEntries that it answered
	heard    time.Time
	match    uint64 // its log is known to agree with ours up to here
}

func newEvidence(self string, configuration func() raft.Configuration) *evidence {
	return &evidence{
		self:          raft.ServerID(self),
		configuration: configuration,
		peers:         make(map[raft.ServerID]peer),
		clock:         sinceNow(),
		urgent:        make(chan struct{}, 1),
		soon:          make(chan struct{}, 1),
	}
}

// sinceNow is a clock for where none is given. It stands still while the machine sleeps.
func sinceNow() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// next stamps an AppendEntries. It is called before the request is handed to the network.
func (e *evidence) next() stamp { return stamp{n: e.stamps.Add(1), sent: e.clock()} }

// now is the least stamp that an AppendEntries sent from now on will carry.
func (e *evidence) now() uint64 { return e.stamps.Load() + 1 }

// see takes in a term on the wire and reports whether it is above every earlier one.
func (e *evidence) see(term uint64) bool {
	for {
		seen := e.seen.Load()
		if term <= seen {
			return false
		}
		if e.seen.CompareAndSwap(seen, term) {
			return true
		}
	}
}

// answered takes in one answer from id to an AppendEntries of term sent at s. The caller has checked that the RPC returned
// no error and that the answer's term is the request's. match is 0 if the answer says nothing about the log.
func (e *evidence) answered(id raft.ServerID, term uint64, s stamp, match uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.enter(term) {
		return
	}
	p := e.peers[id]
	if s.n > p.answered.n {
		p.answered = s
	}
	p.match = max(p.match, match)
	p.heard = time.Now()
	e.peers[id] = p
	e.confirm()
}

// matched takes in that id's log agrees with ours up to index. It is no evidence.
func (e *evidence) matched(id raft.ServerID, term, index uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.enter(term) {
		return
	}
	p := e.peers[id]
	p.match = max(p.match, index)
	p.heard = time.Now()
	e.peers[id] = p
}

// enter forgets everything of an earlier term. It is false for an answer of a term that has passed.
func (e *evidence) enter(term uint64) bool {
	if term > e.term {
		e.term = term
		e.confirmed = stamp{}
		clear(e.peers)
	}
	return term == e.term
}

// confirm computes the newest stamp answered by a quorum of the voters of raft's latest configuration, and releases
// those who waited for it. It never goes back: what a quorum has answered stays answered.
func (e *evidence) confirm() {
	var buf [9]stamp
	answers := buf[:0]
	for _, s := range e.configuration().Servers {
		switch {
		case s.Suffrage != raft.Voter:
		case s.ID == e.self:
			answers = append(answers, stamp{n: math.MaxUint64, sent: e.clock()})
		default:
			answers = append(answers, e.peers[s.ID].answered)
		}
	}
	if len(answers) == 0 {
		return
	}
	slices.SortFunc(answers, func(a, b stamp) int {
		switch {
		case a.n > b.n:
			return -1
		case a.n < b.n:
			return 1
		}
		return 0
	})
	quorum := len(answers)/2 + 1
	c := answers[quorum-1]
	if c.n == math.MaxUint64 { // alone: everything up to now is confirmed, nothing beyond
		c.n = e.stamps.Load() + 1
	}
	if c.n > e.confirmed.n {
		e.confirmed = c
	} else if c.n == e.confirmed.n && c.sent > e.confirmed.sent {
		e.confirmed.sent = c.sent
	}
	if e.active == e.term {
		e.waits.reached(e.confirmed.n)
	}
}

// open starts to take waits for term, whose TermStart has been applied.
func (e *evidence) open(term uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.enter(term)
	e.active = term
	e.asked = 0
}

// close ends every wait with err and takes no more.
func (e *evidence) close(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active = 0
	e.waits.fail(err)
}

// join returns the round to wait for, nil if the evidence is there already.
func (e *evidence) join(term, need uint64) (*round, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if term == 0 || e.active != term || e.term != term {
		return nil, fmt.Errorf("%w: term %d has ended", ErrNotActive, term)
	}
	if need <= e.confirmed.n {
		return nil, nil
	}
	if need > e.waits.last() { // the first of a new round: a cell of one voter needs no answer
		if e.confirm(); need <= e.confirmed.n {
			return nil, nil
		}
	}
	return e.waits.join(need), nil
}

// ask makes sure that a round of AppendEntries is on its way: now, or after gatherTime if nothing else brings it.
func (e *evidence) ask(urgent bool) {
	wake := e.soon
	if urgent {
		wake = e.urgent
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

// due reports whether somebody waits for more than the last round that was asked for will bring, and counts the round
// that the caller is about to ask for.
func (e *evidence) due() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waits.last() <= e.asked {
		return false
	}
	e.asked = e.now()
	return true
}

// age is how long ago the newest confirmed AppendEntries was sent; negative if none was. It is kept when the term ends.
func (e *evidence) age() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.active != 0 {
		e.confirm()
	}
	if e.confirmed.n == 0 {
		return -1
	}
	return e.clock() - e.confirmed.sent
}

// snapshot copies what is known of each server in the current term.
func (e *evidence) snapshot() map[raft.ServerID]peer {
	e.mu.Lock()
	defer e.mu.Unlock()
	peers := make(map[raft.ServerID]peer, len(e.peers))
	for id, p := range e.peers {
		peers[id] = p
	}
	return peers
}

// Stamp is the present moment, R, in the count that AppendEntries are stamped from. It is cheap.
func (n *Node) Stamp() uint64 { return n.evidence.now() }

// WaitEvidence waits until a quorum of the voters has answered AppendEntries of term that were sent at or after stamp.
// Then no leader of a later term had been elected when stamp was taken. Rounds are shared by all who wait. An urgent
// wait asks for a round at once, others give the periodic traffic a moment first.
// It returns ErrNotActive when term is not, or no longer, the active one; the reason of the stop; or ctx's error.
func (n *Node) WaitEvidence(ctx context.Context, term, stamp uint64, urgent bool) error {
	if n.ActiveTerm() != term { // after stamp was taken: this is what lets our own vote count
		return n.notActive(term)
	}
	r, err := n.evidence.join(term, stamp)
	if err != nil || r == nil {
		return err
	}
	n.evidence.ask(urgent)
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ReadIndex returns an index that covers everything committed before the call; once WaitApplied has seen it, a read of
// the machine is linearizable. Only the active leader can say; others get ErrNotActive.
func (n *Node) ReadIndex(ctx context.Context) (uint64, error) {
	term := n.ActiveTerm()
	if term == 0 {
		return 0, n.notActive(0)
	}
	stamp := n.Stamp()
	index := n.raft.Load().CommitIndex()
	if err := n.WaitEvidence(ctx, term, stamp, true); err != nil {
		return 0, err
	}
	return index, nil
}

// EvidenceAge is how old the last proof of a leader is: of this node's own evidence while it led, or of the last
// AppendEntries that it took from another leader. It is negative if there never was one.
func (n *Node) EvidenceAge() time.Duration {
	own, other := n.evidence.age(), n.inbound.silence()
	if own < 0 || (other >= 0 && other < own) {
		return other
	}
	return own
}

// verify asks raft for rounds of heartbeats when somebody waits for evidence that the periodic traffic does not bring
// soon enough. VerifyLeader is only the trigger: what it answers proves nothing. One is outstanding at most.
func (n *Node) verify() {
	var gathered <-chan time.Time
	for {
		select {
		case <-n.evidence.soon:
			if gathered == nil {
				gathered = time.After(gatherTime)
			}
			continue
		case <-n.evidence.urgent:
		case <-gathered:
		case <-n.stopping:
			return
		}
		gathered = nil
		if n.evidence.due() {
			n.await(n.life, func() error { return n.raft.Load().VerifyLeader().Error() })
		}
	}
}
