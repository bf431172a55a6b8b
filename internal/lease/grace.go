package lease

import (
	"context"
	"fmt"
)

// State is what the holder of a lease may do.
type State uint8

// States of a lease.
const (
	Live      State = iota + 1 // it may act
	Suspended                  // it must not act, and may live again
	Ended                      // for good
)

func (s State) String() string {
	switch s {
	case Live:
		return "live"
	case Suspended:
		return "suspended"
	case Ended:
		return "ended"
	default:
		return fmt.Sprintf("SessionState(%d)", uint8(s))
	}
}

// acting is the context of a lease with a grace period: it ends when the lease is suspended or ends.
type acting struct {
	ctx  context.Context
	stop context.CancelCauseFunc
}

func newActing(life context.Context) *acting {
	a := &acting{}
	a.ctx, a.stop = context.WithCancelCause(life)
	return a
}

// suspension is one time of being suspended.
type suspension struct {
	over chan struct{} // closed when it lives again or has ended
}

// State is what the holder may do at this moment. Live is of no use but to show: see Hold.Check.
func (l *Lease) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settle()
}

// Changes yields the state after each change; one that was not taken before the next is left out. It begins with the
// present state unless that is Live. It is one channel for one reader, and closed when the lease has ended.
func (l *Lease) Changes() <-chan State {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.settle()
	if l.changes == nil {
		l.changes = make(chan State, 1)
		if state != Live {
			l.tell(state)
		}
	}
	return l.changes
}

// tell replaces what the reader of changes has not taken yet. Under mu: nobody else sends.
func (l *Lease) tell(s State) {
	if l.changes == nil {
		return
	}
	select {
	case <-l.changes:
	default:
	}
	l.changes <- s
	if s == Ended {
		close(l.changes)
	}
}

// Resumed is closed when the lease is not suspended: it lives, or has ended.
func (l *Lease) Resumed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settle() == Suspended {
		return l.suspended.over
	}
	open := make(chan struct{})
	close(open)
	return open
}

// suspend stops the holder, who may come back. Under mu.
func (l *Lease) suspend() {
	l.suspended = &suspension{over: make(chan struct{})}
	l.acting.stop(ErrSuspended)
	for h := l.holds; h != nil; h = h.next {
		if h.cancel != nil {
			h.cancel(ErrSuspended)
		}
	}
	l.tell(Suspended)
}

// revive lets the holder act again. The contexts that have ended stay so: there are new ones. Under mu, while suspended.
func (l *Lease) revive() {
	close(l.suspended.over)
	l.suspended = nil
	l.acting.ctx, l.acting.stop = context.WithCancelCause(l.life)
	for h := l.holds; h != nil; h = h.next {
		if h.cancel != nil {
			h.ctx, h.cancel = h.apart.base, nil
		}
	}
	l.timer.Reset(wait(l.left())) // it was set to the end of the grace period
	l.tell(Live)
}

// ended tells those who follow the states. Under mu, from end.
func (l *Lease) ended() {
	if l.suspended != nil {
		close(l.suspended.over)
		l.suspended = nil
	}
	if l.acting != nil {
		l.acting.stop(l.cause)
	}
	l.tell(Ended)
}
