package forming

import (
	"fmt"
	"slices"
	"time"

	"github.com/coordcell/coord/internal/gossip"
)

// maxMembers bounds the servers of a cell, voters and others.
const maxMembers = 64

// cellView is what the leader knows when it decides.
type cellView struct {
	self      string
	index     uint64 // of the configuration
	servers   []serverView
	recorded  []gossip.Peer // members in the cell's state
	seen      []gossip.Member
	maxVoters int
	scale     time.Duration // the election timeout
}

// serverView is a server of the configuration.
type serverView struct {
	id     string
	voter  bool
	silent time.Duration // since it last answered this leader, or since the term began; 0 for the leader itself
	ready  time.Duration // for how long it has been in touch and caught up
}

// healthy servers have answered the leader a moment ago.
func (v cellView) healthy(s serverView) bool { return s.silent <= 2*v.scale }

// dead servers neither answer the leader nor gossip.
func (v cellView) dead(s serverView) bool {
	alive := slices.ContainsFunc(v.seen, func(m gossip.Member) bool { return m.ID == s.id && m.Alive })
	return s.id != v.self && s.silent > 4*v.scale && !alive
}

// voters counts the voters and those that are healthy.
func (v cellView) voters() (all, healthy int) {
	for _, s := range v.servers {
		if s.voter {
			all++
			if v.healthy(s) {
				healthy++
			}
		}
	}
	return all, healthy
}

func (v cellView) server(id string) *serverView {
	for i, s := range v.servers {
		if s.id == id {
			return &v.servers[i]
		}
	}
	return nil
}

// nameOf is what a server is called: in the cell's state, else by its own word.
func (v cellView) nameOf(id string) string {
	for _, m := range v.recorded {
		if m.ID == id {
			return m.Name
		}
	}
	for _, m := range v.seen {
		if m.ID == id {
			return m.Name
		}
	}
	return ""
}

// admission is the leader's decision about a server that asks to join.
type admission struct {
	code   JoinCode // Admitted: it is in the configuration, or add says to put it there
	reason string
	add    bool
	remove string // id of the dead server that it replaces, to be removed first; or empty
}

// decideAdmission decides about r, whose server has been asking for that long.
//
// A new id with the name of a known server asks to replace it. It is refused for good only if the known one has been
// heard of well after the first request: a server that was killed a moment ago looks alive for a while.
func decideAdmission(v cellView, r JoinRequest, asking time.Duration) admission {
	if v.server(r.ID) != nil {
		return admission{code: Admitted}
	}
	if len(r.ID) == 0 || len(r.ID) > gossip.MaxIDLen || len(r.Name) > gossip.MaxNameLen || len(r.Addr) > gossip.MaxAddrLen {
		return admission{code: Refused, reason: "id, name or address are too long"}
	}
	owner := v.owner(r.Name)
	switch {
	case owner == nil && len(v.servers) >= maxMembers:
		return admission{code: Refused, reason: fmt.Sprintf("the cell has %d servers, which is the limit", len(v.servers))}
	case owner == nil:
		return admission{code: Admitted, add: true}
	case owner.id == v.self, asking-owner.silent >= 2*v.scale:
		return admission{code: Refused, reason: fmt.Sprintf("a second live node named %q: node %s has that name", r.Name, owner.id)}
	case !v.dead(*owner):
		return admission{code: Retry, reason: fmt.Sprintf("node %s, named %q too, is not known to be dead yet", owner.id, r.Name)}
	}
	if all, healthy := v.voters(); healthy < majority(all) {
		return admission{code: Retry, reason: fmt.Sprintf("%d of %d voters are healthy: too few to replace node %s", healthy, all, owner.id)}
	}
	return admission{code: Admitted, add: true, remove: owner.id}
}

// owner is the server of that name, or nil.
func (v cellView) owner(name string) *serverView {
	for i, s := range v.servers {
		if name != "" && v.nameOf(s.id) == name {
			return &v.servers[i]
		}
	}
	return nil
}

// change is one thing that the leader does to keep its cell in order. At most one field is set.
type change struct {
	promote string       // id of a server to give a vote
	record  *gossip.Peer // a member whose name or address is to be recorded
	forget  string       // id of a recorded member that is no longer in the configuration
}

// decideStep is the next change, if any is due.
func decideStep(v cellView) change {
	for _, s := range v.servers {
		if p := v.unrecorded(s.id); p != nil {
			return change{record: p}
		}
	}
	for _, m := range v.recorded {
		if v.server(m.ID) == nil {
			return change{forget: m.ID}
		}
	}
	return change{promote: v.promotable()}
}

// unrecorded is what a living server says about itself, if the cell's state says something else. A name that another
// one has is not recorded.
func (v cellView) unrecorded(id string) *gossip.Peer {
	i := slices.IndexFunc(v.seen, func(m gossip.Member) bool { return m.ID == id && m.Alive })
	if i < 0 {
		return nil
	}
	said := gossip.Peer{ID: id, Name: v.seen[i].Name, Addr: v.seen[i].Addr}
	for _, m := range v.recorded {
		switch {
		case m == said:
			return nil
		case m.ID != id && m.Name == said.Name && v.server(m.ID) != nil:
			return nil
		}
	}
	return &said
}

// promotable is the server to give a vote next, or empty. An even number of voters takes one more to be odd; an odd one
// takes two, one after the other, and only if both are there.
func (v cellView) promotable() string {
	all, healthy := v.voters()
	var ready []string
	for _, s := range v.servers {
		if !s.voter && s.ready >= 2*v.scale {
			ready = append(ready, s.id)
		}
	}
	needed := 1 + all%2
	if len(ready) < needed || all+needed > v.maxVoters || healthy+1 < majority(all+1) {
		return ""
	}
	return ready[0]
}
