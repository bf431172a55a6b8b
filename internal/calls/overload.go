package calls

import (
	"errors"

	"github.com/coordcell/coord/transport"
)

const (
	// requestCost is what a request under way takes beside its payload, in bytes and roughly.
	requestCost = 256
	// smallPayload is the size up to which only the number of requests under way counts.
	smallPayload = 1 << 10
	// maxRefusals is how many connections may wait at a time until their clients have read why they are refused.
	maxRefusals = 64
)

var errGreedy = errors.New("the client asks for more than this node can hold")

// hold notes that the peer makes this node hold so many more bytes.
func (l *link) hold(change int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holdLocked(change)
}

func (l *link) holdLocked(change int) {
	if !l.client || l.err != nil {
		return
	}
	l.held += change
	if held := l.x.held.Add(int64(change)); change > 0 && held > int64(l.x.cfg.MaxHeld) {
		select {
		case l.x.crowded <- struct{}{}:
		default:
		}
	}
}

// shed closes connections of clients until they hold no more than they may, all together: each time the one that holds
// the most.
func (x *Exchange) shed() {
	for x.held.Load() > int64(x.cfg.MaxHeld) {
		var greediest *link
		most := 0
		for _, l := range x.all() {
			l.mu.Lock()
			held := l.held
			if !l.client || l.err != nil {
				held = 0
			}
			l.mu.Unlock()
			if held > most {
				greediest, most = l, held
			}
		}
		if greediest == nil {
			return
		}
		greediest.close(errGreedy)
	}
}

// refused is a connection of a client for which there is no room. It lives for a moment, so that the client gets to read
// why: closing a connection with unread bytes would throw the answer away too.
type refused struct {
	link
	beats int
}

// refuse turns a client away. Of too many at a time it only closes the connection.
func (x *Exchange) refuse(nc *transport.Conn) {
	x.cfg.Logger.Warn("calls: connection refused", "peer", nc.Peer().Node, "error", ErrBusy)
	x.mu.Lock()
	full := x.refusals == maxRefusals
	if !full {
		x.refusals++
	}
	x.mu.Unlock()
	if full {
		nc.Close()
		return
	}
	r := new(refused)
	if err := r.open(x, nc, r); err != nil {
		r.lost(err)
		return
	}
	r.send(message{kind: kindEnd, arg: statusBusy}, true)
}

// handle ignores what the client asks.
func (r *refused) handle(message) error { return nil }

func (r *refused) beat() (calm bool) {
	if r.beats++; r.beats > 1 {
		r.closeLocked(ErrBusy)
	}
	return true
}

func (r *refused) lost(error) {
	r.x.mu.Lock()
	defer r.x.mu.Unlock()
	r.x.refusals--
}
