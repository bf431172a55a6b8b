package forming

import (
	"context"
	"fmt"

	"github.com/coordcell/coord/internal/wire"
)

// Handle serves wire.MethodQuery, MethodAdopt, MethodForm and MethodJoin. It may be called at any time, also by servers of no or another cell.
func (f *Forming) Handle(ctx context.Context, method wire.Method, payload []byte) ([]byte, error) {
	switch method {
	case wire.MethodQuery:
		return f.status().encode(), nil
	case wire.MethodAdopt, wire.MethodForm:
		p, err := decodeProposal(payload)
		if err != nil {
			return nil, err
		}
		if method == wire.MethodAdopt {
			return f.adopt(p).encode(), nil
		}
		return f.bootstrap(p).encode(), nil
	case wire.MethodJoin:
		r, err := decodeJoinRequest(payload)
		if err != nil {
			return nil, err
		}
		return f.admit(ctx, r).encode(), nil
	}
	return nil, fmt.Errorf("forming: unknown method %d", method)
}

// status says where this server stands.
func (f *Forming) status() status {
	s := status{ID: f.cfg.ID, Name: f.cfg.Name, Cell: f.cfg.Cell, Expect: uint64(f.cfg.Expect), Limits: f.cfg.Limits}
	if f.cfg.Leader != nil {
		s.Leader = f.cfg.Leader()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.CellID, s.Record = f.cellID, f.record
	return s
}

// adopt records p, durably, if the rules allow it. A server of that very cell counts as having adopted it.
func (f *Forming) adopt(p Proposal) answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failed != nil:
		return answer{Reason: "the server is failing"}
	case f.cellID == p.CellID && f.cellID != "":
		return answer{OK: true}
	case f.cellID != "":
		return answer{Reason: "the server belongs to cell " + f.cellID}
	}
	next, err := f.record.adopt(p, f.cfg.ID)
	if err != nil {
		return answer{Reason: err.Error()}
	}
	if next.same(f.record.Proposal) {
		return answer{OK: true}
	}
	if err := f.cfg.Save(next.Encode()); err != nil {
		f.settle("", nil, fmt.Errorf("record of adopted proposals: %w", err))
		return answer{Reason: "the server is failing"}
	}
	f.record = next
	return answer{OK: true}
}

// bootstrap makes this server a member of the cell of p, which is complete, if p is its last adopted proposal.
func (f *Forming) bootstrap(p Proposal) answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.cellID == p.CellID && f.cellID != "":
		return answer{OK: true}
	case f.cellID != "" || f.failed != nil || !f.record.same(p):
		return answer{Reason: "not the last adopted proposal"}
	}
	if err := f.cfg.Bootstrap(p.CellID, p.Servers); err != nil {
		f.settle("", nil, fmt.Errorf("bootstrap: %w", err))
		return answer{Reason: "the server is failing"}
	}
	f.log.Info("forming: a new cell", "cell", p.CellID, "servers", p.Servers)
	f.settle(p.CellID, p.Servers, nil)
	return answer{OK: true}
}

// join makes this server a member of the cell that has admitted it, unless it has got state in the meantime.
func (f *Forming) join(cellID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cellID != "" || f.failed != nil {
		return
	}
	if err := f.cfg.Joined(cellID); err != nil {
		f.settle("", nil, fmt.Errorf("cell id: %w", err))
		return
	}
	f.log.Info("forming: joined", "cell", cellID)
	f.settle(cellID, nil, nil)
}

// settle ends Run. f.mu is held.
func (f *Forming) settle(cellID string, servers []string, err error) {
	f.cellID, f.failed = cellID, err
	f.outcome = Outcome{CellID: cellID, Servers: servers}
	close(f.settled)
}

func (f *Forming) admit(ctx context.Context, r JoinRequest) JoinReply {
	f.mu.Lock()
	own, failed := f.cellID, f.failed
	f.mu.Unlock()
	switch {
	case r.Cell != f.cfg.Cell:
		return JoinReply{Code: Refused, Reason: fmt.Sprintf("this is cell %q, not %q", f.cfg.Cell, r.Cell)}
	case own == "" || failed != nil || f.cfg.Admit == nil:
		return JoinReply{Code: Retry, Reason: "the server belongs to no cell yet"}
	}
	reply := f.cfg.Admit(ctx, r)
	if reply.Code == Admitted {
		reply.CellID = own
	}
	return reply
}

// Record is what this server has adopted.
func (f *Forming) Record() Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record
}
