package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordcell/coord/transport"
)

// Ready waits until a leader is known and this server has caught up with it. ErrNoLeader says why there is none, as far
// as this server can tell.
func (s *Server) Ready(ctx context.Context) error {
	err := s.Fresh(ctx)
	if err == nil {
		s.caughtUp.Store(true) // not later than Ready returns
	}
	if errors.Is(err, ErrNoLeader) {
		return fmt.Errorf("%w: %s", err, s.obstacle())
	}
	return err
}

// catchUp notes that this server has caught up with its cell for the first time.
func (s *Server) catchUp() {
	if s.Fresh(s.stop) == nil {
		s.caughtUp.Store(true)
	}
}

// watchEvidence warns once when there has been no proof of a leader for long, and tells when there is one again.
func (s *Server) watchEvidence() {
	patience := max(5*s.cfg.ElectionTimeout, 10*time.Second)
	tick := time.NewTicker(s.cfg.ElectionTimeout)
	defer tick.Stop()
	began, warned := s.now(), false
	for {
		select {
		case <-tick.C:
		case <-s.stop.Done():
			return
		}
		without := min(s.EvidenceAge(), s.now()-began)
		switch {
		case !warned && without > patience:
			warned = true
			s.log.Warn("no leader: calls wait", "for", without.Round(time.Second), "why", s.obstacle())
		case warned && without < s.cfg.ElectionTimeout:
			warned = false
			s.log.Warn("there is a leader again")
		}
	}
}

// obstacle says what keeps this server from a cell with a leader.
func (s *Server) obstacle() string {
	if s.mux.CellID() == [16]byte{} {
		waiting := s.forming.Waiting()
		if waiting == "" {
			waiting = "anybody to answer"
		}
		return "this server belongs to no cell yet, and waits for " + waiting + s.unreached.String()
	}
	servers, _ := s.raft.Configuration() // none after a start, until there is a leader
	all, seen, what := 0, 0, "voters"
	count := func(id string) {
		all++
		if id == s.id || s.gossip.Alive(id) {
			seen++
		}
	}
	for _, srv := range servers {
		if srv.Voter {
			count(srv.ID)
		}
	}
	if len(servers) == 0 {
		what = "servers"
		for _, p := range s.store.Peers() {
			count(p.ID)
		}
	}
	if all == 0 {
		return "the cell's leader has not sent its log yet" + s.unreached.String()
	}
	return fmt.Sprintf("%d of the cell's %d %s are in sight", seen, all, what) + s.unreached.String()
}

// unreached is why servers could not be reached: the last errors of a few addresses, for people.
type unreached struct {
	mu   sync.Mutex
	last []dialError
}

type dialError struct {
	addr string
	err  error
}

const unreachedKept = 5

func (u *unreached) note(addr string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last = slices.DeleteFunc(u.last, func(e dialError) bool { return e.addr == addr })
	if len(u.last) == unreachedKept {
		u.last = u.last[1:]
	}
	u.last = append(u.last, dialError{addr, err})
}

func (u *unreached) String() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	text := ""
	for _, e := range u.last {
		text += fmt.Sprintf("; %s: %v", e.addr, e.err)
	}
	return text
}

// notReached hears why gossip could not open a stream. A server that belongs to no cell and meets another cell at an
// address that it was told to join has been told wrong, and would look for its own for ever. One that belongs to a cell
// is not to be disturbed by whoever lives at an old address.
func (s *Server) notReached(addr string, err error) {
	s.unreached.note(addr, err)
	if !errors.Is(err, transport.ErrCell) || s.mux.CellID() != [16]byte{} {
		return
	}
	s.Go(func() {
		if s.toldToJoin(addr) {
			s.fail(fmt.Errorf("%w: at %s, which Join names: %w", ErrWrongCell, addr, err))
		}
	})
}

func (s *Server) toldToJoin(addr string) bool {
	for _, entry := range s.cfg.Join {
		addrs, err := s.resolve(s.stop, entry)
		if err == nil && slices.Contains(addrs, addr) {
			return true
		}
	}
	return false
}
