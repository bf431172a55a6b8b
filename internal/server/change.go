package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/cancel"
	"github.com/coordcell/coord/internal/replica"
)

const (
	leastBackoff = 5 * time.Millisecond
	mostBackoff  = 250 * time.Millisecond
)

var (
	errMaxWait = errors.New("waited as long as WithMaxWait allows")
	errTooLate = errors.New("the answer would come too late")
	// errNotSent says of an attempt that it certainly changed nothing.
	errNotSent = errors.New("not sent")
)

// request is one change on its way to the leader, wherever that is, until it has been answered.
type request struct {
	key replica.Key
	cmd fsm.Command

	over     <-chan struct{} // closed when nobody wants the answer any more; nil: never
	cause    func() error    // why over was closed
	leaving  func()          // called before the first attempt leaves; may be nil
	attempts int             // that left
}

// unknownError is ErrOutcomeUnknown together with what ended the waiting.
type unknownError struct{ cause error }

func (e *unknownError) Error() string   { return fmt.Sprintf("%v: %v", ErrOutcomeUnknown, e.cause) }
func (e *unknownError) Unwrap() []error { return []error{ErrOutcomeUnknown, e.cause} }

// route is where changes go for now.
type route struct {
	leader  string // "" nobody known
	local   bool   // this server is the leader, and serves
	changed <-chan struct{}
}

func (s *Server) route() route {
	changed := s.raft.LeaderChanged() // before the rest is read: nothing is missed
	if s.raft.ActiveTerm() != 0 {
		return route{leader: s.id, local: true, changed: changed}
	}
	leader, _ := s.raft.Leader()
	if leader == s.id {
		leader = "" // elected, and not serving yet
	}
	return route{leader: leader, changed: changed}
}

// submit sends a request to whoever leads, again and again, until the cell has answered it. Repeating it is safe: the
// state machine knows it by its key. It gives up when ctx ends, when nobody wants the answer, and when the node stops.
func (s *Server) submit(ctx context.Context, r *request) (fsm.Result, error) {
	maybe, led := false, false
	for try := 0; ; try++ {
		rt := s.route()
		led = led || rt.leader != ""
		if rt.leader != "" && ctx.Err() == nil {
			if r.attempts == 0 && r.leaving != nil {
				r.leaving()
			}
			r.attempts++
			res, err := s.attempt(ctx, rt, r)
			var refused *refusedError
			switch {
			case err == nil:
				return res, nil
			case errors.As(err, &refused) && maybe:
				return fsm.Result{}, &unknownError{refused.err}
			case errors.As(err, &refused):
				return fsm.Result{}, refused.err
			case !errors.Is(err, errNotSent):
				maybe = true
			}
		}
		if err := s.pause(ctx, r, rt, try); err != nil {
			return fsm.Result{}, s.gaveUp(err, maybe, led)
		}
	}
}

// pause waits before the next attempt: for news of a leader where none is known, else with full jitter. It returns why
// there is to be none.
func (s *Server) pause(ctx context.Context, r *request, rt route, try int) error {
	backoff := time.NewTimer(jitter(try))
	defer backoff.Stop()
	var news <-chan struct{}
	if rt.leader == "" {
		news = rt.changed
	}
	select {
	case <-news:
	case <-backoff.C:
	case <-ctx.Done():
	case <-r.over:
	case <-s.stop.Done():
	}
	return s.ended(ctx, r)
}

// ended says why no further attempt is to be made; nil: it is.
func (s *Server) ended(ctx context.Context, r *request) error {
	select {
	case <-s.stop.Done():
		return s.Stopped()
	default:
	}
	select {
	case <-r.over:
		return r.cause()
	default:
	}
	if ctx.Err() != nil {
		return cancel.Reason(ctx)
	}
	return nil
}

// gaveUp is the error of a request that was given up because of cause.
func (s *Server) gaveUp(cause error, maybe, led bool) error {
	switch {
	case maybe:
		return &unknownError{cause}
	case led, errors.Is(cause, ErrClosed), errors.Is(cause, ErrSessionExpired), errors.Is(cause, ErrSessionClosed):
		return cause
	default:
		return fmt.Errorf("%w: %w", ErrNoLeader, cause)
	}
}

// attempt sends a request once, and waits for its answer for as long as the leader stays the same.
func (s *Server) attempt(ctx context.Context, rt route, r *request) (fsm.Result, error) {
	// Room for the answer and for a failure: whoever sends one never waits, and the second finds nobody.
	answers := make(chan answer, 2)
	var forget func()
	if rt.local {
		forget = s.proposeHere(r.key, r.cmd, answers)
	} else {
		forget = s.proposeThere(ctx, rt.leader, r.key, r.cmd, answers)
	}
	defer forget()
	select {
	case a := <-answers:
		return a.res, a.err
	case <-rt.changed:
		return fsm.Result{}, errNotLeader
	case <-ctx.Done():
		return fsm.Result{}, cancel.Reason(ctx)
	case <-r.over:
		return fsm.Result{}, r.cause()
	case <-s.stop.Done():
		return fsm.Result{}, ErrClosed
	}
}

// answer is how an attempt ended.
type answer struct {
	res fsm.Result
	err error
}

// proposeHere hands a command to this server's own packer.
func (s *Server) proposeHere(key replica.Key, cmd fsm.Command, answers chan<- answer) (forget func()) {
	forget = s.replica.Await(key, func(res fsm.Result) { answers <- answer{res: res} })
	err := s.packer.submit(proposal{cmd: cmd, failed: func(err error) { answers <- answer{err: err} }})
	if err != nil {
		forget()
		answers <- answer{err: fmt.Errorf("%w: %w", errNotSent, err)}
	}
	return forget
}

// jitter is a random time up to a bound that doubles with each try.
func jitter(try int) time.Duration {
	most := min(leastBackoff<<min(try, 16), mostBackoff)
	return rand.N(most) + time.Millisecond
}
