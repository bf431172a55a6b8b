package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/wire"
)

const (
	// gatherTime is how long the renewals of clients wait for each other. A client's lease counts from its own send, and
	// the leader's deadline from its own receipt, which is later by whatever happens in between. So the wait lets nobody
	// act for longer; it costs the holder so much of its margin against a late answer, one fiftieth of the shortest TTL.
	gatherTime = 20 * time.Millisecond
	// gatherMost bounds the sessions in one message to the leader.
	gatherMost = 100_000
	// gatherInFlight bounds the messages that have not been answered: while the leader is slow, the next one grows.
	gatherInFlight = 8
)

// renewals are messages of clients that have arrived and were not passed on yet.
type renewals struct {
	mu       sync.Mutex
	waiting  []renewal
	sessions int
	running  bool
	slots    chan struct{}
}

// renewal is one message of a client.
type renewal struct {
	req    *calls.Request
	groups []wire.RenewGroup
}

func newRenewals() *renewals { return &renewals{slots: make(chan struct{}, gatherInFlight)} }

// serveRenew takes renewals: of a client, to gather them with others; or gathered, for the leader to answer.
func (s *Server) serveRenew(ctx context.Context, req *calls.Request) {
	m, err := wire.DecodeRenew(req.Payload)
	if err != nil {
		req.Fail(err)
		return
	}
	req.Payload = nil
	if m.Gathered { // never passed on again: two servers that take each other for the leader would do so for ever
		s.later(req, func() ([]byte, error) {
			groups, err := s.renew(ctx, m.Groups)
			return wire.RenewAnswer{Groups: groups}.Append(nil), err
		})
		return
	}
	sessions := 0
	for _, g := range m.Groups {
		sessions += len(g.Sessions)
	}
	g := s.renewals
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sessions+sessions > gatherMost && len(g.waiting) > 0 {
		req.Fail(calls.ErrBusy)
		return
	}
	if !g.running && !s.Go(s.gatherRenewals) {
		req.Fail(errClosing)
		return
	}
	g.running = true
	g.waiting = append(g.waiting, renewal{req: req, groups: m.Groups})
	g.sessions += sessions
}

// gatherRenewals passes on what has gathered, for as long as something comes.
func (s *Server) gatherRenewals() {
	g := s.renewals
	for {
		sleep(s.stop, gatherTime)
		select {
		case g.slots <- struct{}{}:
		case <-s.stop.Done():
		}
		g.mu.Lock()
		batch := g.waiting
		g.waiting, g.sessions = nil, 0
		if len(batch) == 0 || s.stop.Err() != nil {
			g.running = false
			g.mu.Unlock()
			select {
			case <-g.slots:
			default:
			}
			return
		}
		g.mu.Unlock()
		if !s.Go(func() { s.passRenewals(batch); <-g.slots }) {
			return // the connections are about to be closed
		}
	}
}

// passRenewals has the leader answer messages of clients, and gives each what it says of that client's message. This
// server acknowledges nothing by itself: an answer is that of an active leader with evidence from after its receipt of
// the message, whose send by the client was earlier still.
func (s *Server) passRenewals(batch []renewal) {
	var groups []wire.RenewGroup
	for _, r := range batch {
		groups = append(groups, r.groups...)
	}
	answers, err := s.renewAtLeader(groups)
	for _, r := range batch {
		if err != nil {
			r.req.Fail(s.remote(err))
			continue
		}
		n := len(r.groups)
		r.req.Reply(wire.RenewAnswer{Groups: answers[:n]}.Append(nil))
		answers = answers[n:]
	}
}

func (s *Server) renewAtLeader(groups []wire.RenewGroup) ([]wire.RenewedGroup, error) {
	ctx, cancel := context.WithTimeout(s.stop, 2*s.cfg.ElectionTimeout)
	defer cancel()
	rt := s.Route()
	switch {
	case rt.Local:
		return s.renew(ctx, groups)
	case rt.Leader == "":
		return nil, errNotLeader
	}
	payload, err := s.calls.Call(ctx, rt.Leader, wire.MethodRenew, wire.Renew{Gathered: true, Groups: groups}.Append(nil))
	if err != nil {
		return nil, err
	}
	a, err := wire.DecodeRenewAnswer(payload)
	if err == nil && len(a.Groups) != len(groups) {
		err = fmt.Errorf("%d answers to %d messages", len(a.Groups), len(groups))
	}
	if err != nil {
		return nil, err
	}
	for i, g := range a.Groups {
		if g.Number != groups[i].Number { // an answer to another message says nothing of this one
			return nil, fmt.Errorf("answer %d to message %d", g.Number, groups[i].Number)
		}
	}
	return a.Groups, nil
}
