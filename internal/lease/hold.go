package lease

import (
	"context"
	"sync/atomic"
	"time"
)

// Hold is one lock under a lease. It ends for good with End, with its own lease if it has one, and at the latest with
// the session's lease and then with that one's cause. Its methods may be called concurrently. A process may have a
// million: what few callers ask for, Done and Context, is made when asked for.
type Hold struct {
	lease      *Lease
	prev, next *Hold // the lease's list; under the lease's mu, like the fields below

	cause  atomic.Pointer[error] // nil while it lasts; written under mu
	ctx    context.Context       // whose values Context shows; Context itself once cancel is set
	cancel context.CancelCauseFunc
	apart  *apart // nil for most; set before the hold is handed out, and never after
}

// apart is what a hold has that can be suspended, or that has a lease of its own.
type apart struct {
	base context.Context // whose values each Context shows
	done chan struct{}   // nil until asked for; of one that can be suspended, whose Context may end earlier

	ttl      time.Duration // 0: no lease of its own
	deadline atomic.Int64  // of its own lease, on the lease clock; written under mu
	timer    *time.Timer
	after    func() // called when it has ended; under mu
}

func newLeasedHold(l *Lease, ctx context.Context, ttl, sent time.Duration) *Hold {
	h := &Hold{lease: l, ctx: ctx, apart: &apart{ttl: ttl}}
	h.apart.deadline.Store(int64(sent + ttl - Margin(ttl)))
	return h
}

// enter makes the hold one of its lease's. Under the lease's mu.
func (h *Hold) enter() {
	l := h.lease
	if l.grace > 0 && h.apart == nil {
		h.apart = &apart{}
	}
	if h.apart != nil {
		h.apart.base = h.ctx
	}
	if h.next = l.holds; h.next != nil {
		h.next.prev = h
	}
	l.holds = h
	if !h.leased() {
		return
	}
	if l.leased == nil {
		l.leased = make(map[*Hold]struct{})
	}
	l.leased[h] = struct{}{}
	h.apart.timer = time.AfterFunc(wait(h.left()), h.wake)
	h.settle()
}

// Check is nil if this process may act on the hold at this moment, by the lease clock; else why not: the cause of its
// end, or ErrSuspended. It makes no system call but the clock's, and allocates nothing.
func (h *Hold) Check() error {
	if h.cause.Load() == nil && (!h.leased() || h.left() > 0) && h.lease.Alive() {
		return nil
	}
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	switch state := h.settle(); {
	case h.cause.Load() != nil:
		return *h.cause.Load()
	case state == Suspended:
		return ErrSuspended
	}
	return nil
}

// Err is nil until the hold has ended, then why. A hold that is suspended has not ended.
func (h *Hold) Err() error {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.settle()
	if cause := h.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Remaining is how long this process may act on the hold unless its lease, or its own, is renewed; ≤ 0 if it may not.
func (h *Hold) Remaining() time.Duration {
	switch {
	case h.Check() != nil:
		return 0
	case h.leased():
		return min(h.left(), h.lease.Remaining())
	}
	return h.lease.Remaining()
}

// Refreshed says that a message sent at sent, as read from the lease clock BEFORE sending, which asked to renew the
// hold's own lease, was acknowledged. It reports whether the hold lasts. It never shortens.
func (h *Hold) Refreshed(sent time.Duration) bool {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.settle()
	if h.cause.Load() != nil {
		return false
	}
	if d := int64(sent + h.apart.ttl - Margin(h.apart.ttl)); d > h.apart.deadline.Load() {
		h.apart.deadline.Store(d)
	}
	return true
}

// TTL is the length of the hold's own lease; 0: it has none.
func (h *Hold) TTL() time.Duration {
	if h.apart == nil {
		return 0
	}
	return h.apart.ttl
}

// AfterEnd has f called once when the hold, which has a lease of its own, has ended; at once if it has. f must not block,
// and must not call the lease.
func (h *Hold) AfterEnd(f func()) {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	if h.settle(); h.cause.Load() != nil {
		f()
		return
	}
	h.apart.after = f
}

// End ends the hold at once, with a cause that is not nil. It reports whether this call ended it; either way Check
// fails and Done is closed when End returns.
func (h *Hold) End(cause error) bool {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.settle()
	if h.cause.Load() != nil {
		return false
	}
	h.end(cause)
	return true
}

// Done is closed when the hold has ended.
func (h *Hold) Done() <-chan struct{} {
	if h.lease.grace == 0 {
		return h.Context().Done()
	}
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.settle()
	if h.apart.done == nil {
		h.apart.done = make(chan struct{})
		if h.cause.Load() != nil {
			close(h.apart.done)
		}
	}
	return h.apart.done
}

// Context has the values of the context that the hold was made with, not its cancellation. It ends when this process may
// no longer act on the hold, with the hold's cause or ErrSuspended. When the lease lives again there is a new one.
func (h *Hold) Context() context.Context {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	state := h.settle()
	if h.cancel == nil {
		h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(h.ctx))
		if cause := h.cause.Load(); cause != nil {
			h.cancel(*cause)
		} else if state == Suspended {
			h.cancel(ErrSuspended)
		}
	}
	return h.ctx
}

func (h *Hold) leased() bool { return h.apart != nil && h.apart.ttl > 0 }

// left is the time to the deadline of the hold's own lease. The deadline is loaded before the clock is read, as in
// Lease.Alive.
func (h *Hold) left() time.Duration {
	d := h.apart.deadline.Load()
	return time.Duration(d) - h.lease.now()
}

// settle compares the clock with both deadlines, and returns the state of the session's lease. Under its mu.
func (h *Hold) settle() State {
	state := h.lease.settle()
	if h.cause.Load() == nil && h.leased() && h.left() <= 0 {
		h.end(ErrLockExpired)
	}
	return state
}

// wake is the timer's of the hold's own lease: renewals do not touch the timer.
func (h *Hold) wake() {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.settle()
	if h.cause.Load() == nil {
		h.apart.timer.Reset(wait(h.left()))
	}
}

// end takes the hold off its lease's list. Under the lease's mu, while the hold lasts.
func (h *Hold) end(cause error) {
	h.cause.Store(&cause)
	if h.cancel != nil {
		h.cancel(cause)
	}
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		h.lease.holds = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.prev, h.next = nil, nil
	if h.apart == nil {
		return
	}
	if h.apart.done != nil {
		close(h.apart.done)
	}
	if h.leased() {
		h.apart.timer.Stop()
		delete(h.lease.leased, h)
	}
	if h.apart.after != nil {
		h.apart.after()
	}
}
