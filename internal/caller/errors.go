package caller

import (
	"errors"
	"fmt"

	"github.com/coordcell/coord/internal/lease"
)

// What can go wrong, as the public package hands it on.
var (
	ErrInvalid        = errors.New("coord: invalid")
	ErrClosed         = errors.New("coord: node closed")
	ErrNoLeader       = errors.New("coord: no leader")
	ErrOutcomeUnknown = errors.New("coord: outcome unknown")
	ErrTooLarge       = errors.New("coord: too large")
	ErrLimit          = errors.New("coord: limit reached")
	ErrWrongCell      = errors.New("coord: wrong cell")

	ErrSessionExpired = lease.ErrExpired
	ErrSessionClosed  = errors.New("coord: session closed")
	ErrSuspended      = lease.ErrSuspended
	ErrLockExpired    = lease.ErrLockExpired
)

// What an attempt may come to, beside an answer. Anything else leaves open whether the change was made.
var (
	// ErrNotSent says of an attempt that it certainly changed nothing, and may be made again.
	ErrNotSent = errors.New("not sent")
	// ErrNotLeader says that whoever was asked does not lead.
	ErrNotLeader = errors.New("not the leader")
)

var (
	errMaxWait = errors.New("waited as long as WithMaxWait allows")
	errTooLate = errors.New("the answer would come too late")
)

// RefusedError is the refusal of a change, for good: it was not and will not be made.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// unknownError is ErrOutcomeUnknown together with what ended the waiting.
type unknownError struct{ cause error }

func (e *unknownError) Error() string   { return fmt.Sprintf("%v: %v", ErrOutcomeUnknown, e.cause) }
func (e *unknownError) Unwrap() []error { return []error{ErrOutcomeUnknown, e.cause} }
