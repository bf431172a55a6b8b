package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/lease"
	"github.com/coordcell/coord/internal/wire"
)

// Propose makes one attempt at a change: the server passes it on.
func (c *Client) Propose(ctx context.Context, _ caller.Route, cmd fsm.Command, answers chan<- caller.Answer) (forget func()) {
	server, _ := c.place.attached()
	if server == "" {
		answers <- caller.Answer{Err: fmt.Errorf("%w: attached to no server", caller.ErrNotSent)}
		return func() {}
	}
	return caller.Send(ctx, c.calls, server, wire.MethodRelay, cmd, answers)
}

// KeepAlive carries one renewal message of this node to the leader, by way of the server.
func (c *Client) KeepAlive(ctx context.Context, number uint64, ids []fsm.SessionID) (lease.Reply, error) {
	server, rt := c.place.attached()
	if rt.Leader == "" {
		select { // not to be asked again before there is somebody to ask
		case <-rt.Changed:
		case <-ctx.Done():
		}
		return lease.Reply{}, caller.ErrNotLeader
	}
	ctx, done := context.WithTimeout(ctx, 2*c.cfg.ElectionTimeout)
	defer done()
	sent := c.mux.Now()
	reply, err := c.renew(ctx, server, wire.RenewGroup{Number: number, Sessions: ids})
	if err == nil {
		c.proofs.note(sent)
	}
	c.place.renewed(server, err, c.mux.Now(), 2*c.cfg.ElectionTimeout)
	return reply, err
}

func (c *Client) renew(ctx context.Context, server string, g wire.RenewGroup) (lease.Reply, error) {
	payload, err := c.calls.Call(ctx, server, wire.MethodRenew, wire.Renew{Groups: []wire.RenewGroup{g}}.Append(nil))
	if err != nil {
		return lease.Reply{}, err
	}
	a, err := wire.DecodeRenewAnswer(payload)
	switch {
	case err != nil:
		return lease.Reply{}, err
	case len(a.Groups) != 1 || a.Groups[0].Number != g.Number: // an answer to another message says nothing of this one
		return lease.Reply{}, fmt.Errorf("%d answers to message %d", len(a.Groups), g.Number)
	}
	return lease.Reply{Dead: a.Groups[0].Dead, Again: a.Groups[0].Again, Marks: a.Groups[0].Marks}, nil
}

// Read has the server answer, from its replica and when that is fresh, or at once if that is enough.
func (c *Client) Read(ctx context.Context, r wire.Read) (wire.ReadAnswer, error) {
	for try := 0; ; try++ {
		server, rt := c.place.attached()
		if server != "" && (rt.Leader != "" || r.Stale) {
			a, err := c.readAt(ctx, server, r)
			if err == nil {
				return a, nil
			}
			c.log.Debug("a read failed", "server", server, "error", err)
		}
		if err := c.caller.Pause(ctx, rt, try); err != nil {
			return wire.ReadAnswer{}, caller.GaveUp(err, rt.Leader != "")
		}
	}
}

// readAt reads all parts of an answer at one server.
func (c *Client) readAt(ctx context.Context, server string, r wire.Read) (whole wire.ReadAnswer, err error) {
	ask := func(method wire.Method, payload []byte) (wire.ReadAnswer, error) {
		ctx, done := context.WithTimeout(ctx, 3*c.cfg.ElectionTimeout)
		defer done()
		payload, err := c.calls.Call(ctx, server, method, payload)
		if err != nil {
			return wire.ReadAnswer{}, err
		}
		return wire.DecodeReadAnswer(payload)
	}
	sent := c.mux.Now()
	if whole, err = ask(wire.MethodRead, r.Append(nil)); err != nil {
		return whole, err
	}
	if !r.Stale {
		c.proofs.note(sent)
	}
	for rest := whole.Rest; rest != 0; {
		part, err := ask(wire.MethodReadRest, wire.ReadRest{Rest: rest}.Append(nil))
		if err != nil {
			return whole, err
		}
		whole.Keys, whole.More = append(whole.Keys, part.Keys...), part.More
		whole.Lock.Holders, whole.Held = append(whole.Lock.Holders, part.Lock.Holders...), append(whole.Held, part.Held...)
		whole.Lock.Queue, whole.Waited = append(whole.Lock.Queue, part.Lock.Queue...), append(whole.Waited, part.Waited...)
		rest = part.Rest
	}
	return whole, nil
}

// Fresh waits until the server has everything that was acknowledged to anybody before the call.
func (c *Client) Fresh(ctx context.Context) error {
	_, err := c.Read(ctx, wire.Read{Kind: wire.ReadRevision})
	return err
}

// Ready waits until the node is attached to a server that has caught up with a leader.
func (c *Client) Ready(ctx context.Context) error {
	err := c.Fresh(ctx)
	if why := c.book.obstacle(); errors.Is(err, caller.ErrNoLeader) && why != nil {
		return fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// Status asks nobody: it is the last word of a server, not older than half a minute while the node is attached.
func (c *Client) Status() caller.Status {
	server, _ := c.place.attached()
	a := c.place.last()
	st := caller.Status{
		ID: c.id, Name: c.name, Cell: c.cfg.Cell, CellID: caller.HexID(c.mux.CellID()), Client: true, Term: a.Term, Applied: a.Applied, Committed: a.Committed,
		Revision: a.Revision, Counts: a.Counts, Evidence: c.EvidenceAge(),
	}
	if server != "" {
		st.Leader = a.Leader
	}
	return st
}

// Members lists the servers of the cell, as the last one that has told of them sees them.
func (c *Client) Members() (out []caller.Member) {
	a := c.place.last()
	for _, s := range a.Servers {
		out = append(out, caller.Member{
			ID: s.ID, Name: s.Name, Addr: s.Addr, Voter: s.Voter, Leader: s.ID == a.Leader, Alive: s.Alive, LastContact: -1,
		})
	}
	return out
}

// Transfer hands leadership to a voter, named by id or name; "": to whichever is best. It asks the leader itself.
func (c *Client) Transfer(ctx context.Context, to string) error {
	first := ""
	for try := 0; ; try++ {
		rt := c.Route()
		if rt.Leader != "" {
			if first == "" {
				first = rt.Leader
			}
			if to == "" && rt.Leader != first {
				return nil // the answer was lost, not the request
			}
			id, err := caller.VoterNamed(c.Members(), to)
			if err != nil || id == rt.Leader {
				return err
			}
			_, err = c.calls.Call(ctx, rt.Leader, wire.MethodTransfer, wire.Transfer{To: id}.Append(nil))
			if !errors.Is(caller.Unsent(err), caller.ErrNotSent) && !errors.Is(err, calls.ErrNoReply) {
				return err
			}
		}
		if err := c.caller.Pause(ctx, rt, try); err != nil {
			return caller.GaveUp(err, first != "")
		}
	}
}
