package calls

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

var errReplaced = errors.New("the peer has opened another connection")

// inbound is a connection that a peer has dialled: requests come in on it, and replies leave.
type inbound struct {
	link

	// guarded by link.mu
	requests map[uint64]*Request // under way
	payload  int                 // bytes of their large payloads
}

// accepted serves a connection. Of too many of one peer the oldest is closed: the peer has given it up.
func (x *Exchange) accepted(nc *transport.Conn) {
	in := &inbound{requests: make(map[uint64]*Request)}
	id := nc.Peer().Node
	in.client = x.isClient(id)
	x.mu.Lock()
	if in.client && x.clients >= x.cfg.MaxClients {
		x.mu.Unlock()
		x.refuse(nc)
		return
	}
	x.inbound[id] = append(x.inbound[id], in)
	var oldest *inbound
	if len(x.inbound[id]) > x.cfg.MaxInbound {
		oldest = x.inbound[id][0]
		x.inbound[id] = x.inbound[id][1:]
	}
	x.mu.Unlock()
	if oldest != nil {
		oldest.close(errReplaced)
	}
	if err := in.open(x, nc, in); err != nil {
		in.lost(err)
	}
}

// handle takes a request or a cancellation.
func (in *inbound) handle(m message) error {
	switch m.kind {
	case kindRequest:
		return in.begin(m)
	case kindCancel:
		in.mu.Lock()
		defer in.mu.Unlock()
		if r := in.requests[m.id]; r != nil {
			in.finish(r)
		}
	default:
		return fmt.Errorf("%w: message of kind %d from the side that has dialled", errFrame, m.kind)
	}
	return nil
}

func (in *inbound) begin(m message) error {
	if m.arg > 1<<16-1 {
		return fmt.Errorf("%w: method %d", errFrame, m.arg)
	}
	r := &Request{Peer: in.node, Method: wire.Method(m.arg), Payload: bytes.Clone(m.body), in: in, id: m.id, size: len(m.body)}
	in.mu.Lock()
	if in.requests[m.id] != nil {
		in.mu.Unlock()
		return fmt.Errorf("%w: request %d twice", errFrame, m.id)
	}
	// An urgent request may have overtaken a few cancellations, which make up for it at once.
	if len(in.requests) >= in.x.cfg.MaxInFlight+2*maxUrgent {
		defer in.mu.Unlock()
		in.sendLocked(message{kind: kindEnd, id: m.id, arg: statusBusy}, false)
		return nil
	}
	large := r.largePayload()
	if large > 0 && in.payload+large > in.x.cfg.MaxPayload {
		defer in.mu.Unlock()
		in.sendLocked(message{kind: kindEnd, id: m.id, arg: statusBusy}, false)
		return nil
	}
	in.requests[m.id] = r
	in.payload += large
	in.holdLocked(r.cost())
	in.mu.Unlock()
	in.x.cfg.Handler(in.ctx, r)
	return nil
}

// finish ends a request. in.mu is held.
func (in *inbound) finish(r *Request) {
	delete(in.requests, r.id)
	in.payload -= r.largePayload()
	in.holdLocked(-r.cost())
	r.over = true
	if r.done != nil {
		close(r.done)
	}
}

func (in *inbound) beat() (calm bool) { return false }

func (in *inbound) lost(error) {
	in.mu.Lock()
	for _, r := range in.requests {
		in.finish(r)
	}
	in.mu.Unlock()
	x, id := in.x, in.node
	x.mu.Lock()
	defer x.mu.Unlock()
	x.inbound[id] = slices.DeleteFunc(x.inbound[id], func(other *inbound) bool { return other == in })
	if len(x.inbound[id]) == 0 {
		delete(x.inbound, id)
	}
}

// Request is what a peer asks. Its methods may be called from any goroutine, never wait, and do nothing once the
// request is over: after Reply, End or Fail, when the peer has given it up, and when its connection is gone. Payloads
// that they are given are not kept.
type Request struct {
	Peer    string // id of the node that asks
	Method  wire.Method
	Payload []byte // the handler may keep it

	in   *inbound
	id   uint64
	size int           // of the payload
	over bool          // guarded by in.mu
	done chan struct{} // guarded by in.mu; nil until somebody asks for it
}

// Send gives one of several replies. Only a request made by Stream may have them.
func (r *Request) Send(payload []byte) { r.respond(message{kind: kindReply, body: payload}) }

// Reply gives the one reply, or the last of several.
func (r *Request) Reply(payload []byte) { r.respond(message{kind: kindLast, body: payload}) }

// End says that there is no (further) reply. To a Call it is an empty reply.
func (r *Request) End() { r.respond(message{kind: kindEnd}) }

// Fail ends the request with an error. *NotLeaderError, ErrBusy, ErrUnknownMethod and ErrTooLarge arrive as they are,
// any other one as a *RemoteError with the first KiB of its text.
func (r *Request) Fail(err error) {
	s, text := statusOf(err)
	r.respond(message{kind: kindEnd, arg: s, body: []byte(text)})
}

// Done is closed when the request is over.
func (r *Request) Done() <-chan struct{} {
	r.in.mu.Lock()
	defer r.in.mu.Unlock()
	if r.done == nil {
		r.done = make(chan struct{})
		if r.over {
			close(r.done)
		}
	}
	return r.done
}

func (r *Request) respond(m message) {
	in := r.in
	if len(m.body) > in.x.maxMessage() {
		m = message{kind: kindEnd, arg: statusTooLarge}
	}
	m.id = r.id
	in.mu.Lock()
	defer in.mu.Unlock()
	if r.over || in.err != nil {
		return
	}
	if m.kind != kindReply {
		in.finish(r)
	}
	in.sendLocked(m, isUrgent(r.Method))
}

// largePayload is how many bytes of MaxPayload the request takes.
func (r *Request) largePayload() int {
	if r.size <= smallPayload {
		return 0
	}
	return r.size
}

// cost is how many bytes of MaxHeld it takes.
func (r *Request) cost() int { return requestCost + r.size }
