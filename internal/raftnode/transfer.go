package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// Transfer hands the leadership to a voter, "" for the one that has caught up most. While it lasts proposals are refused
// (ErrNotProposed). It takes two election timeouts at most, then this node goes on leading and the error says so.
//
// It does what raft's own transfer does, without using it: that one can get stuck behind a follower that does not answer,
// and then refuses every write, for ever.
func (n *Node) Transfer(ctx context.Context, to string) error {
	term := n.raft.Load().CurrentTerm()
	if !n.leading(term) {
		return n.notActive(0)
	}
	if !n.transferring.CompareAndSwap(false, true) {
		return errors.New("raftnode: a transfer is under way")
	}
	defer n.transferring.Store(false)
	ctx, cancel := context.WithTimeout(ctx, 2*n.cfg.ElectionTimeout)
	defer cancel()
	target, err := n.target(to)
	if err != nil {
		return fmt.Errorf("raftnode: transfer: %w", err)
	}
	if err := n.caughtUp(ctx, term, target); err != nil {
		return fmt.Errorf("raftnode: transfer to %s: it has not caught up: %w", target, err)
	}
	if err := n.timeoutNow(ctx, target); err != nil {
		return fmt.Errorf("raftnode: transfer to %s: %w", target, err)
	}
	for {
		changed := n.LeaderChanged()
		if !n.leading(term) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("raftnode: transfer to %s: it does not lead: %w", target, ctx.Err())
		case <-n.stopping:
			return n.stopReason()
		}
	}
}

// Stall hands the leadership away as fast as possible: the store's watchdog calls it when a call to the disk does not
// return, before it throws the switch. Raft's main loop may be in that call, so it is not asked for anything. It takes
// two election timeouts at most, and does nothing on a node that does not lead.
func (n *Node) Stall() {
	r := n.raft.Load()
	if r.State() != raft.Leader {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*n.cfg.ElectionTimeout)
	defer cancel()
	for _, id := range n.byProgress() {
		err := n.timeoutNow(ctx, id)
		if err == nil || ctx.Err() != nil {
			return
		}
		n.cfg.Logger.Warn("could not hand the leadership over", "to", id, "error", err)
	}
}

// target checks the voter that was named, or picks the one that has caught up most.
func (n *Node) target(to string) (raft.ServerID, error) {
	voters := n.byProgress()
	for _, id := range voters {
		if to == "" || string(id) == to {
			return id, nil
		}
	}
	if to == "" {
		return "", errors.New("there is no other voter")
	}
	return "", fmt.Errorf("%q is not another voter", to)
}

// byProgress lists the other voters, those first that answer and have caught up most.
func (n *Node) byProgress() []raft.ServerID {
	peers := n.evidence.snapshot()
	alive := func(id raft.ServerID) bool { return time.Since(peers[id].heard) < n.cfg.ElectionTimeout }
	var ids []raft.ServerID
	for _, s := range n.latest().Servers {
		if s.Suffrage != raft.Voter || string(s.ID) == n.cfg.ID {
			continue
		}
		i := len(ids)
		for i > 0 && better(alive(s.ID), alive(ids[i-1]), peers[s.ID].match, peers[ids[i-1]].match) {
			i--
		}
		ids = append(ids, "")
		copy(ids[i+1:], ids[i:])
		ids[i] = s.ID
	}
	return ids
}

func better(aliveA, aliveB bool, matchA, matchB uint64) bool {
	if aliveA != aliveB {
		return aliveA
	}
	return matchA > matchB
}

// caughtUp waits until the target has the whole log of a leader that takes no further proposals. Those that were under way
// when it began to refuse them count: an entry that reaches another voter, and not the target, would cost it the election.
func (n *Node) caughtUp(ctx context.Context, term uint64, target raft.ServerID) error {
	tick := time.NewTicker(max(n.cfg.ElectionTimeout/1000, time.Millisecond))
	defer tick.Stop()
	for n.proposing.Load() > 0 || n.evidence.snapshot()[target].match < n.raft.Load().LastIndex() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-n.stopping:
			return n.stopReason()
		}
		if !n.leading(term) {
			return n.notActive(term)
		}
	}
	return nil
}

// timeoutNow asks a voter to stand for election at once.
func (n *Node) timeoutNow(ctx context.Context, target raft.ServerID) error {
	req := &raft.TimeoutNowRequest{RPCHeader: n.inbound.header()}
	return n.await(ctx, func() error {
		return n.network.TimeoutNow(target, raft.ServerAddress(target), req, &raft.TimeoutNowResponse{})
	})
}
