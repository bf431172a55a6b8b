package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	token   fsm.Revision
	hold    *lease.Hold

	once     sync.Once
	released chan struct{} // closed when the release has been answered, or cannot be any more
	result   error
}

// LockOption is an option of Lock, TryLock, Do and Campaign.
type LockOption interface{ lockOption(*lockOptions) }

type lockOptions struct {
	maxWait time.Duration
	data    []byte
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

// Lock waits until the session holds name, behind everybody who asked before. Each call is one acquisition of its own:
// two calls exclude each other also on the same session. ctx bounds the wait, not the Lock; when it ends, what the call
// may have left in the queue is withdrawn in the background. The place in the queue outlives changes of the cell's
// leader.
//
// Errors: ErrInvalid, ErrTooLarge (name, data), ErrLocked (WithMaxWait), ErrLimit (locks or waiters), ctx's error,
// ErrNoLeader (with ctx's), ErrSessionExpired, ErrSessionClosed, ErrClosed.
func (s *Session) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	l, err := s.lock(ctx, name, false, opts)
	return l, wrap(err, "lock %q", name)
}

// TryLock is Lock without waiting: it returns ErrLocked if somebody holds name or waits for it. WithMaxWait is
// ErrInvalid.
func (s *Session) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	l, err := s.lock(ctx, name, true, opts)
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
	inner, end := context.WithCancelCause(ctx)
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

func (s *Session) lock(ctx context.Context, name string, try bool, opts []LockOption) (*Lock, error) {
	var o lockOptions
	for _, opt := range opts {
		opt.lockOption(&o)
	}
	if err := s.node.limits.CheckName("lock name", name); err != nil {
		return nil, err
	}
	if err := s.node.limits.CheckValue("data", o.data); err != nil {
		return nil, err
	}
	if o.maxWait < 0 || o.maxWait > 0 && try {
		return nil, fmt.Errorf("%w: WithMaxWait(%v): must not be negative, and TryLock never waits", ErrInvalid, o.maxWait)
	}
	req := caller.LockRequest{Name: name, Data: bytes.Clone(o.data), Try: try, MaxWait: o.maxWait}
	res, err := s.s.Lock(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := s.node.outcome(res); err != nil {
		return nil, err
	}
	hold, err := s.s.Hold(ctx)
	if err != nil {
		if s.Err() == nil { // ctx has ended
			s.s.Release(name, res.Revision, func(fsm.Result, error) {})
		}
		return nil, err
	}
	return &Lock{session: s, name: name, token: res.Revision, hold: hold, released: make(chan struct{})}, nil
}

// Name is what was locked.
func (l *Lock) Name() string { return l.name }

// Names is everything that was locked with this grant.
func (l *Lock) Names() []string { return []string{l.name} }

// Token is the fencing token of this grant, above that of every earlier grant of the name.
func (l *Lock) Token() Token { return Token(l.token) }

// Session is the session that holds it.
func (l *Lock) Session() *Session { return l.session }

// Lost is closed when this process must stop acting: it was unlocked, or the session has ended. A process that was
// frozen sees it on waking.
func (l *Lock) Lost() <-chan struct{} { return l.hold.Done() }

// Err says why it is held no longer: ErrUnlocked, ErrSessionExpired, ErrSessionClosed or ErrClosed. It is nil while it
// is held.
func (l *Lock) Err() error { return l.hold.Err() }

// Check is nil if this process may act right now, by the lease clock; ErrSuspended in the grace period of its session; else
// what Err says. It does no I/O.
func (l *Lock) Check() error { return l.hold.Check() }

// Remaining is how long this process may act on the last renewal. At 0 or below it no longer may.
func (l *Lock) Remaining() time.Duration { return l.hold.Remaining() }

// Context has the values of the ctx given to Lock, but not its cancellation. It ends when this process may no longer act,
// with Err's error as its cause, or ErrSuspended; when the session lives again, there is a new one.
func (l *Lock) Context() context.Context { return l.hold.Context() }

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

func (l *Lock) release(ctx context.Context) error {
	l.once.Do(func() {
		l.hold.End(ErrUnlocked)
		l.session.s.Release(l.name, l.token, func(res fsm.Result, err error) {
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
