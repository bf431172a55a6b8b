package coord

import (
	"errors"
	"fmt"
	"time"

	"github.com/coordcell/coord/fsm"
)

// LockOption is an option of Lock, TryLock, LockAll, Do and Campaign.
type LockOption interface{ lockOption(*lockOptions) }

type lockOptions struct {
	maxWait   time.Duration
	data      []byte
	shared    bool
	slots     int
	slotsSaid bool
	ttl       time.Duration
	ttlSaid   bool
	delay     time.Duration
}

type lockOptionFunc func(*lockOptions)

func (f lockOptionFunc) lockOption(o *lockOptions) { f(o) }

// WithMaxWait gives up with ErrLocked when the lock has not been granted after d: the cell has answered that others are
// ahead. If nobody leads the cell then, it is ErrNoLeader. 0, the default, waits as long as ctx.
func WithMaxWait(d time.Duration) LockOption {
	return lockOptionFunc(func(o *lockOptions) { o.maxWait = d })
}

// WithData attaches bytes to the grant, for those who look (Node.Lookup). They are bounded as a value is.
func WithData(b []byte) LockOption {
	return lockOptionFunc(func(o *lockOptions) { o.data = b })
}

// Shared asks to be one of many readers: they hold the name beside each other, and nobody beside a writer, who asks
// without. The queue is the same for all, first come first served: readers that stand next to each other are granted
// together, and none passes a writer that waits. A reader cannot become a writer, or the other way round, without
// unlocking first: two readers that wait to write would wait for each other.
//
// A resource that checks tokens (package fence) refuses a reader's late write, but readers among each other have different
// tokens: guard only what is written under exclusive grants.
func Shared() LockOption {
	return lockOptionFunc(func(o *lockOptions) { o.shared = true })
}

// Slots makes the lock a semaphore: up to n sessions hold it at a time, 1 … 65,536, each in a slot of its own
// (Lock.Slot). All who use the name must agree on n: while anybody holds or waits, another number is ErrSlotsMismatch.
// Tokens rise from grant to grant of the name, and so of each slot: guard one resource a slot.
func Slots(n int) LockOption {
	return lockOptionFunc(func(o *lockOptions) { o.slots, o.slotsSaid = n, true })
}

// WithLockTTL gives the grant a lease of its own, 1s … the session's TTL, that the holder renews by calling Lock.Refresh:
// nobody does that in the background. A holder that hangs loses the lock then, though its process renews the session. When
// the lease is over Check fails with ErrLockExpired and Lost is closed, before the cell gives the name to the next.
func WithLockTTL(d time.Duration) LockOption {
	return lockOptionFunc(func(o *lockOptions) { o.ttl, o.ttlSaid = d, true })
}

// WithLockDelay keeps the name from everybody, its former holder included, for d after this grant was lost: because its
// session expired, its own lease did, or it was revoked; not after Unlock or Session.Close. It is for resources that cannot
// check tokens: what the former holder had sent has time to arrive (Burrows, OSDI 2006, section 2.4). It is timed by the
// cell's leader, and begun anew by the next one. At most Limits.MaxTTL.
func WithLockDelay(d time.Duration) LockOption {
	return lockOptionFunc(func(o *lockOptions) { o.delay = d })
}

func lockOptionsOf(opts []LockOption) (o lockOptions) {
	for _, opt := range opts {
		opt.lockOption(&o)
	}
	return o
}

// checkLock names everything that is wrong with a request at once: what the cell would refuse, and what only this process
// can tell.
func (s *Session) checkLock(request fsm.Lock, o lockOptions) error {
	errs := []error{s.node.limits.CheckLock(request)}
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if o.maxWait < 0 || o.maxWait > 0 && request.Try {
		bad("WithMaxWait(%v): must not be negative, and TryLock never waits", o.maxWait)
	}
	if o.slotsSaid && o.slots == 0 {
		bad("Slots(0): must be 1 … %d", fsm.MaxSlots)
	}
	if o.ttlSaid && (o.ttl == 0 || o.ttl > s.TTL()) {
		bad("WithLockTTL(%v): must be 1s … the session's TTL, %v", o.ttl, s.TTL())
	}
	return errors.Join(errs...)
}

// terms are what the options ask for beyond one name for itself alone; nil: nothing.
func (o lockOptions) terms(names []string, holding []fsm.GrantID) *fsm.Terms {
	if len(names) == 1 && !o.shared && o.slots == 0 && o.ttl == 0 && o.delay == 0 && len(holding) == 0 {
		return nil
	}
	return &fsm.Terms{More: names[1:], Shared: o.shared, Slots: o.slots, TTL: int64(o.ttl), Delay: int64(o.delay), Holding: holding}
}
