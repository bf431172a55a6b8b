package lease

import "context"

// State is what the holder of a lease may do.
type State int

// States of a lease.
const (
	Live      State = iota // it may act
	Suspended              // it must not act, and may live again
	Ended                  // for good
)

// acting is what a lease with a grace period has beside its life.
type acting struct {
	ctx     context.Context // ends when it is suspended or ends
	stop    context.CancelCauseFunc
	changes chan State // with room for the latest
}

func newActing(life context.Context) *acting {
	a := &acting{changes: make(chan State, 1)}
	a.ctx, a.stop = context.WithCancelCause(life)
	return a
}

// tell replaces what the reader of changes has not taken yet. Under the lease's mu: nobody else sends.
func (a *acting) tell(s State) {
	select {
	case <-a.changes:
	default:
	}
	a.changes <- s
}

// suspension is one time of being suspended.
type suspension struct {
	over chan struct{} // closed when it lives again or has ended
}

// State is what the holder may do at this moment.
func (l *Lease) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settle()
}

// Changes yields the state after each change; one that was not taken before the next is left out. It is for one reader,
// and closed when the lease has ended. Of a lease without a grace period it is nil: there is but its end, and Done.
func (l *Lease) Changes() <-chan State {
	if l.acting == nil {
		return nil
	}
	return l.acting.changes
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
	l.acting.tell(Suspended)
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
	l.acting.tell(Live)
}

// ended tells those who follow the states. Under mu, from end.
func (l *Lease) ended() {
	if l.suspended != nil {
		close(l.suspended.over)
		l.suspended = nil
	}
	if l.acting != nil {
		l.acting.stop(l.cause)
		l.acting.tell(Ended)
		close(l.acting.changes)
	}
}
