package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/lease"
	"github.com/coordcell/coord/internal/replica"
	"github.com/coordcell/coord/internal/wire"
)

// serve answers the calls of other nodes. It runs on the connection's reader and must not block.
func (s *Server) serve(ctx context.Context, req *calls.Request) {
	if s.stop.Err() != nil {
		req.Fail(errClosing)
		return
	}
	switch req.Method {
	case wire.MethodPropose:
		s.onceServing(ctx, req, s.servePropose)
	case wire.MethodReadIndex:
		s.onceServing(ctx, req, s.serveReadIndex)
	case wire.MethodKeepAlive:
		s.onceServing(ctx, req, s.serveKeepAlive)
	case wire.MethodHashAt:
		s.serveHashAt(req)
	case wire.MethodTransfer:
		s.serveTransfer(ctx, req)
	case wire.MethodTestify:
		s.serveTestify(ctx, req)
	case wire.MethodRelay:
		s.serveRelay(ctx, req)
	case wire.MethodRenew:
		s.serveRenew(ctx, req)
	case wire.MethodRead:
		s.serveRead(ctx, req)
	case wire.MethodReadRest:
		s.serveReadRest(req)
	case wire.MethodAsk:
		s.onceServing(ctx, req, s.serveAsk)
	case wire.MethodFormat:
		req.Reply(wire.FormatAnswer{Format: wire.Format}.Append(nil))
	case wire.MethodAbout:
		s.serveAbout(ctx, req)
	case wire.MethodPoll:
		s.servePoll(ctx, req)
	case wire.MethodPollLock:
		s.servePollLock(ctx, req)
	case wire.MethodQuery, wire.MethodAdopt, wire.MethodForm, wire.MethodJoin:
		s.serveForming(ctx, req)
	default:
		req.Fail(calls.ErrUnknownMethod)
	}
}

// onceServing serves a request that only the active leader can. A server that has just been elected lets it wait for the
// beginning of its term, which is near: whoever was sent away would come back a little too early, or too late.
func (s *Server) onceServing(ctx context.Context, req *calls.Request, serve func(context.Context, *calls.Request)) {
	if !s.elected() {
		serve(ctx, req)
		return
	}
	started := s.Go(func() {
		limit := time.NewTimer(s.cfg.ElectionTimeout)
		defer limit.Stop()
		for over := false; !over; {
			changed := s.raft.LeaderChanged()
			if !s.elected() {
				break
			}
			select {
			case <-changed:
			case <-limit.C:
				over = true
			case <-ctx.Done():
				over = true
			case <-s.stop.Done():
				over = true
			}
		}
		serve(ctx, req)
	})
	if !started {
		req.Fail(errClosing)
	}
}

// elected: this server leads, and does not serve yet.
func (s *Server) elected() bool {
	if s.raft.ActiveTerm() != 0 {
		return false
	}
	leader, _ := s.raft.Leader()
	return leader == s.id
}

// later answers a request on a goroutine of its own.
func (s *Server) later(req *calls.Request, answer func() ([]byte, error)) {
	started := s.Go(func() {
		payload, err := answer()
		if err != nil {
			req.Fail(s.remote(err))
			return
		}
		req.Reply(payload)
	})
	if !started {
		req.Fail(errClosing)
	}
}

// remote says to another server that this one does not lead, where that is the reason.
func (s *Server) remote(err error) error {
	if s.raft.ActiveTerm() != 0 {
		return err
	}
	leader, _ := s.raft.Leader()
	return fmt.Errorf("%w: %w", &calls.NotLeaderError{Leader: leader}, err)
}

// guest is a request of another server for changes that this one, the leader, is to make. It is answered change by
// change, as the state machine does: a queued lock perhaps hours later.
type guest struct {
	req  *calls.Request
	stop func() bool // of what removes it when its connection is gone

	mu     sync.Mutex
	left   int      // changes that have not been answered
	forget []func() // of those that wait
	over   bool
}

// guests are all that wait. When this server stops leading they are sent away, to ask the next leader.
type guests struct {
	mu  sync.Mutex
	all map[*guest]struct{}
}

func (g *guests) add(x *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = make(map[*guest]struct{})
	}
	g.all[x] = struct{}{}
}

func (g *guests) remove(x *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, x)
}

// dismiss sends everybody away. What they asked for may have been done, or may still be.
func (g *guests) dismiss() {
	g.mu.Lock()
	all := g.all
	g.all = nil
	g.mu.Unlock()
	for x := range all {
		x.end(errors.New("the leader has changed"))
	}
}

func (s *Server) servePropose(ctx context.Context, req *calls.Request) {
	m, err := wire.DecodePropose(req.Payload)
	if err != nil {
		req.Fail(err)
		return
	}
	if s.raft.ActiveTerm() == 0 {
		req.Fail(s.remote(errNotLeader))
		return
	}
	g := &guest{req: req, left: len(m.Commands)}
	g.mu.Lock()
	g.stop = context.AfterFunc(ctx, func() { s.leave(g, io.EOF) })
	g.mu.Unlock()
	s.guests.add(g)
	if g.gone() { // before it was added
		s.guests.remove(g)
	}
	var refused []wire.Refusal
	for _, cmd := range m.Commands {
		key, ok := keyOf(cmd)
		err := s.cfg.Limits.checkCommand(cmd)
		if err == nil && !ok {
			err = ErrInvalid
		}
		if err == nil {
			err = s.proposeFor(g, key, cmd)
		}
		if err != nil {
			refused = append(refused, wire.Refusal{Session: key.Session, Seq: key.Seq, Nonce: key.Nonce, Reason: err.Error()})
		}
	}
	if len(refused) > 0 {
		s.answer(g, len(refused), wire.ProposeReply{Refused: refused})
	}
}

func (s *Server) proposeFor(g *guest, key replica.Key, cmd fsm.Command) error {
	if err := s.checkFormat(cmd); err != nil {
		return err
	}
	forget := s.replica.Await(key, func(res fsm.Result) {
		s.answer(g, 1, wire.ProposeReply{Replies: []fsm.Reply{{Session: key.Session, Seq: key.Seq, Nonce: key.Nonce, Result: res}}})
	})
	err := s.packer.submit(proposal{cmd: cmd, failed: func(err error) { s.leave(g, err) }})
	if err != nil {
		forget()
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		forget()
	} else {
		g.forget = append(g.forget, forget)
	}
	return nil
}

// answer sends n answers to a guest, who leaves with the last one.
func (s *Server) answer(g *guest, n int, m wire.ProposeReply) {
	g.mu.Lock()
	g.left -= n
	last := g.left <= 0 && !g.over
	if last {
		g.over = true
	}
	g.mu.Unlock()
	if !last {
		g.req.Send(m.Append(nil))
		return
	}
	g.req.Reply(m.Append(nil))
	g.stop()
	s.guests.remove(g)
}

func (g *guest) gone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.over
}

// leave sends one guest away.
func (s *Server) leave(g *guest, reason error) {
	g.end(reason)
	s.guests.remove(g)
}

// end sends a guest away. What still waits for answers waits no more.
func (g *guest) end(reason error) {
	g.mu.Lock()
	over := g.over
	g.over = true
	forget := g.forget
	g.forget = nil
	g.mu.Unlock()
	if over {
		return
	}
	for _, f := range forget {
		f()
	}
	g.req.Fail(reason)
	g.stop()
}

// keyOf is the key under which a change is answered.
func keyOf(cmd fsm.Command) (replica.Key, bool) {
	var c fsm.Change
	switch cmd := cmd.(type) {
	case fsm.OpenSession:
		return replica.Key{Nonce: cmd.Nonce}, true
	case fsm.CloseSession:
		c = cmd.Change
	case fsm.Lock:
		c = cmd.Change
	case fsm.Unlock:
		c = cmd.Change
	case fsm.Withdraw:
		c = cmd.Change
	case fsm.SetData:
		c = cmd.Change
	case fsm.HandOver:
		c = cmd.Change
	case fsm.Revoke:
		c = cmd.Change
	case fsm.RevokeSession:
		c = cmd.Change
	case fsm.Put:
		c = cmd.Change
	case fsm.Delete:
		c = cmd.Change
	case fsm.Txn:
		c = cmd.Change
	default:
		return replica.Key{}, false
	}
	return replica.Key{Session: c.Session, Seq: c.Seq}, true
}

func (s *Server) serveReadIndex(ctx context.Context, req *calls.Request) {
	s.later(req, func() ([]byte, error) {
		term := s.raft.ActiveTerm()
		index, err := s.raft.ReadIndex(ctx)
		return wire.ReadIndexAnswer{Term: term, Index: index}.Append(nil), err
	})
}

func (s *Server) askReadIndex(ctx context.Context, leader string) (uint64, error) {
	payload, err := s.calls.Call(ctx, leader, wire.MethodReadIndex, wire.ReadIndex{}.Append(nil))
	if err != nil {
		return 0, err
	}
	m, err := wire.DecodeReadIndexAnswer(payload)
	return m.Index, err
}

func (s *Server) serveKeepAlive(ctx context.Context, req *calls.Request) {
	m, err := wire.DecodeKeepAlive(req.Payload)
	if err != nil {
		req.Fail(err)
		return
	}
	s.later(req, func() ([]byte, error) {
		answers, err := s.renew(ctx, []wire.RenewGroup{{Number: m.Number, Sessions: m.Sessions}})
		if err != nil {
			return nil, err
		}
		return wire.KeepAliveAnswer{Number: m.Number, Dead: answers[0].Dead, Again: answers[0].Again, Marks: answers[0].Marks}.Append(nil), nil
	})
}

func (s *Server) askKeepAlive(ctx context.Context, leader string, number uint64, ids []fsm.SessionID) (lease.Reply, error) {
	m := wire.KeepAlive{Node: s.id, Number: number, Sessions: ids}
	payload, err := s.calls.Call(ctx, leader, wire.MethodKeepAlive, m.Append(nil))
	if err != nil {
		return lease.Reply{}, err
	}
	a, err := wire.DecodeKeepAliveAnswer(payload)
	if err == nil && a.Number != number {
		err = fmt.Errorf("answer %d to message %d", a.Number, number)
	}
	if err != nil {
		return lease.Reply{}, err
	}
	return lease.Reply{Dead: a.Dead, Again: a.Again, Marks: a.Marks}, nil
}

// serveHashAt tells this server's hash at a checkpoint. If the asker's is another, one of the two has to go, and this
// server finds out whether it is the one.
func (s *Server) serveHashAt(req *calls.Request) {
	m, err := wire.DecodeHashAt(req.Payload)
	if err != nil {
		req.Fail(err)
		return
	}
	ours, known := s.replica.HashAt(m.Index)
	req.Reply(wire.HashAtAnswer{Index: m.Index, Known: known, Hash: ours}.Append(nil))
	if known && ours != m.Hash {
		s.mismatch(m.Index, ours, m.Hash)
	}
}

func (s *Server) askHash(ctx context.Context, peer string, index, ours uint64) (hash uint64, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*s.cfg.ElectionTimeout)
	defer cancel()
	payload, err := s.calls.Call(ctx, peer, wire.MethodHashAt, wire.HashAt{Index: index, Hash: ours}.Append(nil))
	if err != nil {
		return 0, false, err
	}
	a, err := wire.DecodeHashAtAnswer(payload)
	return a.Hash, a.Known, err
}

func (s *Server) serveTransfer(ctx context.Context, req *calls.Request) {
	m, err := wire.DecodeTransfer(req.Payload)
	if err != nil {
		req.Fail(err)
		return
	}
	s.later(req, func() ([]byte, error) {
		if s.raft.ActiveTerm() == 0 {
			return nil, errNotLeader
		}
		return nil, s.raft.Transfer(ctx, m.To)
	})
}
