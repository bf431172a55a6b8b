package lease

import (
	"context"
	"sync/atomic"
	"time"
)

// Hold is one lock under a lease. It ends for good with End, at the latest with its lease and then with the lease's
// cause. Its methods may be called concurrently. A process may have a million: what few callers ask for, Done and
// Context, is made when asked for.
type Hold struct {
	lease      *Lease
	prev, next *Hold // the lease's list; under the lease's mu, like the fields below

	cause  atomic.Pointer[error] // nil while it lasts; written under mu
	ctx    context.Context       // whose values Context shows; Context itself once cancel is set
	cancel context.CancelCauseFunc
}

// Check is nil if this process may act on the hold at this moment, by the lease clock; else why not. It makes no system
// call but the clock's, and allocates nothing.
func (h *Hold) Check() error {
	if h.cause.Load() == nil && h.lease.Alive() {
		return nil
	}
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	if cause := h.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Err is nil while the hold lasts, then why it ended.
func (h *Hold) Err() error { return h.Check() }

// Remaining is how long the hold will last unless its lease is renewed; ≤ 0 once it has ended.
func (h *Hold) Remaining() time.Duration {
	if h.Check() != nil {
		return 0
	}
	return h.lease.Remaining()
}

// End ends the hold at once, with a cause that is not nil. It reports whether this call ended it; either way Check
// fails and Done is closed when End returns.
func (h *Hold) End(cause error) bool {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	if !h.lease.lasts() || h.cause.Load() != nil {
		return false
	}
	h.end(cause)
	return true
}

// Done is closed when the hold has ended.
func (h *Hold) Done() <-chan struct{} { return h.Context().Done() }

// Context has the values of the context that the hold was made with, not its cancellation. It ends when the hold ends,
// with the hold's cause.
func (h *Hold) Context() context.Context {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.lease.lasts()
	if h.cancel == nil {
		h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(h.ctx))
		if cause := h.cause.Load(); cause != nil {
			h.cancel(*cause)
		}
	}
	return h.ctx
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
}
