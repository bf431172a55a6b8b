package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/gossip"
	"github.com/coordcell/coord/internal/raftnode"
	"github.com/coordcell/coord/internal/store"
	"github.com/coordcell/coord/internal/wire"
)

// Status asks nobody.
func (s *Server) Status() caller.Status {
	st := caller.Status{ID: s.id, Name: s.name, Cell: s.cfg.Cell, CellID: caller.HexID(s.mux.CellID()), Evidence: s.EvidenceAge()}
	st.Leader, st.Term = s.raft.Leader()
	st.IsLeader = s.raft.ActiveTerm() != 0
	st.Applied, _ = s.raft.Applied()
	st.Committed = s.raft.Committed()
	servers, _ := s.raft.Configuration()
	st.Voter = slices.Contains(servers, raftnode.Server{ID: s.id, Voter: true})
	s.replica.View(func(state *fsm.State) { st.Revision, st.Counts = state.Revision(), state.Counts() })
	return st
}

// Members lists the servers of the configuration, ordered by id.
func (s *Server) Members() []caller.Member {
	servers, _ := s.raft.Configuration()
	leader, _ := s.raft.Leader()
	known := make(map[string]fsm.Member)
	s.replica.View(func(state *fsm.State) {
		for _, m := range state.Members() {
			known[m.ID] = m
		}
	})
	for _, m := range s.gossip.Members() {
		if _, ok := known[m.ID]; !ok { // the leader has not recorded it yet
			known[m.ID] = fsm.Member{ID: m.ID, Name: m.Name, Addr: m.Addr}
		}
	}
	contact := s.contacts(leader)
	var out []caller.Member
	for _, srv := range servers {
		m := caller.Member{ID: srv.ID, Name: known[srv.ID].Name, Addr: known[srv.ID].Addr, Voter: srv.Voter, Leader: srv.ID == leader}
		if addr, ok := s.gossip.Lookup(srv.ID); ok {
			m.Addr = addr
		}
		if srv.ID == s.id {
			m.Name, m.Addr, m.Alive = s.name, s.cfg.Advertise, true
		} else {
			m.Alive = s.gossip.Alive(srv.ID)
			m.LastContact = -1
			if d, ok := contact[srv.ID]; ok {
				m.LastContact = d
			}
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b caller.Member) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// contacts says how long ago this server has heard of those that it hears of: the leader of all, others of the leader.
func (s *Server) contacts(leader string) map[string]time.Duration {
	contact := make(map[string]time.Duration)
	for _, p := range s.raft.Progress() {
		if !p.Heard.IsZero() {
			contact[p.ID] = time.Since(p.Heard)
		}
	}
	if age := s.raft.EvidenceAge(); leader != "" && leader != s.id && age >= 0 {
		contact[leader] = age
	}
	return contact
}

// Transfer hands leadership to a voter, named by id or name; "": to whichever is best.
func (s *Server) Transfer(ctx context.Context, to string) error {
	first := ""
	for try := 0; ; try++ {
		rt := s.Route()
		if rt.Leader != "" {
			if first == "" {
				first = rt.Leader
			}
			if to == "" && rt.Leader != first {
				return nil // the answer was lost, not the request
			}
			if settled, err := s.tryTransfer(ctx, rt, to); settled {
				return err
			}
		}
		if err := s.caller.Pause(ctx, rt, try); err != nil {
			return caller.GaveUp(err, first != "")
		}
	}
}

// tryTransfer asks the leader once. It reports whether that settles it.
func (s *Server) tryTransfer(ctx context.Context, rt caller.Route, to string) (settled bool, err error) {
	id, err := caller.VoterNamed(s.Members(), to)
	switch {
	case err != nil:
		return true, err
	case id == rt.Leader:
		return true, nil
	case rt.Local:
		err = s.raft.Transfer(ctx, id)
	default:
		_, err = s.calls.Call(ctx, rt.Leader, wire.MethodTransfer, wire.Transfer{To: id}.Append(nil))
	}
	again := errors.Is(caller.Unsent(err), errNotSent) || errors.Is(err, calls.ErrNoReply) || errors.Is(err, raftnode.ErrNotActive)
	return !again, err
}

// learnMembers is called on the FSM goroutine when the members in the state have changed.
func (s *Server) learnMembers() {
	select {
	case s.learn <- struct{}{}:
	default:
	}
}

// keepPeers carries what the state says of the members to the address book and to the disk, from where a restart finds
// its way back even when everybody has moved.
func (s *Server) keepPeers() {
	for {
		select {
		case <-s.learn:
		case <-s.stop.Done():
			return
		}
		var members []fsm.Member
		s.replica.View(func(state *fsm.State) { members = state.Members() })
		if len(members) == 0 {
			continue
		}
		known := make([]gossip.Peer, len(members))
		kept := make([]store.Peer, len(members))
		for i, m := range members {
			known[i] = gossip.Peer(m)
			kept[i] = store.Peer(m)
		}
		s.gossip.Learn(known)
		if err := s.store.SavePeers(kept); err != nil {
			s.log.Warn("the addresses of the servers were not saved", "error", err)
		}
	}
}

// settling remembers the newest checkpoint that has been looked into.
type settling struct {
	mu   sync.Mutex
	last uint64
}

func (x *settling) begin(index uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if index <= x.last {
		return false
	}
	x.last = index
	return true
}
