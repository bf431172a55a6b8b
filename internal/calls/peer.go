package calls

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coordcell/coord/transport"
)

var errNoAddress = errors.New("the node's address is not known")

// peer is a node that is called: the connection to it, or the attempt to make one.
type peer struct {
	x  *Exchange
	id string

	mu       sync.Mutex
	out      *outbound // nil: not connected
	attempt  *attempt  // nil: none under way
	failures int       // in a row
	after    time.Time // no attempt before
}

// attempt is one dialling, which all that need the connection wait for.
type attempt struct {
	done chan struct{} // closed when out and err are set
	out  *outbound
	err  error
}

// connection returns a connection to a node. If there is none it waits for the next attempt to make one, which begins
// at once or after the pause that earlier failures call for, and fails with it.
func (x *Exchange) connection(ctx context.Context, id string) (*outbound, error) {
	p, err := x.peer(id)
	if err != nil {
		return nil, err
	}
	if out := p.connection(); out != nil {
		return out, nil
	}
	a, err := p.join()
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
		return a.out, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// peer finds a peer. Those that the directory does not know (any more) are forgotten, unless they are connected.
func (x *Exchange) peer(id string) (*peer, error) {
	_, known := x.cfg.Directory.Lookup(id)
	x.mu.Lock()
	p := x.peers[id]
	err := x.err
	if err == nil && known && p == nil {
		p = &peer{x: x, id: id}
		x.peers[id] = p
	}
	x.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if known || p != nil && p.connection() != nil {
		return p, nil
	}
	x.mu.Lock()
	delete(x.peers, id)
	x.mu.Unlock()
	return nil, errNoAddress
}

// connection is the connection that there is; nil: none.
func (p *peer) connection() *outbound {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out != nil && p.out.alive() {
		return p.out
	}
	return nil
}

// join returns the attempt that is under way, and begins one if there is none.
func (p *peer) join() (*attempt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attempt != nil {
		return p.attempt, nil
	}
	a := &attempt{done: make(chan struct{})}
	if err := p.x.start(func() { p.run(a) }); err != nil {
		return nil, err
	}
	p.attempt = a
	return a, nil
}

// run is the goroutine of an attempt.
func (p *peer) run(a *attempt) {
	p.mu.Lock()
	wait := time.Until(p.after)
	p.mu.Unlock()
	a.out, a.err = p.dial(wait)
	p.mu.Lock()
	p.attempt = nil
	if a.err != nil {
		p.failed()
	} else {
		p.out = a.out
	}
	p.mu.Unlock()
	close(a.done)
}

func (p *peer) dial(wait time.Duration) (*outbound, error) {
	x := p.x
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-x.ctx.Done():
			return nil, ErrClosed
		}
	}
	if err := x.cfg.Switch.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClosed, err)
	}
	addr, ok := x.cfg.Directory.Lookup(p.id)
	if !ok {
		return nil, errNoAddress
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.cfg.Timeout)
	defer cancel()
	nc, err := x.cfg.Mux.Dial(ctx, transport.KindCalls, addr, p.id)
	if err != nil {
		return nil, err
	}
	return x.openOutbound(p, nc)
}

// dropped is called when a connection has ended. One that did not live long counts as an attempt that failed.
func (p *peer) dropped(out *outbound) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == out {
		p.out = nil
	}
	if time.Since(out.born) < p.x.cfg.Timeout {
		p.failed()
	} else {
		p.failures = 0
	}
}

// failed sets the pause before the next attempt: it doubles with each failure in a row from a 32nd of the Timeout up
// to the Timeout, less up to half of it by chance, so that the nodes do not all call at once. p.mu is held.
func (p *peer) failed() {
	limit := p.x.cfg.Timeout
	pause := min(limit, limit/32<<min(p.failures, 5))
	p.failures++
	p.after = time.Now().Add(pause - rand.N(pause/2+1))
}

// alive reports whether the connection has not been closed.
func (o *outbound) alive() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err == nil
}
