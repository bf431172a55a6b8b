package forming

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// step is what a server without state does next: wait, or bootstrap a complete proposal, or make one.
type step struct {
	wait     string // for what
	complete bool
	proposal Proposal
}

// decide is the next step of the server me, which no cell has admitted, after the answers of a round. An error is
// permanent.
func decide(me status, answers []status, silent []string) (step, error) {
	if isComplete(me, answers) {
		return step{complete: true, proposal: me.Record.Proposal}, nil
	}
	if holder := lastHolder(answers); holder != nil {
		return revive(me, *holder, answers), nil
	}
	switch {
	case me.Expect == 0:
		return step{wait: "a cell to join"}, nil
	case me.Expect > 1 && len(silent) > 0:
		return step{wait: "answers of " + strings.Join(silent, ", ")}, nil
	}
	peers := []status{me}
	for _, s := range answers {
		if s.Expect > 0 && me.Expect > 1 { // one that expects only itself needs nobody
			peers = append(peers, s)
		}
	}
	slices.SortFunc(peers, func(a, b status) int { return strings.Compare(a.ID, b.ID) })
	if wait, err := agree(me, peers); wait != "" || err != nil {
		return step{wait: wait}, err
	}
	set := choose(int(me.Expect), peers)
	switch {
	case set == nil:
		return step{wait: shortage(me, peers)}, nil
	case set[0] != me.ID:
		return step{wait: "node " + set[0] + " to propose a cell"}, nil
	}
	return step{proposal: propose(me, answers, set, "")}, nil
}

// isComplete says whether all servers of me's last proposal have adopted it.
func isComplete(me status, answers []status) bool {
	p := me.Record.Proposal
	if p.CellID == "" {
		return false
	}
	missing := len(p.Servers) - 1
	for _, s := range answers {
		if s.CellID == p.CellID && s.Record.Ballot == p.Ballot {
			return true // it knew
		}
		if slices.Contains(p.Servers, s.ID) && (s.CellID == p.CellID || !s.hasState() && s.Record.same(p)) {
			missing--
		}
	}
	return missing == 0
}

// lastHolder returns the server with state whose adopted proposal is the last, or nil if none has state.
func lastHolder(answers []status) *status {
	var last *status
	for i, s := range answers {
		if s.hasState() && (last == nil || s.Record.Ballot.Compare(last.Record.Ballot) > 0) {
			last = &answers[i]
		}
	}
	return last
}

// revive helps a cell that a server has bootstrapped and that has no leader yet: it is proposed again, to the same set.
func revive(me status, holder status, answers []status) step {
	set := holder.Record.Servers
	if holder.Record.CellID != holder.CellID || !slices.Contains(set, me.ID) {
		return step{wait: "the leader of cell " + holder.CellID}
	}
	for _, id := range set {
		i := slices.IndexFunc(answers, func(s status) bool { return s.ID == id })
		switch {
		case id == me.ID:
		case i < 0 || answers[i].hasState() && answers[i].CellID != holder.CellID:
			return step{wait: fmt.Sprintf("the leader of cell %s, or node %s to form it", holder.CellID, id)}
		case id < me.ID && !answers[i].hasState():
			return step{wait: "node " + id + " to propose cell " + holder.CellID + " again"}
		}
	}
	return step{proposal: propose(me, answers, set, holder.CellID)}
}

// agree compares the configurations of servers that might form a cell.
func agree(me status, peers []status) (wait string, err error) {
	names := make(map[string]string)
	for _, s := range peers {
		switch {
		case s.Expect != me.Expect:
			return "", fmt.Errorf("%w: Expect is %d here and %d on node %s (%s)", ErrDisagree, me.Expect, s.Expect, s.ID, s.Name)
		case s.Limits != me.Limits:
			return "", fmt.Errorf("%w: Limits are %s here and %s on node %s (%s)", ErrDisagree, me.Limits, s.Limits, s.ID, s.Name)
		}
		if other, taken := names[s.Name]; taken && s.ID == me.ID {
			return "", fmt.Errorf("%w: %q is node %s already", ErrNameTaken, s.Name, other)
		} else if taken {
			wait = fmt.Sprintf("node %s or %s to give up the name %q", other, s.ID, s.Name)
		}
		names[s.Name] = s.ID
	}
	return wait, nil
}

// shortage says why there are not enough servers to form a cell.
func shortage(me status, peers []status) string {
	if len(peers) < int(me.Expect) {
		return fmt.Sprintf("%d servers without state, %d are here", me.Expect, len(peers))
	}
	return fmt.Sprintf("servers that are not bound by an earlier attempt (this one adopted a cell of %v): "+
		"if the others of that are gone for good, remove the directories of those that are left", me.Record.sets())
}

// choose picks n of the peers, which are sorted by id, to form a cell, or returns nil: the set of the last proposal if
// all of it is there, so that a new coordinator goes on with what was begun, else the lowest ids whose records allow it.
func choose(n int, peers []status) []string {
	var last Record
	for _, s := range peers {
		if s.Record.Ballot.Compare(last.Ballot) > 0 {
			last = s.Record
		}
	}
	if len(last.Servers) == n && len(excluded(last.Servers, peers)) == 0 {
		return last.Servers
	}
	for len(peers) >= n {
		set := make([]string, n)
		for i := range n {
			set[i] = peers[i].ID
		}
		out := excluded(set, peers)
		if len(out) == 0 {
			return set
		}
		peers = slices.DeleteFunc(slices.Clone(peers), func(s status) bool { return slices.Contains(out, s.ID) })
	}
	return nil
}

// excluded lists the members of set that are not among the peers or whose records forbid it.
func excluded(set []string, peers []status) []string {
	var out []string
	for _, id := range set {
		i := slices.IndexFunc(peers, func(s status) bool { return s.ID == id })
		if i < 0 || peers[i].Record.conflict(set) != nil {
			out = append(out, id)
		}
	}
	return out
}

// propose makes me's proposal for set. The cell's id is cellID if given, else that of the last proposal for the same
// set, else a new one.
func propose(me status, answers []status, set []string, cellID string) Proposal {
	var highest uint64
	var last Record
	for _, s := range append([]status{me}, answers...) {
		highest = max(highest, s.Record.Ballot.Number)
		if slices.Equal(s.Record.Servers, set) && s.Record.Ballot.Compare(last.Ballot) > 0 {
			last = s.Record
		}
	}
	if cellID == "" {
		cellID = last.CellID
	}
	if cellID == "" {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		cellID = hex.EncodeToString(id[:])
	}
	return Proposal{Ballot: Ballot{Number: highest + 1, ID: me.ID}, CellID: cellID, Servers: slices.Clone(set)}
}
