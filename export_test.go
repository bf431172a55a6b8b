package coord

import (
	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/client"
	"github.com/coordcell/coord/internal/server"
)

// StateHash is the hash of this node's replica, and the entry up to which it has applied the log.
func (n *Node) StateHash() (index, hash uint64) {
	state := n.srv.(*server.Server).Clone()
	return state.Index(), state.Hash()
}

// Damage changes this node's replica alone. Nothing else may go on in the cell meanwhile.
func (n *Node) Damage() {
	n.srv.(*server.Server).View(func(s *fsm.State) {
		s.Apply(s.Index(), 0, []fsm.Command{fsm.OpenSession{Nonce: fsm.Nonce{1}, TTL: 1e12, Internal: true}})
	})
}

// AttachedTo is the id of the server that a client is attached to; "": to none.
func AttachedTo(n *Node) string { return n.srv.(*client.Client).AttachedTo() }
