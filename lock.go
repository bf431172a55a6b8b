package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/cancel"
	"github.com/coordcell/coord/internal/lease"
)

// Lock is one grant: from the moment at which the cell gave a name to a session until it is unlocked or lost. It is not
// reusable; locking the name again gives another Lock with a higher Token.
//
// # Who may act
//
//	Lock ──► held ──────────────► Unlock          Check: ErrUnlocked, from the call on
//	          │
//	          ├── the session ends ─► lost        Check: ErrSessionExpired, ErrSessionClosed, ErrClosed
//	          ├── its own lease ends ─► lost      Check: ErrLockExpired (WithLockTTL)
//	          ├── it is revoked ─► lost           Check: ErrRevoked (Node.Revoke)
//	          └── is suspended                    Check: ErrSuspended, until the session lives again or ends (WithGrace)
//
// Check answers by the lease clock, on the spot and without I/O: when it returns nil, this process may act, and nobody
// else may until the lease has run out. Lost is closed when it may no longer; but a process that was frozen sees that
// only on waking, perhaps in the middle of a write. So: Check before each act, and send Token with each write to a
// resource that refuses stale ones (package fence).
//
// All methods may be called concurrently.
type Lock struct {
	session *Session
	name    string
	more    []string // the other names of a LockAll
	token   fsm.Revision
	slot    int
	hold    *lease.Hold
	forget  func() // it is not to be told of marks any more

	once     sync.Once
	released chan struct{} // closed when the release has been answered, or cannot be any more
	result   error
}

// Lock waits until the session holds name, behind everybody who asked before. Each call is one acquisition of its own:
// two calls exclude each other also on the same session. ctx bounds the wait, not the Lock; when it ends, what the call
// may have left in the queue is withdrawn in the background. The place in the queue outlives changes of the cell's
// leader.
//
// Errors: ErrInvalid, ErrTooLarge (name, data), ErrLocked (WithMaxWait), ErrLimit (locks or waiters), ctx's error,
// ErrNoLeader (with ctx's), ErrSlotsMismatch, ErrDeadlock, ErrSessionExpired, ErrSessionClosed, ErrClosed.
func (s *Session) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	l, err := s.lock(ctx, []string{name}, false, opts)
	return l, wrap(err, "lock %q", name)
}

// LockAll is Lock for several names, at most 64, all distinct: it is granted all of them in one step of the log, as one
// grant with one Token, or waits holding none of them. It waits in the queue of each of its names, and is granted when it
// is the first in all: a name that is free meanwhile is kept for it, so that it does not starve. Two LockAll cannot wait
// for each other, in whatever order they name the same names.
//
// Errors: as Lock.
func (s *Session) LockAll(ctx context.Context, names []string, opts ...LockOption) (*Lock, error) {
	if len(names) == 0 {
		return nil, wrap(fmt.Errorf("%w: no names", ErrInvalid), "lock all")
	}
	l, err := s.lock(ctx, names, false, opts)
	return l, wrap(err, "lock all %q", names)
}

// TryLock is Lock without waiting: it returns ErrLocked where Lock would have waited, or been refused with ErrDeadlock.
// WithMaxWait is ErrInvalid.
func (s *Session) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	l, err := s.lock(ctx, []string{name}, true, opts)
	return l, wrap(err, "try lock %q", name)
}

// Do runs fn while it holds name. The context that fn gets has the values of ctx; it ends, with the cause, when fn may
// no longer act, and when ctx ends. Whatever fn does, the lock is released only after it has returned, also when it
// panics.
//
// Do returns fn's error. If fn returned nil but the lock was lost meanwhile, it returns why; if it was held to the end,
// whatever the release came to. Errors of the acquisition are those of Lock.
func (s *Session) Do(ctx context.Context, name string, fn func(ctx context.Context, l *Lock) error, opts ...LockOption) (err error) {
	l, err := s.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	inner, end := context.WithCancelCause(holding(ctx, l))
	stop := context.AfterFunc(l.Context(), func() { end(context.Cause(l.Context())) })
	defer func() {
		stop()
		lost := l.Check()
		released := l.Unlock(ctx)
		end(ErrUnlocked)
		switch {
		case err != nil:
		case errors.Is(lost, ErrUnlocked): // by fn
			err = released
		case lost != nil:
			err = wrap(lost, "do %q", name)
		default:
			err = released
		}
	}()
	return fn(inner, l)
}

func (s *Session) lock(ctx context.Context, names []string, try bool, opts []LockOption) (*Lock, error) {
	o := lockOptionsOf(opts)
	request := fsm.Lock{Name: names[0], Data: o.data, Try: try, Terms: o.terms(names, s.holdings(ctx))}
	if err := s.checkLock(request, o); err != nil {
		return nil, err
	}
	request.Data = bytes.Clone(o.data)
	res, sent, err := s.s.Lock(ctx, request, o.maxWait)
	if err == nil {
		err = s.node.outcome(res)
	}
	if errors.Is(err, ErrSlotsMismatch) {
		err = fmt.Errorf("%w: asked for %d, it has %d", err, o.slots, res.Slots)
	}
	if err != nil {
		return nil, err
	}
	l := &Lock{session: s, name: names[0], token: res.Revision, slot: int(res.Slot), released: make(chan struct{})}
	if len(names) > 1 {
		l.more = slices.Clone(names[1:])
	}
	return s.handOut(ctx, l, o.ttl, sent)
}

// handOut begins to hold a grant. It gives it back if this process may not act on it any more: then it may already be
// somebody else's, or is about to be.
func (s *Session) handOut(ctx context.Context, l *Lock, ttl, sent time.Duration) (_ *Lock, err error) {
	grant := fsm.GrantID{Name: l.name, Token: l.token}
	if ttl > 0 {
		l.hold, err = s.s.HoldFor(ctx, grant, ttl, sent)
	} else {
		l.hold, err = s.s.Hold(ctx)
	}
	if err == nil {
		l.forget = s.s.OnMark(grant, func() { l.hold.End(ErrRevoked) })
		if err = l.Err(); err == nil {
			if ttl > 0 { // it may end by itself, and nobody unlock it
				l.hold.AfterEnd(l.forget)
			}
			return l, nil
		}
		l.forget()
	}
	if s.Err() == nil {
		s.s.Release(l.name, l.token, func(fsm.Result, error) {})
	}
	return nil, err
}

// Name is what was locked; of a LockAll the first name.
func (l *Lock) Name() string { return l.name }

// Names is everything that was locked with this grant, in the order asked for.
func (l *Lock) Names() []string { return append([]string{l.name}, l.more...) }

// Slot is which of the Slots of the lock this grant is in: 0 … n-1; 0 without Slots.
func (l *Lock) Slot() int { return l.slot }

// Token is the fencing token of this grant, above that of every earlier grant of each of its names.
func (l *Lock) Token() Token { return Token(l.token) }

// Session is the session that holds it.
func (l *Lock) Session() *Session { return l.session }

// Lost is closed when this process must stop acting: it was unlocked, or the session has ended. A process that was
// frozen sees it on waking.
func (l *Lock) Lost() <-chan struct{} { return l.hold.Done() }

// Err says why it is held no longer: ErrUnlocked, ErrSessionExpired, ErrLockExpired, ErrRevoked, ErrSessionClosed or
// ErrClosed. It is nil while it is held.
func (l *Lock) Err() error { return l.hold.Err() }

// Check is nil if this process may act right now, by the lease clock; ErrSuspended in the grace period of its session; else
// what Err says. It does no I/O.
func (l *Lock) Check() error { return l.hold.Check() }

// Remaining is how long this process may act on the last renewal. At 0 or below it no longer may.
func (l *Lock) Remaining() time.Duration { return l.hold.Remaining() }

// Context has the values of the ctx given to Lock, but not its cancellation. It ends when this process may no longer act,
// with Err's error as its cause, or ErrSuspended; when the session lives again, there is a new one.
//
// It also says what the caller holds. A Lock, LockAll, Campaign or Do that is given it, or a context made of it, is
// refused with ErrDeadlock where it would wait for this grant through others: see DeadlockError.
func (l *Lock) Context() context.Context { return holding(l.hold.Context(), l) }

// Held is a condition for a Txn: that this very grant is held.
func (l *Lock) Held() Condition { return HeldBy(l.name, l.Token()) }

// Unlock frees this grant, and no other: a retry that arrives late frees nothing of a later holder. From the call on
// Check fails with ErrUnlocked and Lost is closed, whatever Unlock returns: the holder stops first. Then the release
// leaves, and is repeated until the cell has answered, also after ctx has ended. A second Unlock waits for the first
// and returns its result.
//
// Errors: ErrNotHeld (it was lost before), ctx's error (the release goes on in the background), ErrClosed (the node was
// closed before the cell had answered; then the session's end frees it).
func (l *Lock) Unlock(ctx context.Context) error {
	return wrap(l.release(ctx), "unlock %q", l.name)
}

// Refresh renews the lease of the lock's own (WithLockTTL) for its full length, counted from this call. It never shortens
// it. It is repeated until the cell has answered, at most as long as ctx.
//
// Errors: ErrInvalid (it has no lease of its own), what Err says if the lock has ended, ErrLockExpired, ctx's error with
// ErrNoLeader.
func (l *Lock) Refresh(ctx context.Context) error {
	return wrap(l.refresh(ctx), "refresh %q", l.name)
}

func (l *Lock) refresh(ctx context.Context) error {
	if l.hold.TTL() == 0 {
		return fmt.Errorf("%w: it was locked without WithLockTTL", ErrInvalid)
	}
	if err := l.Err(); err != nil {
		return err
	}
	sent, err := l.session.s.Refresh(ctx, fsm.GrantID{Name: l.name, Token: l.token})
	switch {
	case errors.Is(err, caller.ErrGrantGone):
		l.hold.End(ErrLockExpired)
		return l.Err()
	case err != nil:
		return err
	case !l.hold.Refreshed(sent):
		return l.Err()
	}
	return nil
}

func (l *Lock) release(ctx context.Context) error {
	return l.letGo(ctx, l.session.s.Release)
}

// letGo stops the holder and then has the grant freed, once.
func (l *Lock) letGo(ctx context.Context, free func(name string, token fsm.Revision, done func(fsm.Result, error))) error {
	l.once.Do(func() {
		l.hold.End(ErrUnlocked)
		l.forget()
		free(l.name, l.token, func(res fsm.Result, err error) {
			l.result = releaseError(res, err)
			close(l.released)
		})
	})
	select {
	case <-l.released:
		return l.result
	default:
	}
	select {
	case <-l.released:
		return l.result
	case <-ctx.Done():
		return cancel.Reason(ctx)
	}
}

// releaseError says what became of a release. A session that has ended has freed everything.
func releaseError(res fsm.Result, err error) error {
	switch {
	case errors.Is(err, ErrSessionExpired), errors.Is(err, ErrSessionClosed):
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	case err != nil:
		return err
	case res.Code == fsm.UnknownSession:
		return fmt.Errorf("%w: %w", ErrNotHeld, ErrSessionExpired)
	default:
		return codeError(res)
	}
}

// outcome turns the outcome of a change into an error.
func (n *Node) outcome(res fsm.Result) error {
	if res.Code == fsm.LimitReached {
		return n.srv.LimitError(res.Limit)
	}
	return codeError(res)
}

// codeError is outcome for changes that no limit of the cell's stops.
func codeError(res fsm.Result) error {
	switch res.Code {
	case fsm.OK:
		return nil
	case fsm.Locked, fsm.Withdrawn:
		return ErrLocked
	case fsm.NotHeld:
		return ErrNotHeld
	case fsm.Conflict:
		return ErrConflict
	case fsm.KeyNotFound:
		return ErrKeyNotFound
	case fsm.SlotsMismatch:
		return ErrSlotsMismatch
	case fsm.Upgrade:
		return fmt.Errorf("%w: the caller holds it in another way: a grant cannot be turned into another, unlock it first", ErrInvalid)
	case fsm.Deadlock:
		return deadlockOf(res.Cycle)
	case fsm.Revoked:
		return ErrRevoked
	case fsm.NotQueued:
		return fmt.Errorf("%w: the session does not wait for it", ErrInvalid)
	case fsm.NoSuchSession:
		return ErrSessionExpired
	case fsm.TooLarge:
		return fmt.Errorf("%w: what the operations return: at most %d bytes", ErrTooLarge, fsm.MaxTxnResult)
	case fsm.UnknownSession:
		return ErrSessionExpired
	case fsm.LimitReached:
		return fmt.Errorf("%w: %d unanswered changes of one session", ErrLimit, fsm.MaxOutstanding)
	default:
		return fmt.Errorf("%w: the cell refused it (%d)", ErrInvalid, res.Code)
	}
}
