package caller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/wire"
)

// Why a leader refuses a change that it may take a moment later.
var (
	ErrBusy    = errors.New("too many changes wait to be written")
	ErrClosing = errors.New("the node is closing")
)

// PollWait is how long a server keeps a client's Poll that finds nothing. It is the longest silence of a client's watch:
// longer than that of a watch on a server, for each answer costs a message each way, and there are many who watch.
func PollWait(election time.Duration) time.Duration { return min(4*election, 5*time.Second) }

// Send makes one attempt at a change at another node, in the way of Cell.Propose. Its answer may come at once or hours
// later. method is MethodPropose at the leader itself, MethodRelay at any other server.
func Send(ctx context.Context, x *calls.Exchange, peer string, method wire.Method, cmd fsm.Command, answers chan<- Answer) (forget func()) {
	payload, err := wire.Propose{Commands: []fsm.Command{cmd}}.Append(nil)
	if err != nil {
		answers <- Answer{Err: &RefusedError{err}}
		return func() {}
	}
	answered := false // touched by the connection's reader only
	give := func(a Answer) {
		if !answered {
			answered = true
			answers <- a
		}
	}
	cancel, err := x.Stream(ctx, peer, method, payload, func(reply []byte, err error) {
		if err != nil {
			give(Answer{Err: Unsent(err)})
			return
		}
		m, err := wire.DecodeProposeReply(reply)
		switch {
		case err != nil:
			give(Answer{Err: err})
		case len(m.Replies) > 0:
			give(Answer{Result: m.Replies[0].Result})
		case len(m.Refused) > 0:
			give(Answer{Err: refusal(m.Refused[0].Reason)})
		}
	})
	if errors.Is(err, calls.ErrTooLarge) {
		err = &RefusedError{fmt.Errorf("%w: %w", ErrTooLarge, err)}
	}
	if err != nil {
		answers <- Answer{Err: Unsent(err)}
		return func() {}
	}
	return cancel
}

// Unsent marks the errors of a call that has certainly done nothing. One whose answer was too large has done something.
func Unsent(err error) error {
	var notLeader *calls.NotLeaderError
	switch {
	case errors.Is(err, calls.ErrNotSent), errors.Is(err, calls.ErrBusy), errors.Is(err, calls.ErrUnknownMethod), errors.As(err, &notLeader):
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	default:
		return err
	}
}

// refusal is the error of a change that the leader has refused for the reason given.
func refusal(reason string) error {
	if reason == ErrBusy.Error() || reason == ErrClosing.Error() {
		return fmt.Errorf("%w: %s", ErrNotSent, reason)
	}
	return &RefusedError{fmt.Errorf("%w: the leader refused it: %s", ErrInvalid, reason)}
}
