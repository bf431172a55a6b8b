package lease

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Causes. Programs see them as they are.
var (
	ErrExpired     = errors.New("coord: session expired")   // of a lease that was not renewed in time
	ErrSuspended   = errors.New("coord: session suspended") // of a lease that was not renewed in time and may yet live again
	ErrLockExpired = errors.New("coord: lock expired")      // of a hold whose own lease was not renewed in time
)

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

// Lease is the life of a session as its own process sees it. At its deadline its holder stops. Without a grace period it
// is then over for good, and nothing revives it; with one see grace.go. Its methods may be called concurrently.
//
// It runs no goroutine. One timer wakes it near its deadline and is stopped when it ends.
type Lease struct {
	ttl, grace time.Duration
	now        func() time.Duration

	deadline atomic.Int64 // on the lease clock; over once the lease has ended. Written under mu

	mu        sync.Mutex // also guards the state of every Hold of this lease
	cause     error      // nil until it ends
	life      context.Context
	endLife   context.CancelCauseFunc
	timer     *time.Timer
	holds     *Hold              // the first of a doubly linked list
	leased    map[*Hold]struct{} // those with a lease of their own
	suspended *suspension        // nil: it may act, or has ended
	acting    *acting            // nil without a grace period
	changes   chan State         // nil until asked for; with room for the latest
}

// New returns the lease of a session. now is the lease clock. sent is what it said before the FIRST attempt to create
// the session was sent, whichever attempt was answered. If the answer came too late the lease has already ended,
// whatever the grace period: a session that never lived has nothing to come back to.
func New(ttl, grace time.Duration, now func() time.Duration, sent time.Duration) *Lease {
	l := &Lease{ttl: ttl, grace: grace, now: now}
	l.life, l.endLife = context.WithCancelCause(context.Background())
	if grace > 0 {
		l.acting = newActing(l.life)
	}
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
// whether the lease lasts: an acknowledgement that arrives at or after the deadline of a lease without grace changes
// nothing.
func (l *Lease) Renewed(sent time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settle() == Ended {
		return false
	}
	if d := int64(l.until(sent)); d > l.deadline.Load() {
		l.deadline.Store(d)
		if l.suspended != nil && l.left() > 0 {
			l.revive()
		}
	}
	return l.suspended == nil
}

// Alive reports whether its holder may act at this moment by the lease clock. Once it has said no, Context has ended.
func (l *Lease) Alive() bool {
	// The deadline is loaded before the clock is read: the other way round a pause between the two could let an
	// answer through that was true before the pause.
	d := l.deadline.Load()
	if int64(l.now()) < d {
		return true
	}
	return l.State() == Live
}

// Err is nil until the lease has ended, then why.
func (l *Lease) Err() error {
	if l.Alive() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// Remaining is how long its holder may act unless it is renewed; ≤ 0 if it may not.
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

// Tick ends or suspends what has come to its time. Its owner calls it every 100 ms, because timers stand still while the
// machine sleeps and the lease clock does not. It reports whether the lease has not ended.
func (l *Lease) Tick() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settle() == Ended {
		return false
	}
	for h := range l.leased {
		h.settle()
	}
	return true
}

// End ends the lease at once, with a cause that is not nil. It reports whether this call ended it; either way
// everything that hangs on the lease has been told when End returns.
func (l *Lease) End(cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settle() != Ended && l.end(cause)
}

// Done is closed when the lease has ended: by its timer, a Tick, or any call that finds its time up.
func (l *Lease) Done() <-chan struct{} { return l.life.Done() }

// Life is a context that ends at the same moment as Done, with the lease's cause.
func (l *Lease) Life() context.Context { return l.life }

// Context ends when its holder may no longer act: with the lease, and with ErrSuspended when it is suspended. Once it
// lives again there is a new one.
func (l *Lease) Context() context.Context {
	if l.acting == nil {
		return l.life
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	return l.acting.ctx
}

// Hold returns a new hold under this lease, whose Context has the values of ctx. If the lease has ended the grant came
// too late and must not be handed out: the error is the lease's cause. ErrSuspended: not now; see Resumed.
func (l *Lease) Hold(ctx context.Context) (*Hold, error) {
	return l.hold(&Hold{lease: l, ctx: ctx})
}

// HoldFor is Hold for a grant that the cell takes back after a lease of its own, which its holder must renew: ttl, from
// the moment at which a message left that asked for it. sent is what the lease clock said before the FIRST attempt to
// ask for the lock was sent. Once that lease is over the hold has ended with ErrLockExpired, which is
// HoldFor's error as well if that is so already.
func (l *Lease) HoldFor(ctx context.Context, ttl, sent time.Duration) (*Hold, error) {
	return l.hold(newLeasedHold(l, ctx, ttl, sent))
}

func (l *Lease) hold(h *Hold) (*Hold, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.settle() {
	case Ended:
		return nil, l.cause
	case Suspended:
		return nil, ErrSuspended
	}
	h.enter()
	if cause := h.cause.Load(); cause != nil {
		return nil, *cause // its own lease is over already
	}
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

// settle compares the clock with the deadline, and suspends or ends the lease if its time is up. Under mu.
func (l *Lease) settle() State {
	switch left := l.left(); {
	case l.cause != nil:
		return Ended
	case left > 0:
		return Live
	case left+l.grace <= 0:
		l.end(ErrExpired)
		return Ended
	}
	if l.suspended == nil {
		l.suspend()
	}
	return Suspended
}

// end is the one place where a lease ends. It keeps mu until everybody has been told, so that no call reports the end
// before Done is closed. Under mu, while the lease has not ended.
func (l *Lease) end(cause error) bool {
	l.cause = cause
	l.deadline.Store(over)
	if l.timer != nil {
		l.timer.Stop()
	}
	for l.holds != nil {
		l.holds.end(cause)
	}
	l.ended()
	l.endLife(cause)
	return true
}

// wake is the timer's: renewals do not touch the timer, so it usually finds that the deadline has moved on.
func (l *Lease) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.settle() {
	case Live:
		l.timer.Reset(wait(l.left()))
	case Suspended:
		l.timer.Reset(wait(l.left() + l.grace))
	}
}

// wait is what to set a timer to: where the lease clock ticks slower than the timer's, a timer set again and again to
// the exact remainder would fire without end.
func wait(left time.Duration) time.Duration { return max(left, time.Millisecond) }
