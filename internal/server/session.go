package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/cancel"
	"github.com/coordcell/coord/internal/lease"
	"github.com/coordcell/coord/internal/replica"
)

// DefaultTTL is a session's TTL where nothing is asked and the bounds allow it.
const DefaultTTL = 10 * time.Second

// SessionOptions say what session to open.
type SessionOptions struct {
	TTL   time.Duration // 0: the default
	Label string
}

// Session is a session of this process.
type Session struct {
	srv    *Server
	id     fsm.SessionID
	ttl    time.Duration
	lease  *lease.Lease
	author author

	closing sync.Once
	closed  chan struct{} // the cell knows, or has ended the session by itself by now
}

// OpenSession opens a session for the program.
func (s *Server) OpenSession(ctx context.Context, o SessionOptions) (*Session, error) {
	if o.TTL == 0 {
		o.TTL = s.defaultTTL()
	}
	if o.TTL < s.leastTTL() || o.TTL > s.cfg.Limits.MaxTTL {
		return nil, fmt.Errorf("%w: TTL %v: must be %v (1s, or 4 × ElectionTimeout) … Limits.MaxTTL, %v",
			ErrInvalid, o.TTL, s.leastTTL(), s.cfg.Limits.MaxTTL)
	}
	if err := s.cfg.Limits.CheckPrefix("label", o.Label); err != nil {
		return nil, err
	}
	return s.openSession(ctx, o, false)
}

func (s *Server) defaultTTL() time.Duration {
	return min(max(DefaultTTL, s.leastTTL()), s.cfg.Limits.MaxTTL)
}

// openSession opens a session. Its lease counts from the first attempt that left, whichever was answered: the leader
// may have begun to count then. An answer that comes after that lease has run out is worth nothing; the session it
// made ends by itself, and another one is asked for.
func (s *Server) openSession(ctx context.Context, o SessionOptions, internal bool) (*Session, error) {
	for {
		cmd := fsm.OpenSession{TTL: int64(o.TTL), Label: o.Label, Node: s.id, Internal: internal}
		if _, err := rand.Read(cmd.Nonce[:]); err != nil {
			return nil, err
		}
		var sent time.Duration
		late := make(chan struct{})
		var timer *time.Timer
		r := request{key: replica.Key{Nonce: cmd.Nonce}, cmd: cmd, over: late, cause: func() error { return errTooLate }}
		r.leaving = func() {
			sent = s.now()
			timer = time.AfterFunc(o.TTL, func() { close(late) })
		}
		res, err := s.submit(ctx, &r)
		if timer != nil {
			timer.Stop()
		}
		switch {
		case errors.Is(err, errTooLate):
			continue
		case err != nil:
			return nil, err
		case res.Code == fsm.LimitReached:
			return nil, s.LimitError(res.Limit)
		case res.Code != fsm.OK:
			return nil, fmt.Errorf("%w: the cell refused the session (%d)", ErrInvalid, res.Code)
		}
		if x, err := s.newSession(res.Session, o.TTL, sent); x != nil || err != nil {
			return x, err
		}
	}
}

// newSession begins to keep a session alive. It returns nil if its lease has run out already. A node that is going lets
// no further session in: what the cell has opened for it is left to expire.
func (s *Server) newSession(id fsm.SessionID, ttl time.Duration, sent time.Duration) (*Session, error) {
	x := &Session{srv: s, id: id, ttl: ttl, closed: make(chan struct{}), lease: lease.New(ttl, s.now, sent)}
	if !s.sessions.add(x) {
		x.lease.End(ErrClosed)
		return nil, ErrClosed
	}
	context.AfterFunc(x.lease.Context(), func() { s.sessions.remove(x) })
	if !x.lease.Alive() {
		return nil, nil
	}
	s.renewer.Add(id, x.lease)
	return x, nil
}

// ID is the session's id.
func (x *Session) ID() fsm.SessionID { return x.id }

// TTL is the session's TTL.
func (x *Session) TTL() time.Duration { return x.ttl }

// Lease is how long this process may act for the session.
func (x *Session) Lease() *lease.Lease { return x.lease }

// Change makes a change of the session, once however often it has to be sent, and returns what the cell answered.
// Errors: the session's, ctx's with ErrNoLeader or ErrOutcomeUnknown, ErrClosed, ErrLimit.
func (x *Session) Change(ctx context.Context, build func(fsm.Change) fsm.Command) (fsm.Result, error) {
	if err := x.lease.Err(); err != nil {
		return fsm.Result{}, err
	}
	c := x.author.begin(x.id)
	res, attempts, err := x.submit(ctx, c, build(c))
	if err != nil {
		x.author.settled(c.Seq) // nobody will ask for its result any more
		return res, err
	}
	if res.Code == fsm.UnknownSession && attempts > 1 {
		return res, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ErrSessionExpired) // an earlier attempt may have been in time
	}
	return res, nil
}

// submit sends a numbered change until it is answered, and takes note of what that says about the session.
func (x *Session) submit(ctx context.Context, c fsm.Change, cmd fsm.Command) (res fsm.Result, attempts int, err error) {
	r := request{
		key: replica.Key{Session: c.Session, Seq: c.Seq}, cmd: cmd,
		over: x.lease.Done(), cause: x.lease.Err,
	}
	res, err = x.srv.submit(ctx, &r)
	switch {
	case err != nil:
		x.author.unanswered(c)
	case res.Code == fsm.UnknownSession:
		x.lease.End(ErrSessionExpired) // the log has it that the session is gone
	default:
		x.author.answered(c)
	}
	return res, r.attempts, err
}

// LockRequest is what a Lock asks for.
type LockRequest struct {
	Name    string
	Data    []byte
	Try     bool
	MaxWait time.Duration // 0: as long as ctx
}

// Lock waits until the session holds a lock. The result's code is OK with the token as its revision, Locked, or a
// refusal. When it returns an error, what it may have left in the queue is withdrawn in the background: the number of
// the request is refused from then on, so that not even a copy of it that is still under way can take the lock.
func (x *Session) Lock(ctx context.Context, req LockRequest) (fsm.Result, error) {
	if err := x.lease.Err(); err != nil {
		return fsm.Result{}, err
	}
	waiting := ctx
	if req.MaxWait > 0 {
		var done context.CancelFunc
		waiting, done = context.WithTimeoutCause(ctx, req.MaxWait, errMaxWait)
		defer done()
	}
	c := x.author.begin(x.id)
	res, attempts, err := x.submit(waiting, c, fsm.Lock{Change: c, Name: req.Name, Data: req.Data, Try: req.Try})
	if err == nil {
		return res, nil
	}
	// From here on the number is not acknowledged by others: if the lock has been granted meanwhile, the cell must still
	// know the grant by that number, or the withdrawal would find nothing to free.
	if attempts == 0 {
		x.author.settled(c.Seq)
		return fsm.Result{}, err
	}
	if errors.Is(err, errMaxWait) {
		if res, ok := x.leaveQueue(ctx, c.Seq); ok {
			return res, nil
		}
		if ctx.Err() != nil {
			err = cancel.Reason(ctx)
		} else { // nobody could say that others are ahead
			err = fmt.Errorf("%w: %w", ErrNoLeader, errMaxWait)
		}
	}
	if x.lease.Alive() {
		x.srv.Go(func() { x.withdraw(c.Seq) })
	}
	// Nothing is left to be unknown: whatever becomes of the request, it is being withdrawn.
	var unknown *unknownError
	if errors.As(err, &unknown) {
		err = unknown.cause
	}
	return fsm.Result{}, err
}

// leaveQueue takes a request out of the queue that has waited long enough. If it has been granted meanwhile, so be it.
func (x *Session) leaveQueue(ctx context.Context, target uint64) (fsm.Result, bool) {
	ctx, done := context.WithTimeout(ctx, x.srv.cfg.ElectionTimeout)
	defer done()
	res, err := x.Change(ctx, func(c fsm.Change) fsm.Command {
		return fsm.Withdraw{Change: c, Target: target, OnlyQueued: true}
	})
	switch {
	case err != nil:
		return fsm.Result{}, false
	case res.Code == fsm.Granted:
		x.author.settled(target)
		return fsm.Result{Code: fsm.OK, Revision: res.Revision}, true
	case res.Code == fsm.UnknownSession:
		return res, true
	case res.Code == fsm.LimitReached:
		return fsm.Result{}, false
	default:
		return fsm.Result{Code: fsm.Locked}, true
	}
}

// withdraw repeats until the cell knows that nobody wants the lock any more, or the session has ended.
func (x *Session) withdraw(target uint64) {
	_, err := x.Change(context.Background(), func(c fsm.Change) fsm.Command {
		return fsm.Withdraw{Change: c, Target: target}
	})
	if err != nil && x.lease.Alive() {
		x.srv.log.Warn("a lock request could not be withdrawn", "session", x.id, "request", target, "error", err)
	}
}

// Release frees a grant in the background, and calls done, once, when the cell has answered or can answer no more. The
// holder has stopped before it calls Release.
func (x *Session) Release(name string, token fsm.Revision, done func(fsm.Result, error)) {
	free := func() {
		done(x.Change(context.Background(), func(c fsm.Change) fsm.Command {
			return fsm.Unlock{Change: c, Name: name, Token: token}
		}))
	}
	if !x.srv.Go(free) {
		done(fsm.Result{}, ErrClosed)
	}
}

// Close ends the session: first for this process, then for the cell, which is told in the background until it knows,
// or until it must have ended the session by itself.
func (x *Session) Close(ctx context.Context) error { return x.close(ctx, ErrSessionClosed) }

func (x *Session) close(ctx context.Context, cause error) error {
	x.closing.Do(func() {
		x.srv.sessions.leave(x)
		live := x.lease.End(cause)
		x.srv.renewer.Remove(x.id)
		if !live || !x.srv.Go(x.tellClosed) {
			x.left()
		}
	})
	select {
	case <-x.closed:
		return nil
	default:
	}
	select {
	case <-x.closed:
		return nil
	case <-ctx.Done():
		return cancel.Reason(ctx)
	}
}

func (x *Session) tellClosed() {
	defer x.left()
	ctx, done := context.WithTimeout(context.Background(), x.ttl)
	defer done()
	c := x.author.begin(x.id)
	r := request{key: replica.Key{Session: c.Session, Seq: c.Seq}, cmd: fsm.CloseSession{Change: c}}
	if _, err := x.srv.submit(ctx, &r); err != nil {
		x.srv.log.Debug("a closed session is left to expire", "session", x.id, "error", err)
	}
}

// left is called when nothing more will be told to the cell.
func (x *Session) left() {
	x.srv.sessions.gone(x)
	close(x.closed)
}

// sessions are those that live in this process, and those that are closed and of which the cell is being told.
type sessions struct {
	mu      sync.Mutex
	all     map[fsm.SessionID]*Session
	leaving map[*Session]struct{}
	closed  bool
}

func (s *sessions) add(x *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.all == nil {
		s.all = make(map[fsm.SessionID]*Session)
	}
	s.all[x.id] = x
	return true
}

func (s *sessions) remove(x *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, x.id)
}

// leave keeps a session that is about to end until it is gone.
func (s *sessions) leave(x *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving == nil {
		s.leaving = make(map[*Session]struct{})
	}
	s.leaving[x] = struct{}{}
}

func (s *sessions) gone(x *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaving, x)
}

// close lets no further session be added, and returns those that there are, the leaving ones too.
func (s *sessions) close() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	all := make([]*Session, 0, len(s.all)+len(s.leaving))
	for _, x := range s.all {
		if _, leaving := s.leaving[x]; !leaving {
			all = append(all, x)
		}
	}
	for x := range s.leaving {
		all = append(all, x)
	}
	return all
}

// own is the session under which this server makes the changes of calls that name none. It is opened when it is first
// needed, and anew when it has ended.
type own struct {
	turn    chan struct{} // of one: held while a session is looked up or opened
	room    chan struct{} // a place for each change under way: the callers know of no session, and of no limit of one
	session *Session
}

func newOwn() *own {
	return &own{turn: make(chan struct{}, 1), room: make(chan struct{}, fsm.MaxOutstanding/2)}
}

// enter takes a place in one of own's channels.
func (s *Server) enter(ctx context.Context, places chan<- struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return s.gaveUp(cancel.Reason(ctx), false, s.route().leader != "")
	case <-s.stop.Done():
		return s.Stopped()
	}
}

func (s *Server) ownSession(ctx context.Context) (*Session, error) {
	if err := s.enter(ctx, s.own.turn); err != nil {
		return nil, err
	}
	defer func() { <-s.own.turn }()
	if x := s.own.session; x != nil && x.lease.Alive() {
		return x, nil
	}
	x, err := s.openSession(ctx, SessionOptions{TTL: s.defaultTTL(), Label: s.cfg.Name}, true)
	if err == nil {
		s.own.session = x
	}
	return x, err
}

// Change makes a change under this server's own session.
func (s *Server) Change(ctx context.Context, build func(fsm.Change) fsm.Command) (fsm.Result, error) {
	if err := s.enter(ctx, s.own.room); err != nil {
		return fsm.Result{}, err
	}
	defer func() { <-s.own.room }()
	for {
		x, err := s.ownSession(ctx)
		if err != nil {
			return fsm.Result{}, err
		}
		res, err := x.Change(ctx, build)
		if err == nil && res.Code == fsm.UnknownSession {
			continue // it had ended before its only attempt: nothing was changed
		}
		return res, err
	}
}
