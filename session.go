package coord

import (
	"context"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/lease"
)

// SessionID names a session. No two sessions of a cell ever have the same.
type SessionID = fsm.SessionID

// Revision counts the changes of the cell's state: every change raises it.
type Revision = fsm.Revision

// DefaultTTL is the TTL of a session that asks for none, where Limits and ElectionTimeout allow it: else the nearest that
// they do.
const DefaultTTL = caller.DefaultTTL

// SessionState says whether a session may act. Its String is "live", "suspended" or "ended".
type SessionState = lease.State

const (
	// SessionLive: what it holds is its own.
	SessionLive = lease.Live
	// SessionSuspended: it was not renewed in time, and is in its grace period (WithGrace). This process must not act on
	// what it holds; the session may live again, or end.
	SessionSuspended = lease.Suspended
	// SessionEnded: it is over for good; a session that has ended never comes back.
	SessionEnded = lease.Ended
)

// Session is this process's claim to be alive: everything it locks and every ephemeral key it writes is the session's,
// and goes when the session ends. The node renews it in the background, three times per TTL, for as long as it can
// reach the cell.
//
// # The lease
//
// A renewal that was sent at time s and acknowledged lets this process act until s + TTL − margin by a clock that never
// stands still, not even while the machine sleeps. The cell hands on what the session held no earlier than TTL after it
// has seen that renewal, which is later. So at every moment at which this process believes that it holds something,
// nobody else can have been given it, as long as the two clocks tick at nearly the same rate (0.1 %); they need not
// agree on the time of day. This is the lease of Gray and Cheriton (SOSP 1989, section 2), measured from the send as in
// section 3.1, with the cell's side decided in its replicated log.
//
// # Grace
//
//	live ──► suspended ──► ended        without WithGrace: live ──► ended
//	  ▲          │
//	  └──────────┘  an acknowledgement came after all
//
// A session with a grace period that is not renewed in time is suspended: Check fails with ErrSuspended and contexts end,
// as they must, but Lost and Done stay open. If the cell, which may only have been without a leader, acknowledges a renewal
// before the grace period is over, the session lives on with the same locks under the same tokens. Without, or after it,
// it has ended. The cell knows nothing of grace periods: it hands on what a session held one TTL after the last renewal
// that it saw, and acknowledges none of a session whose end it has decided. (Chubby has such a period: Burrows, OSDI
// 2006, section 2.8.)
//
// All methods may be called concurrently.
type Session struct {
	node *Node
	s    *caller.Session
}

// SessionOption is an option of Node.NewSession.
type SessionOption interface{ sessionOption(*caller.SessionOptions) }

type sessionOptionFunc func(*caller.SessionOptions)

func (f sessionOptionFunc) sessionOption(o *caller.SessionOptions) { f(o) }

// WithTTL sets how long the session outlives its last renewal: at least 1s and 4 × Config.ElectionTimeout, so that hardly
// a failover ends a session (10 × is safe); at most Limits.MaxTTL. Default (0): DefaultTTL. A short TTL hands on sooner what a dead process held,
// and ends sooner what a live one cannot renew.
func WithTTL(d time.Duration) SessionOption {
	return sessionOptionFunc(func(o *caller.SessionOptions) { o.TTL = d })
}

// WithGrace has the session suspended for up to d instead of ended when it is not renewed in time: see Session. It is
// for programs that would rather wait for a cell that has lost its majority for a while than begin anew. Default 0, at
// most Limits.MaxTTL.
func WithGrace(d time.Duration) SessionOption {
	return sessionOptionFunc(func(o *caller.SessionOptions) { o.Grace = d })
}

// WithLabel names the session wherever holders are listed, for people. It is bounded as a name is.
func WithLabel(s string) SessionOption {
	return sessionOptionFunc(func(o *caller.SessionOptions) { o.Label = s })
}

// NewSession opens a session. While nobody leads the cell it waits, with jitter, until ctx ends; ctx bounds this call
// only, not the session.
//
// Errors: ErrInvalid (TTL, grace or label out of bounds), ErrTooLarge (label), ErrLimit (the cell has as many sessions as it
// allows), ErrNoLeader or ErrOutcomeUnknown (ctx ended), ErrClosed.
func (n *Node) NewSession(ctx context.Context, opts ...SessionOption) (*Session, error) {
	var o caller.SessionOptions
	for _, opt := range opts {
		opt.sessionOption(&o)
	}
	if err := n.limits.CheckPrefix("label", o.Label); err != nil {
		return nil, wrap(err, "new session")
	}
	s, err := n.calls.OpenSession(ctx, o)
	if err != nil {
		return nil, wrap(err, "new session")
	}
	return &Session{node: n, s: s}, nil
}

// ID is the session's id in the cell.
func (s *Session) ID() SessionID { return s.s.ID() }

// TTL is how long the session outlives its last renewal.
func (s *Session) TTL() time.Duration { return s.s.TTL() }

// State says whether the session may act, right now.
func (s *Session) State() SessionState {
	return s.s.Lease().State()
}

// Changes yields the state of the session after each change: one channel for one reader. A state that was not read before
// the next is left out. It is closed when the session has ended.
func (s *Session) Changes() <-chan SessionState { return s.s.Lease().Changes() }

// Remaining is how long this process may act on the last renewal, by the lease clock. At 0 or below it no longer may.
func (s *Session) Remaining() time.Duration { return s.s.Lease().Remaining() }

// Context ends when the session may no longer act, with Err's error as its cause, or ErrSuspended. A session that lives
// again has a new one.
func (s *Session) Context() context.Context { return s.s.Lease().Context() }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.s.Lease().Done() }

// Err says why the session has ended: ErrSessionExpired, ErrSessionClosed, or ErrClosed (the node was). It is nil while
// it has not.
func (s *Session) Err() error {
	return s.s.Lease().Err()
}

// Close ends the session and frees everything it holds. From the call on nothing that it holds may act, whatever Close
// returns; the cell is told until it knows, also after ctx has ended, or until the TTL is over and it ends the session by
// itself. Closing a session that has ended returns nil.
//
// Errors: ctx's, if it ended before the cell had answered.
func (s *Session) Close(ctx context.Context) error {
	return wrap(s.s.Close(ctx), "close session %d", s.ID())
}

// Put writes an ephemeral key: it belongs to this session and goes when the session ends. Whoever owned it before, does
// not any more. See Node.Put for options and errors; besides, ErrSessionExpired and ErrSessionClosed.
func (s *Session) Put(ctx context.Context, key string, value []byte, opts ...WriteOption) (Revision, error) {
	return s.node.put(ctx, s.s, true, key, value, opts)
}

// Txn is Node.Txn, but what it puts belongs to this session. Errors: as Node.Txn, ErrSessionExpired, ErrSessionClosed.
func (s *Session) Txn(ctx context.Context, t Txn) (TxnResult, error) {
	return s.node.txn(ctx, s.s, true, t)
}
