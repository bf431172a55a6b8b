package coord

import (
	"context"

	"github.com/coordcell/coord/fsm"
)

// RevokeOption is an option of Revoke and ExpireSession.
type RevokeOption interface{ revokeOption(*revokeOptions) }

type revokeOptions struct{ force bool }

type revokeOptionFunc func(*revokeOptions)

func (f revokeOptionFunc) revokeOption(o *revokeOptions) { f(o) }

// Force hands on at once what is revoked, without waiting until its holder has stopped. The holder may go on acting until
// it hears of it, up to one TTL: then only tokens protect the resource (package fence). Without a resource that checks
// them, two act at the same time.
func Force() RevokeOption {
	return revokeOptionFunc(func(o *revokeOptions) { o.force = true })
}

// Revoke takes the grant (name, t) from its holder, whoever that is. It returns once the mark is in the log; the holder's
// process is told and stops (ErrRevoked), and only then the name is handed on, or when one TTL of the holder's session has
// passed, whichever is first. With Force it is handed on at once.
//
// Errors: ErrNotHeld (t is not, or no longer, the token of a grant of name), ErrInvalid, ErrTooLarge, ErrNoLeader or
// ErrOutcomeUnknown (ctx ended), ErrClosed.
func (n *Node) Revoke(ctx context.Context, name string, t Token, opts ...RevokeOption) error {
	if err := n.limits.CheckName("lock name", name); err != nil {
		return wrap(err, "revoke %q", name)
	}
	err := n.stepIn(ctx, opts, func(c fsm.Change, force bool) fsm.Command {
		return fsm.Revoke{Change: c, Name: name, Token: fsm.Revision(t), Force: force}
	})
	return wrap(err, "revoke %q, token %v", name, t)
}

// ExpireSession ends a session, whoever's it is, as if it had not been renewed. It returns once the mark is in the log: from
// then on the session is granted nothing more. Its process is told and stops, and only then what it held is handed on, or
// when one TTL has passed, whichever is first. With Force it ends at once.
//
// Errors: ErrSessionExpired (there is no such session, or no longer), ErrNoLeader or ErrOutcomeUnknown (ctx ended),
// ErrClosed.
func (n *Node) ExpireSession(ctx context.Context, id SessionID, opts ...RevokeOption) error {
	err := n.stepIn(ctx, opts, func(c fsm.Change, force bool) fsm.Command {
		return fsm.RevokeSession{Change: c, Target: id, Force: force}
	})
	return wrap(err, "expire session %d", id)
}

func (n *Node) stepIn(ctx context.Context, opts []RevokeOption, build func(c fsm.Change, force bool) fsm.Command) error {
	var o revokeOptions
	for _, opt := range opts {
		opt.revokeOption(&o)
	}
	res, err := n.calls.Change(ctx, func(c fsm.Change) fsm.Command { return build(c, o.force) })
	if err != nil {
		return err
	}
	return n.outcome(res)
}
