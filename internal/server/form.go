package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/forming"
	"github.com/coordcell/coord/internal/gossip"
	"github.com/coordcell/coord/internal/raftnode"
	"github.com/coordcell/coord/internal/store"
	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

// epoch is where the seconds of a Generation are counted from.
var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *Server) openGossip() (err error) {
	s.gossip, err = gossip.Start(gossip.Config{
		ID: s.id, Meta: s.meta(), Join: s.cfg.Join, Port: s.ports.gossip(), Resolve: s.resolve,
		OnDialError: s.notReached, ElectionTimeout: s.cfg.ElectionTimeout, Logger: s.log,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var known []gossip.Peer
	for _, p := range s.store.Peers() {
		known = append(known, gossip.Peer(p))
	}
	s.gossip.Learn(known)
	return nil
}

// meta is what this server says about itself.
func (s *Server) meta() gossip.Meta {
	cell := caller.HexID(s.mux.CellID())
	return gossip.Meta{
		Cell: s.cfg.Cell, CellID: cell, Name: s.name, Addr: s.cfg.Advertise, Expect: s.cfg.Expect, HasState: cell != "",
	}
}

// resolve turns an entry of Join into addresses. Only TCP has names to look up.
func (s *Server) resolve(ctx context.Context, hostport string) ([]string, error) {
	if s.cfg.Network != transport.TCP() {
		return []string{hostport}, nil
	}
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	hosts, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	for i, h := range hosts {
		hosts[i] = net.JoinHostPort(h, port)
	}
	return hosts, nil
}

// openForming finishes what a crash may have interrupted, before raft looks at its log.
func (s *Server) openForming() (err error) {
	if err := s.finishBootstrap(); err != nil {
		return err
	}
	s.forming, err = forming.New(forming.Config{
		ID: s.id, Name: s.name, Addr: s.cfg.Advertise, Cell: s.cfg.Cell, CellID: caller.HexID(s.mux.CellID()),
		Expect: s.cfg.Expect, Limits: s.cfg.Limits.digest(), Record: s.store.Record(),
		Ask: s.askForming, View: s.gossip, Save: s.store.SaveRecord, Bootstrap: s.bootstrap, Joined: s.joined,
		Leader: s.leader, Admit: s.admit, Permanent: permanent,
		ElectionTimeout: s.cfg.ElectionTimeout, Logger: s.log,
	})
	return err
}

// finishBootstrap is for a server that crashed between raft's two writes of its first configuration. The record of
// forming says what the second one is, if it is of the cell that this server belongs to.
func (s *Server) finishBootstrap() error {
	_, err := s.store.HasState()
	if !errors.Is(err, store.ErrHalfFormed) {
		return err
	}
	record, err := forming.DecodeRecord(s.store.Record())
	if err != nil || record.CellID != caller.HexID(s.mux.CellID()) {
		return err // it has joined a cell, and waits for the leader
	}
	return raftnode.FinishBootstrap(s.store.Logs(), record.Servers)
}

// form finds, forms or joins the cell. A server that belongs to one asks whether it is still known there: it may have
// been replaced while it was away, and would wait for ever to hear from the leader.
func (s *Server) form() {
	if err := s.resumeBootstrap(); err != nil {
		s.fail(err)
		return
	}
	member := s.mux.CellID() != [16]byte{}
	_, err := s.forming.Run(s.stop)
	if err == nil && member {
		err = s.forming.Rejoin(s.stop)
	}
	switch {
	case err == nil, s.stop.Err() != nil:
	case errors.Is(err, forming.ErrWrongCell), errors.Is(err, transport.ErrCell):
		s.fail(fmt.Errorf("%w: %w", ErrWrongCell, err))
	case errors.Is(err, forming.ErrDisagree), errors.Is(err, forming.ErrRefused), errors.Is(err, forming.ErrNameTaken):
		s.fail(fmt.Errorf("%w: %w", ErrInvalid, err))
	default:
		s.fail(err)
	}
}

// resumeBootstrap is for a server that crashed after it had written the cell's id and before raft had written anything:
// the proposal that it had adopted says what to write.
func (s *Server) resumeBootstrap() error {
	has, err := s.store.HasState()
	if errors.Is(err, store.ErrHalfFormed) {
		return nil // see finishBootstrap
	}
	if has || err != nil || s.mux.CellID() == [16]byte{} {
		return err
	}
	record, err := forming.DecodeRecord(s.store.Record())
	if err != nil || record.CellID != caller.HexID(s.mux.CellID()) {
		return err // it has joined a cell, and waits for the leader
	}
	return s.raft.Bootstrap(record.Servers)
}

// bootstrap makes this server a first member of a new cell.
func (s *Server) bootstrap(cellID string, servers []string) error {
	if err := s.joined(cellID); err != nil {
		return err
	}
	return s.raft.Bootstrap(servers)
}

// joined makes this server a member's of the cell for good. From then on raft's streams of that cell are let in.
func (s *Server) joined(cellID string) error {
	var id [16]byte
	if n, err := hex.Decode(id[:], []byte(cellID)); err != nil || n != len(id) {
		return fmt.Errorf("cell id %q is not 16 bytes in hex", cellID)
	}
	if err := s.store.SetCellID(id); err != nil {
		return err
	}
	s.mux.SetCellID(id)
	return s.gossip.UpdateMeta(s.meta())
}

func (s *Server) leader() string {
	id, _ := s.raft.Leader()
	return id
}

// permanent: the other end belongs to another cell, or speaks a protocol that this program does not.
func permanent(err error) bool {
	return errors.Is(err, transport.ErrCell) || errors.Is(err, transport.ErrVersion)
}

func (s *Server) askForming(ctx context.Context, id string, method wire.Method, payload []byte) ([]byte, error) {
	return s.calls.Call(ctx, id, method, payload)
}

// serveForming answers servers that form or join a cell. They may ask for what has to be written, so they wait on a
// goroutine of their own.
func (s *Server) serveForming(ctx context.Context, req *calls.Request) {
	started := s.Go(func() {
		answer, err := s.forming.Handle(ctx, req.Method, req.Payload)
		if err != nil {
			req.Fail(err)
			return
		}
		req.Reply(answer)
	})
	if !started {
		req.Fail(errClosing)
	}
}

// termStart is the entry that this server proposes first when it has been elected. In a new cell it begins with the
// first Generation; one too many is ignored, since a new leader may not have applied the one that there is.
func (s *Server) termStart(nonce [16]byte) []byte {
	var cmds []fsm.Command
	formed := false
	s.replica.View(func(state *fsm.State) { _, formed = state.Cell() })
	if !formed {
		cmds = append(cmds, fsm.Generation{
			First: true, Cell: s.mux.CellID(), Seconds: uint64(max(0, time.Since(epoch)/time.Second)),
			Params: s.cfg.Limits.Params(),
		})
	}
	cmds = append(cmds, fsm.TermStart{Nonce: nonce, Format: wire.Format})
	entry, err := wire.AppendEntry(nil, cmds)
	if err != nil {
		s.fail(err) // cannot be: both are commands
	}
	return entry
}

// digest tells whether two servers would form the same cell.
func (l Limits) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v", l.Params()))
	return hex.EncodeToString(sum[:8])
}
