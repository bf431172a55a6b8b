package calls

import (
	"context"
	"fmt"

	"github.com/coordcell/coord/transport"
)

// Meet connects to whichever node is at an address, and returns its id. By that id it can be called as long as it is
// connected, though the Directory may not know it. If it was connected already, or an attempt is under way, that
// connection serves. Errors are those of transport.Mux.Dial, and ErrClosed.
func (x *Exchange) Meet(ctx context.Context, addr string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, x.cfg.Timeout)
	defer cancel()
	defer context.AfterFunc(x.ctx, cancel)()
	if err := x.cfg.Switch.Err(); err != nil {
		return "", fmt.Errorf("calls: meet %s: %w: %w", addr, ErrClosed, err)
	}
	nc, err := x.cfg.Mux.Dial(ctx, transport.KindCalls, addr, "")
	if err != nil {
		if x.ctx.Err() != nil {
			err = ErrClosed
		}
		return "", fmt.Errorf("calls: meet %s: %w", addr, err)
	}
	id = nc.Peer().Node
	x.mu.Lock()
	p := x.peers[id]
	if p == nil {
		p = &peer{x: x, id: id}
		x.peers[id] = p
	}
	x.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attempt != nil || p.out != nil && p.out.alive() {
		nc.Close()
		return id, nil
	}
	if p.out, err = x.openOutbound(p, nc); err != nil {
		p.out = nil
		return "", fmt.Errorf("calls: meet %s: %w", addr, err)
	}
	return id, nil
}
