package coord

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/server"
)

// Errors of nodes and of calls in general. They come wrapped with what was asked; test them with errors.Is.
var (
	// ErrInvalid: malformed or contradictory. The message names the argument, its value and what is allowed.
	ErrInvalid = caller.ErrInvalid
	// ErrClosed: the node has been shut down or closed.
	ErrClosed = caller.ErrClosed
	// ErrNoLeader wraps ctx's error: until then nobody led the cell, and nothing was changed.
	ErrNoLeader = caller.ErrNoLeader
	// ErrOutcomeUnknown: ctx or the session ended before the node learned whether the change was made. It wraps their
	// error as well. The change may still be made for a short while.
	ErrOutcomeUnknown = caller.ErrOutcomeUnknown
	// ErrTooLarge: one thing over its size. The message names it, its size and the limit.
	ErrTooLarge = caller.ErrTooLarge
	// ErrLimit: too many of a thing. The message names the limit.
	ErrLimit = caller.ErrLimit
	// ErrWrongCell: another cell lives at the other end, or in the data directory.
	ErrWrongCell = caller.ErrWrongCell
	// ErrDirInUse: another process, or another node of this one, has the data directory open.
	ErrDirInUse = server.ErrDirInUse
)

// Errors of sessions and locks.
var (
	// ErrSessionExpired: the session was not renewed in time. All it held is lost.
	ErrSessionExpired = caller.ErrSessionExpired
	// ErrSessionClosed: the session was closed by this process.
	ErrSessionClosed = caller.ErrSessionClosed
	// ErrSuspended: the session was not renewed in time and is in its grace period (WithGrace): this process must not act
	// on what it holds, until the session lives again.
	ErrSuspended = caller.ErrSuspended
	// ErrLocked: somebody else holds the lock, or is ahead in its queue.
	ErrLocked = errors.New("coord: locked")
	// ErrNotHeld: the grant is held no longer.
	ErrNotHeld = errors.New("coord: not held")
	// ErrLockExpired: the lock's own lease (WithLockTTL) was not refreshed in time. The session lives.
	ErrLockExpired = caller.ErrLockExpired
	// ErrRevoked: somebody has taken it from its holder (Node.Revoke, Node.ExpireSession).
	ErrRevoked = errors.New("coord: revoked")
	// ErrSlotsMismatch: the lock has another number of slots. The message names both.
	ErrSlotsMismatch = errors.New("coord: another number of slots")
	// ErrDeadlock: the call would have waited for what its own caller holds. The error is a *DeadlockError.
	ErrDeadlock = errors.New("coord: deadlock")
	// ErrUnlocked: this process has unlocked it.
	ErrUnlocked = errors.New("coord: unlocked")
)

// Errors of keys and watches.
var (
	// ErrKeyNotFound: there is no such key.
	ErrKeyNotFound = errors.New("coord: key not found")
	// ErrConflict: the key is not as the write demands.
	ErrConflict = errors.New("coord: conflict")
	// ErrCompacted: the history no longer reaches back that far. Read the present state and watch from there, or use
	// WithSnapshot, which does that.
	ErrCompacted = errors.New("coord: history compacted")
)

// opError says what was asked when err happened.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string {
	return "coord: " + e.op + ": " + strings.ReplaceAll(e.err.Error(), "coord: ", "")
}
func (e *opError) Unwrap() error { return e.err }

// wrap adds what was asked. It is called once for an error, where it leaves the package.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &opError{op: fmt.Sprintf(format, args...), err: err}
}
