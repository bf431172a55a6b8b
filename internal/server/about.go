package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/wire"
)

// abouts are clients that wait for news of the cell: one request of each.
type abouts struct {
	mu      sync.Mutex
	last    wire.AboutAnswer // whose Leader, Term and Servers make the Version
	waiting map[string]waitingAbout
}

type waitingAbout struct {
	req  *calls.Request
	stop func() bool // of what removes it when its connection is gone
}

// serveAbout tells a client of the cell, at once or when there is news.
func (s *Server) serveAbout(ctx context.Context, req *calls.Request) {
	m, err := wire.DecodeAbout(req.Payload)
	if err != nil {
		req.Fail(err)
		return
	}
	x := &s.abouts
	x.mu.Lock()
	if m.Known == x.last.Version && m.Known != 0 {
		if x.waiting == nil {
			x.waiting = make(map[string]waitingAbout)
		}
		if before, ok := x.waiting[req.Peer]; ok { // which it has given up
			before.stop()
			before.req.End()
		}
		x.waiting[req.Peer] = waitingAbout{req, context.AfterFunc(ctx, func() { x.remove(req) })}
		x.mu.Unlock()
		return
	}
	x.mu.Unlock()
	s.later(req, func() ([]byte, error) { return s.about().Append(nil), nil })
}

func (x *abouts) remove(req *calls.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.waiting[req.Peer].req == req {
		delete(x.waiting, req.Peer)
	}
}

// about is what this server knows of its cell right now.
func (s *Server) about() wire.AboutAnswer {
	st := s.Status()
	a := wire.AboutAnswer{
		Leader: s.Route().Leader, Term: st.Term, Applied: st.Applied, Committed: st.Committed, Revision: st.Revision,
		Counts: st.Counts, Params: s.params(), Evidence: st.Evidence,
	}
	for _, m := range s.Members() {
		a.Servers = append(a.Servers, wire.AboutServer{ID: m.ID, Name: m.Name, Addr: m.Addr, Voter: m.Voter, Alive: m.Alive})
	}
	x := &s.abouts
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last.Version == 0 || x.last.Leader != a.Leader || x.last.Term != a.Term || !slices.Equal(x.last.Servers, a.Servers) {
		x.last = wire.AboutAnswer{Version: x.last.Version + 1, Leader: a.Leader, Term: a.Term, Servers: a.Servers}
	}
	a.Version = x.last.Version
	return a
}

// followCell tells clients of news, and sends their changes away that wait for a leader that is none any more.
func (s *Server) followCell() {
	tick := time.NewTicker(max(s.cfg.ElectionTimeout, 500*time.Millisecond)) // raft does not tell of changes of the servers
	defer tick.Stop()
	leader, told := "", uint64(0)
	for {
		changed, gossiped := s.raft.LeaderChanged(), s.gossip.Changed()
		if now := s.leader(); now != leader {
			leader = now
			s.relays.dismiss()
		}
		if a := s.about(); a.Version != told {
			told = a.Version
			s.tellClients(a)
		}
		select {
		case <-changed:
		case <-gossiped:
		case <-tick.C:
		case <-s.stop.Done():
			return
		}
	}
}

func (s *Server) tellClients(a wire.AboutAnswer) {
	s.abouts.mu.Lock()
	waiting := s.abouts.waiting
	s.abouts.waiting = nil
	s.abouts.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	payload := a.Append(nil)
	for _, w := range waiting {
		w.stop()
		w.req.Reply(payload)
	}
}
