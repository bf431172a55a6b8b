package lease

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// ErrExpired is the cause of a lease that ended because it was not renewed in time. Programs see it as it is.
var ErrExpired = errors.New("coord: session expired")

// Margin is how much earlier than one TTL after the send of a renewal its holder stops.
//
// Let ρ bound the error in the rate of either clock. The leader waits TTL on its own clock, in truth at least
// TTL/(1+ρ). The holder acts for TTL − margin on its own, in truth at most (TTL − margin)/(1−ρ). The second must not
// exceed the first: margin ≥ TTL·(1 − (1−ρ)/(1+ρ)) = 2ρ·TTL/(1+ρ). With ρ = 0.1 % (ten times what crystals err, twice
// what NTP slews) that is 0.2 % of the TTL; 5 ms more pay for the granularity of clocks. One hundredth of the TTL, where
// that is more, costs nothing and tolerates worse clocks.
func Margin(ttl time.Duration) time.Duration {
	return max(ttl/100, 2*ttl/1000+5*time.Millisecond)
}

// over is the deadline of a lease that has ended.
const over = math.MinInt64

// Lease is the life of a session as its own process sees it. At its deadline, or when it is ended from outside, it is
// over for good: nothing revives it. Its methods may be called concurrently.
//
// It runs no goroutine. One timer wakes it near its deadline and is stopped when it ends.
type Lease struct {
	ttl time.Duration
	now func() time.Duration

	deadline atomic.Int64 // on the lease clock; over once the lease has ended. Written under mu

	mu     sync.Mutex // also guards the state of every Hold of this lease
	cause  error      // nil while it lasts
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	holds  *Hold // the first of a doubly linked list
}

// New returns the lease of a session. now is the lease clock. sent is what it said before the FIRST attempt to create
// the session was sent, whichever attempt was answered. If the answer came too late the lease has already ended.
func New(ttl time.Duration, now func() time.Duration, sent time.Duration) *Lease {
	l := &Lease{ttl: ttl, now: now}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.deadline.Store(int64(l.until(sent)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := l.left(); left > 0 {
		l.timer = time.AfterFunc(wait(left), l.wake)
	} else {
		l.end(ErrExpired)
	}
	return l
}

// Renewed says that a renewal sent at sent, as read from the lease clock BEFORE sending, was acknowledged. It reports
// whether the lease lasts: an acknowledgement that arrives at or after the deadline changes nothing.
func (l *Lease) Renewed(sent time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lasts() {
		return false
	}
	if d := int64(l.until(sent)); d > l.deadline.Load() {
		l.deadline.Store(d)
	}
	return true
}

// Alive reports whether the lease lasts at this moment by the lease clock. Once it has said no, Done is closed.
func (l *Lease) Alive() bool {
	// The deadline is loaded before the clock is read: the other way round a pause between the two could let an
	// answer through that was true before the pause.
	d := l.deadline.Load()
	if int64(l.now()) < d {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lasts()
}

// Err is nil while the lease lasts, then why it ended.
func (l *Lease) Err() error {
	if l.Alive() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// Remaining is how long the lease will last unless it is renewed; ≤ 0 once it has ended.
func (l *Lease) Remaining() time.Duration {
	if !l.Alive() {
		return 0
	}
	d := l.deadline.Load()
	if d == over {
		return 0
	}
	return time.Duration(d) - l.now()
}

// TTL is the lease's full length as the cell counts it.
func (l *Lease) TTL() time.Duration { return l.ttl }

// Tick ends the lease if its time is up. Its owner calls it every 100 ms, because timers stand still while the machine
// sleeps and the lease clock does not.
func (l *Lease) Tick() { l.Alive() }

// End ends the lease at once, with a cause that is not nil. It reports whether this call ended it; either way
// everything that hangs on the lease has been told when End returns.
func (l *Lease) End(cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lasts() && l.end(cause)
}

// Done is closed when the lease has ended: by its timer, a Tick, or any call that finds its time up.
func (l *Lease) Done() <-chan struct{} { return l.ctx.Done() }

// Context ends at the same moment as Done, with the lease's cause.
func (l *Lease) Context() context.Context { return l.ctx }

// Hold returns a new hold under this lease, whose Context has the values of ctx. If the lease has ended the grant came
// too late and must not be handed out: the error is the lease's cause.
func (l *Lease) Hold(ctx context.Context) (*Hold, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lasts() {
		return nil, l.cause
	}
	h := &Hold{lease: l, ctx: ctx, next: l.holds}
	if h.next != nil {
		h.next.prev = h
	}
	l.holds = h
	return h, nil
}

// until is the deadline that a message sent at sent gives when it is acknowledged.
func (l *Lease) until(sent time.Duration) time.Duration { return sent + l.ttl - Margin(l.ttl) }

// renewed is when the newest acknowledged message was sent; false once the lease has ended.
func (l *Lease) renewed() (time.Duration, bool) {
	d := l.deadline.Load()
	return time.Duration(d) - l.ttl + Margin(l.ttl), d != over
}

// left is the time to the deadline.
func (l *Lease) left() time.Duration { return time.Duration(l.deadline.Load()) - l.now() }

// lasts compares the clock with the deadline, and ends the lease if its time is up. Under mu.
func (l *Lease) lasts() bool {
	if l.cause != nil {
		return false
	}
	if l.left() > 0 {
		return true
	}
	l.end(ErrExpired)
	return false
}

// end is the one place where a lease ends. It keeps mu until everybody has been told, so that no call reports the end
// before Done is closed. Under mu, while the lease lasts.
func (l *Lease) end(cause error) bool {
	l.cause = cause
	l.deadline.Store(over)
	if l.timer != nil {
		l.timer.Stop()
	}
	l.cancel(cause)
	for l.holds != nil {
		l.holds.end(cause)
	}
	return true
}

// wake is the timer's: renewals do not touch the timer, so it usually finds that the deadline has moved on.
func (l *Lease) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lasts() {
		l.timer.Reset(wait(l.left()))
	}
}

// wait is what to set a timer to: where the lease clock ticks slower than the timer's, a timer set again and again to
// the exact remainder would fire without end.
func wait(left time.Duration) time.Duration { return max(left, time.Millisecond) }
