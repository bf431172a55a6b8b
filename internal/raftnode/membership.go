package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// Server is one server of a configuration.
type Server struct {
	ID    string
	Voter bool
}

// Progress is what the active leader knows of another server.
type Progress struct {
	Server
	Match uint64    // the server's log agrees with the leader's up to here, at least
	Heard time.Time // when it last answered in this term; zero if it has not
}

// Configuration is the latest configuration that was committed and applied here, and the index of its entry. Its result
// must not be changed.
func (n *Node) Configuration() (servers []Server, index uint64) {
	c, index := n.machine.stored()
	for _, s := range c.Servers {
		servers = append(servers, Server{ID: string(s.ID), Voter: s.Suffrage == raft.Voter})
	}
	return servers, index
}

// Progress is what this node, as the leader of its term, has seen of the other servers of raft's latest configuration;
// nil if it does not lead.
func (n *Node) Progress() []Progress {
	if n.raft.Load().State() != raft.Leader {
		return nil
	}
	peers := n.evidence.snapshot()
	var all []Progress
	for _, s := range n.latest().Servers {
		if string(s.ID) == n.cfg.ID {
			continue
		}
		p := peers[s.ID]
		all = append(all, Progress{Server: Server{ID: string(s.ID), Voter: s.Suffrage == raft.Voter}, Match: p.match, Heard: p.heard})
	}
	return all
}

// LastIndex is the last index of this node's log. A server whose Progress.Match is near the leader's has caught up.
func (n *Node) LastIndex() uint64 { return n.raft.Load().LastIndex() }

// AddNonvoter adds a server that receives the log and has no vote. prevIndex is the index of the Configuration that the
// decision was made on; the change is refused if it is no longer the latest. Errors are Propose's.
func (n *Node) AddNonvoter(ctx context.Context, id string, prevIndex uint64) error {
	return n.change(ctx, "add", id, prevIndex, func(limit time.Duration) raft.IndexFuture {
		return n.raft.Load().AddNonvoter(raft.ServerID(id), raft.ServerAddress(id), prevIndex, limit)
	})
}

// Promote gives a server of that Configuration its vote. It is for the caller to see that it has caught up and that the
// number of voters stays odd.
func (n *Node) Promote(ctx context.Context, id string, prevIndex uint64) error {
	servers, index := n.Configuration()
	known := false
	for _, s := range servers {
		known = known || s.ID == id
	}
	if index != prevIndex || !known { // raft would make a voter of a server that it has never seen
		return fmt.Errorf("%w: promote %s: it is not in the configuration of index %d, or that is not the latest", ErrNotProposed, id, prevIndex)
	}
	return n.change(ctx, "promote", id, prevIndex, func(limit time.Duration) raft.IndexFuture {
		return n.raft.Load().AddVoter(raft.ServerID(id), raft.ServerAddress(id), prevIndex, limit)
	})
}

// Remove takes a server out of the configuration for good.
func (n *Node) Remove(ctx context.Context, id string, prevIndex uint64) error {
	return n.change(ctx, "remove", id, prevIndex, func(limit time.Duration) raft.IndexFuture {
		return n.raft.Load().RemoveServer(raft.ServerID(id), prevIndex, limit)
	})
}

func (n *Node) change(ctx context.Context, what, id string, prevIndex uint64, call func(time.Duration) raft.IndexFuture) error {
	if prevIndex == 0 {
		return fmt.Errorf("%w: %s %s: %w", ErrNotProposed, what, id, errors.New("the index of the configuration to change is needed"))
	}
	if n.transferring.Load() {
		return fmt.Errorf("%w: %s %s: leadership is being transferred", ErrNotProposed, what, id)
	}
	// Raft takes no change before the last one and the term's first entry are committed: the limit is for that.
	err := n.await(ctx, func() error { return call(n.cfg.ElectionTimeout).Error() })
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, id, err)
	}
	return nil
}
