package calls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

// maxUrgent is how many urgent requests may be under way on a connection, beside the others.
const maxUrgent = 64

// isUrgent says which requests, and their replies, overtake the others that are queued.
func isUrgent(m wire.Method) bool {
	return m == wire.MethodKeepAlive || m == wire.MethodRenew || m == wire.MethodTestify
}

// outbound is a connection that this node has dialled: requests leave on it, and replies come back.
type outbound struct {
	link
	peer    *peer
	born    time.Time
	slots   chan struct{} // holds one for each request under way
	urgents chan struct{} // the same for urgent ones

	// guarded by link.mu
	pending map[uint64]*pending
	calls   int // of them, those that have one reply
	lastID  uint64
	asked   uint64 // link.heard when the last request was queued
	idle    int    // for how many beats nothing has been asked
	seenID  uint64 // lastID then
}

// pending is a request under way. It has either a callback or a channel with room for one answer.
type pending struct {
	receive func(reply []byte, err error)
	done    chan answer
	slots   chan struct{} // where it holds one
}

type answer struct {
	body []byte
	err  error
}

func (x *Exchange) openOutbound(p *peer, nc *transport.Conn) (*outbound, error) {
	o := &outbound{
		peer:    p,
		born:    time.Now(),
		slots:   make(chan struct{}, x.cfg.MaxInFlight),
		urgents: make(chan struct{}, maxUrgent),
		pending: make(map[uint64]*pending),
	}
	return o, o.link.open(x, nc, o)
}

// send queues a request, once there is room for it. After an error p is not known to the connection.
func (o *outbound) send(ctx context.Context, method wire.Method, payload []byte, p *pending) (id uint64, err error) {
	urgent := isUrgent(method)
	p.slots = o.slots
	if urgent {
		p.slots = o.urgents
	}
	select {
	case p.slots <- struct{}{}:
	default:
		if err := await(ctx, o, p.slots, nil); err != nil {
			return 0, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && !urgent {
		space := o.full()
		if space == nil {
			break
		}
		o.mu.Unlock()
		err := await(ctx, o, nil, space)
		o.mu.Lock()
		if err != nil {
			<-p.slots
			return 0, err
		}
	}
	if o.err != nil {
		return 0, o.err
	}
	o.lastID++
	o.pending[o.lastID] = p
	o.asked = o.heard.Load()
	if p.receive == nil {
		o.calls++
	}
	o.enqueue(message{kind: kindRequest, id: o.lastID, arg: uint64(method), body: payload}, urgent)
	return o.lastID, nil
}

// await waits for a slot or for space, whichever is not nil; the end of ctx or of the connection is an error.
func await(ctx context.Context, o *outbound, slot chan<- struct{}, space <-chan struct{}) error {
	select {
	case slot <- struct{}{}:
		return nil
	case <-space:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-o.ctx.Done():
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err != nil {
			return o.err
		}
		return ErrClosed // the Exchange has ended, and this connection is about to
	}
}

// abandon gives up a request and tells the peer. It reports whether that was in time: if not, the answer has been or
// is being delivered.
func (o *outbound) abandon(id uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.finish(id) == nil {
		return false
	}
	o.sendLocked(message{kind: kindCancel, id: id}, false)
	return true
}

// finish forgets a request and frees its slot; nil: there is none. o.mu is held.
func (o *outbound) finish(id uint64) *pending {
	p := o.pending[id]
	if p != nil {
		delete(o.pending, id)
		<-p.slots
		if p.receive == nil {
			o.calls--
		}
	}
	return p
}

// handle takes a reply. One that nobody waits for any more is ignored.
func (o *outbound) handle(m message) error {
	switch m.kind {
	case kindReply:
		o.mu.Lock()
		p := o.pending[m.id]
		if p != nil && p.receive == nil {
			o.finish(m.id)
		}
		o.mu.Unlock()
		switch {
		case p == nil:
		case p.receive == nil:
			p.done <- answer{err: &RemoteError{Text: "several replies to a request that has one"}}
		default:
			p.receive(bytes.Clone(m.body), nil)
		}
	case kindLast, kindEnd:
		if m.id == 0 {
			return errorOf(m.arg, m.body)
		}
		o.mu.Lock()
		p := o.finish(m.id)
		o.mu.Unlock()
		if p == nil {
			break
		}
		if m.kind == kindLast {
			p.last(bytes.Clone(m.body))
		} else {
			p.end(errorOf(m.arg, m.body))
		}
	default:
		return fmt.Errorf("%w: message of kind %d from the side that was dialled", errFrame, m.kind)
	}
	return nil
}

// last ends a request with a reply.
func (p *pending) last(body []byte) {
	if p.receive == nil {
		p.done <- answer{body: body}
		return
	}
	p.receive(body, nil)
	p.receive(nil, io.EOF)
}

// end ends a request without one; nil says that the peer meant to.
func (p *pending) end(err error) {
	switch {
	case p.receive == nil:
		p.done <- answer{err: err}
	case err == nil:
		p.receive(nil, io.EOF)
	default:
		p.receive(nil, err)
	}
}

// beat closes a connection that nobody needs. A server owes no answer to a client that has heard of it since it asked,
// unless it is a call that waits.
func (o *outbound) beat() (calm bool) {
	if o.idle++; len(o.pending) > 0 || o.lastID != o.seenID {
		o.idle, o.seenID = 0, o.lastID
	}
	if time.Duration(o.idle)*(o.x.cfg.Timeout/beats) >= o.x.cfg.IdleTimeout {
		o.closeLocked(errIdle)
	}
	return o.x.cfg.Client && o.calls == 0 && o.asked != o.heard.Load()
}

// lost fails what is under way, in the order in which it was asked. What a peer was asked that refused the connection
// has not been done.
func (o *outbound) lost(reason error) {
	o.mu.Lock()
	rest := o.pending
	o.pending = nil
	o.mu.Unlock()
	o.peer.dropped(o)
	err := reason
	if !errors.Is(reason, ErrBusy) {
		err = fmt.Errorf("%w: %w", ErrNoReply, reason)
	}
	for _, id := range slices.Sorted(maps.Keys(rest)) {
		rest[id].end(err)
	}
}
