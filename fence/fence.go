package fence

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// Token is a fencing token. Tokens of one lock name are ordered: a later grant has a greater one. 0 is no token.
//
// Its text form is decimal. JSON shows it as a string, so that no reader rounds it to a float.
type Token uint64

func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// MarshalText returns the decimal form. It never fails.
func (t Token) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(t), 10), nil }

// UnmarshalText reads the decimal form: digits only, at most 2^64 - 1. On an error t keeps its value.
func (t *Token) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("fence: token: %w", err)
	}
	*t = Token(n)
	return nil
}

var (
	// ErrStale says that the resource has accepted a greater token: whoever sent this one is a former holder.
	ErrStale = errors.New("fence: stale token")
	// ErrNoToken says that the token was 0.
	ErrNoToken = errors.New("fence: no token")
)

// StaleError is the error of a write that was refused. errors.Is(err, ErrStale) finds it; errors.As fills a *StaleError
// and a StaleError alike.
type StaleError struct {
	Resource string
	Got      Token // what the write carried
	Highest  Token // what the resource had accepted by then; 0 if the guard could not tell
}

func (e StaleError) Error() string {
	return fmt.Sprintf("fence: resource %q: stale token %d: %d was accepted before", e.Resource, e.Got, e.Highest)
}

func (e StaleError) Is(target error) bool { return target == ErrStale }

func (e StaleError) As(target any) bool {
	switch target := target.(type) {
	case *StaleError:
		*target = e
	case **StaleError:
		*target = &e
	default:
		return false
	}
	return true
}

// Guard stands before a resource, or before many that are told apart by name, and lets no former holder through.
type Guard interface {
	// Do runs write only if t is not below the highest token that resource has accepted; an equal one is fine, so that a
	// holder writes as often as it likes. The check, the memory of t and write are one atomic step with respect to every
	// other Do on the resource, and survive a crash together where the resource does.
	//
	// A Do that returns without having run write has changed nothing. What write failed at may have taken effect in part,
	// so a guard that cannot undo it keeps t as accepted; one that can, may undo both. write must not call Do on the
	// same resource.
	//
	// Tokens of one resource must be of one lock name, and of an exclusive lock: holders that share a name have
	// different tokens and would shut each other out.
	//
	// Errors: ErrNoToken if t is 0; ErrStale (a StaleError) if it is too low; ctx's error if ctx ended while waiting for
	// another write; write's own error; and what the resource itself fails with. A panic of write is passed on, and the
	// resource stays usable.
	Do(ctx context.Context, resource string, t Token, write func(ctx context.Context) error) error
}
