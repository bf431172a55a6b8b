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
	ctx    context.Context
	cancel context.CancelFunc
	hurry  chan struct{} // of one: do not pause

	done chan struct{} // closed when out and err are set
	out  *outbound
	err  error
}

// errGivenUp is why an attempt ends that GiveUp has ended.
var errGivenUp = errors.New("given up")

// Hurry makes the next attempt to connect to a peer at once, whatever became of earlier ones: it has been heard of, or
// cannot be done without.
func (x *Exchange) Hurry(id string) {
	x.touch(id, func(p *peer) {
		p.failures, p.after = 0, time.Time{}
		if p.attempt != nil {
			select {
			case p.attempt.hurry <- struct{}{}:
			default:
			}
		}
	})
}

// GiveUp ends an attempt to connect to a peer that is under way: those who wait for it had better turn to another one.
func (x *Exchange) GiveUp(id string) {
	x.touch(id, func(p *peer) {
		if p.attempt != nil {
			p.attempt.cancel()
		}
	})
}

// touch calls f with a peer that has been called before, under its mu.
func (x *Exchange) touch(id string, f func(*peer)) {
	x.mu.Lock()
	p := x.peers[id]
	x.mu.Unlock()
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
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
	a := &attempt{hurry: make(chan struct{}, 1), done: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancel(p.x.ctx)
	if err := p.x.start(func() { p.run(a) }); err != nil {
		a.cancel()
		return nil, err
	}
	p.attempt = a
	return a, nil
}

// run is the goroutine of an attempt.
func (p *peer) run(a *attempt) {
	defer a.cancel()
	p.mu.Lock()
	wait := time.Until(p.after)
	p.mu.Unlock()
	a.out, a.err = p.dial(a, wait)
	p.mu.Lock()
	p.attempt = nil
	switch {
	case a.err == nil:
		p.out = a.out
	case !errors.Is(a.err, errGivenUp):
		p.failed()
	}
	p.mu.Unlock()
	close(a.done)
}

func (p *peer) dial(a *attempt, wait time.Duration) (*outbound, error) {
	x := p.x
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-a.hurry:
		case <-a.ctx.Done():
			return nil, p.ended()
		}
	}
	if err := x.cfg.Switch.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClosed, err)
	}
	addr, ok := x.cfg.Directory.Lookup(p.id)
	if !ok {
		return nil, errNoAddress
	}
	ctx, cancel := context.WithTimeout(a.ctx, x.cfg.Timeout)
	defer cancel()
	nc, err := x.cfg.Mux.Dial(ctx, transport.KindCalls, addr, p.id)
	if err != nil && a.ctx.Err() != nil {
		return nil, p.ended()
	}
	if err != nil {
		return nil, err
	}
	return x.openOutbound(p, nc)
}

// ended is why an attempt was ended before its time.
func (p *peer) ended() error {
	if p.x.ctx.Err() != nil {
		return ErrClosed
	}
	return errGivenUp
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
