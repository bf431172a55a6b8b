package raftnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/hashicorp/raft"
)

// A follower knows within a millisecond that the process of its leader has died: the operating system resets the
// connections and refuses new ones. Stand lets it stand for election then, instead of waiting for an election timeout. It
// hands raft the TimeoutNow of a leadership transfer, which skips the pre-vote.
//
// What that can break, and what not. The votes, their durability and the comparison of logs are raft's as in any
// election, so that there is one leader a term, and it has every committed entry (G1, G10, G11). The new leader acts after
// its own TermStart only, and an acknowledgement of the old one still needs answers of a quorum in the old term (G3, G8):
// if the old leader should live after all, it is like one that was cut off. Nobody who says that a process is dead
// promises anything by it. What is lost is the protection of a leader that works from being deposed (G8, when it happens
// again and again). That is what the rules are for: a majority of the voters must have seen the death for themselves, so
// that a leader that still has a quorum stays; and a node stands once for a term and once an election timeout at most.
// Everything else is left to raft's own timeout.

// ErrMayNotStand says that the rules keep a node from standing for election. Raft's timeout decides.
var ErrMayNotStand = errors.New("raftnode: may not stand for election")

// Testimony is what one voter says about the process that leads a term.
type Testimony struct {
	Voter               string
	Dead                bool   // it has seen for itself that the process is dead
	Term                uint64 // its own
	LastTerm, LastIndex uint64 // of its log
}

// Testify makes the testimony of this node.
func (n *Node) Testify(dead bool) Testimony {
	stats := n.raft.Load().Stats()
	number := func(key string) uint64 {
		v, _ := strconv.ParseUint(stats[key], 10, 64) // raft has formatted it
		return v
	}
	t := Testimony{
		Voter: n.cfg.ID, Dead: dead, Term: number("term"),
		LastTerm: number("last_log_term"), LastIndex: number("last_log_index"),
	}
	if index := number("last_snapshot_index"); index > t.LastIndex {
		t.LastTerm, t.LastIndex = number("last_snapshot_term"), index
	}
	return t
}

// Stand makes this node stand for election at once, because it has seen for itself that the process of leader, which
// leads term, is dead. others is what other voters say. It returns nil when raft stands. The rules, or ErrMayNotStand:
//
//   - A majority of the voters of the latest configuration, this node included, is in the term and has seen the same,
//     and none is in a later one: an election is under way then.
//   - Nobody among those has a longer log, nor one as long and an earlier place in the configuration: of several that
//     have seen it at the same moment, one stands, and it is one that can win.
//   - This node follows that leader in that term when raft takes the request.
//   - It has not stood within an election timeout. For one term it never stands twice.
func (n *Node) Stand(ctx context.Context, leader string, term uint64, others []Testimony) error {
	if err := mayStand(n.latest(), term, n.Testify(true), others); err != nil {
		return err
	}
	err := n.inbound.stand(ctx, candidacy{leader: raft.ServerID(leader), term: term})
	if err == nil && n.cfg.Observer != nil {
		n.cfg.Observer.Stood(leader, term)
	}
	return err
}

// mayStand decides the first two rules.
func mayStand(c raft.Configuration, term uint64, own Testimony, others []Testimony) error {
	said := make(map[string]Testimony, len(others)+1)
	for _, t := range others {
		said[t.Voter] = t
	}
	said[own.Voter] = own
	voters, agree, voter, better := 0, 0, false, ""
	for _, s := range c.Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		t := said[string(s.ID)]
		if t.Term > term {
			return fmt.Errorf("%w: %s is in term %d, after %d", ErrMayNotStand, s.ID, t.Term, term)
		}
		if !t.Dead || t.Term < term {
			continue
		}
		agree++
		voter = voter || t == own
		if d := compareLogs(t, own); d > 0 || d == 0 && !voter {
			better = t.Voter
		}
	}
	switch {
	case !voter:
		return fmt.Errorf("%w: this node is no voter in term %d", ErrMayNotStand, term)
	case agree <= voters/2:
		return fmt.Errorf("%w: %d of %d voters have seen the leader's process die", ErrMayNotStand, agree, voters)
	case better != "":
		return fmt.Errorf("%w: it is for %s to stand", ErrMayNotStand, better)
	}
	return nil
}

// compareLogs is above 0 if a's log is more up to date than b's, as raft's voters see it.
func compareLogs(a, b Testimony) int {
	if d := cmp.Compare(a.LastTerm, b.LastTerm); d != 0 {
		return d
	}
	return cmp.Compare(a.LastIndex, b.LastIndex)
}

// candidacy is a TimeoutNow from this node to itself.
type candidacy struct {
	leader raft.ServerID
	term   uint64
	rpc    raft.RPC
}

// stand hands raft a TimeoutNow, and waits until it has taken it.
func (in *inbound) stand(ctx context.Context, c candidacy) error {
	answer := make(chan raft.RPCResponse, 1)
	c.rpc = raft.RPC{Command: &raft.TimeoutNowRequest{RPCHeader: in.header()}, RespChan: answer}
	select {
	case in.standing <- c:
	case <-in.stop:
		return errSilent
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case a := <-answer: // when the node stops as well
		return a.Error
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mayStand decides the other two rules, when raft is about to take the request. That a node stands only once for a term
// needs no memory: its own term is a later one then. What raft does beside in that very moment is as with the TimeoutNow
// of a leader: a candidate begins its election anew, and a leader that raft has become just now loses its term again.
func (in *inbound) mayStand() bool {
	r, c := in.raft(), in.candidacy
	_, leader := r.LeaderWithID()
	return leader == c.leader && r.CurrentTerm() == c.term && in.clock() >= in.standAgain
}
