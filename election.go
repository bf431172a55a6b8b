package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/hub"
	"github.com/coordcell/coord/internal/wire"
)

// Leadership is one term of office: a Lock whose Token is its epoch and whose data is the value that the leader
// proclaims. Everything said of Lock holds.
type Leadership struct{ lock *Lock }

// Campaign waits until the session leads the election, first come first served, and proclaims value. An election is a
// lock of the same name. Errors: as Session.Lock.
func (s *Session) Campaign(ctx context.Context, election string, value []byte, opts ...LockOption) (*Leadership, error) {
	opts = append(opts[:len(opts):len(opts)], WithData(value))
	if o := lockOptionsOf(opts); o.shared || o.slots != 0 {
		return nil, wrap(fmt.Errorf("%w: an election has one leader: not Shared, and no Slots", ErrInvalid), "campaign %q", election)
	}
	l, err := s.lock(ctx, []string{election}, false, opts)
	if err != nil {
		return nil, wrap(err, "campaign %q", election)
	}
	return &Leadership{lock: l}, nil
}

// Epoch is the fencing token of this term of office, above that of every earlier one.
func (l *Leadership) Epoch() Token { return l.lock.Token() }

// Lock is the lock that the leadership is.
func (l *Leadership) Lock() *Lock { return l.lock }

// Lost is closed when this process must stop leading.
func (l *Leadership) Lost() <-chan struct{} { return l.lock.Lost() }

// Err says why the leadership is over, as Lock.Err.
func (l *Leadership) Err() error { return l.lock.Err() }

// Check is nil if this process leads right now, as Lock.Check.
func (l *Leadership) Check() error { return l.lock.Check() }

// Context ends when this process must stop leading, as Lock.Context.
func (l *Leadership) Context() context.Context { return l.lock.Context() }

// Proclaim replaces the value that Node.Leader and Node.Observe show.
//
// Errors: why the leadership is over (as Err), ErrNotHeld, ErrTooLarge, ErrNoLeader or ErrOutcomeUnknown (ctx ended).
func (l *Leadership) Proclaim(ctx context.Context, value []byte) error {
	return wrap(l.proclaim(ctx, value), "proclaim %q", l.lock.name)
}

func (l *Leadership) proclaim(ctx context.Context, value []byte) error {
	if err := l.Check(); err != nil {
		return err
	}
	s := l.lock.session
	if err := s.node.limits.CheckValue("value", value); err != nil {
		return err
	}
	kept := bytes.Clone(value)
	res, err := s.s.Change(ctx, func(c fsm.Change) fsm.Command {
		return fsm.SetData{Change: c, Name: l.lock.name, Token: l.lock.token, Data: kept}
	})
	if err != nil {
		return err
	}
	return s.node.outcome(res)
}

// Resign ends the leadership, as Lock.Unlock.
func (l *Leadership) Resign(ctx context.Context) error {
	return wrap(l.lock.release(ctx), "resign %q", l.lock.name)
}

// HandOver ends the leadership in favour of a candidate: to is granted the election next, before all others that wait.
// This process stops first, as with Resign, and what was asked for is repeated until the cell has answered, also after ctx
// has ended.
//
// Errors: ErrInvalid if to does not campaign for it, and then nothing has changed; but if it has left the queue in the
// very moment between the look and the handing over, this process has stopped, and the leadership has been resigned.
// Others as Resign.
func (l *Leadership) HandOver(ctx context.Context, to SessionID) error {
	return wrap(l.handOver(ctx, to), "hand over %q to session %d", l.lock.name, to)
}

func (l *Leadership) handOver(ctx context.Context, to SessionID) error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	info, err := l.lock.session.node.lookup(ctx, l.lock.name)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(info.Queue, func(w Waiter) bool { return w.Session == to && !w.Shared }) {
		return fmt.Errorf("%w: the session does not campaign for it", ErrInvalid)
	}
	return l.lock.letGo(ctx, func(name string, token fsm.Revision, done func(fsm.Result, error)) {
		l.lock.session.s.HandOver(name, token, to, done)
	})
}

// Leader is who leads an election.
type Leader struct {
	Held    bool // false: nobody does, and the rest is zero
	Epoch   Token
	Value   []byte
	Session SessionID
	Label   string
}

// Leader says who leads the election, as of a moment after the call. Errors: ErrInvalid, ErrTooLarge, ErrNoLeader (ctx
// ended), ErrClosed.
func (n *Node) Leader(ctx context.Context, election string) (Leader, error) {
	if err := n.limits.CheckName("election", election); err != nil {
		return Leader{}, wrap(err, "leader of %q", election)
	}
	a, err := n.srv.Read(ctx, wire.Read{Kind: wire.ReadLock, Name: election})
	if err != nil {
		return Leader{}, wrap(err, "leader of %q", election)
	}
	return leaderOf(a.Lock), nil
}

func leaderOf(v fsm.LockView) Leader {
	if len(v.Holders) == 0 || v.Freeing || v.Slots > 0 || v.Holders[0].Shared {
		return Leader{}
	}
	h := v.Holders[0]
	return Leader{Held: true, Epoch: Token(h.Token), Value: bytes.Clone(h.Data), Session: h.Session, Label: h.Label}
}

// Observer follows who leads an election.
type Observer struct {
	feed
	election string
	changes  chan Leader
}

// Observe tells who leads the election now, and then each change, "nobody" included. Unlike other calls it lives as
// long as ctx. Errors: as Node.Leader.
func (n *Node) Observe(ctx context.Context, election string) (*Observer, error) {
	err := n.limits.CheckName("election", election)
	if err == nil {
		err = n.srv.Fresh(ctx)
	}
	if err != nil {
		return nil, wrap(err, "observe %q", election)
	}
	o := &Observer{election: election, changes: make(chan Leader, 1)}
	ctx = o.open(ctx, n)
	if !n.srv.Go(func() { o.run(ctx, n.srv.Observe(election)) }) {
		o.stop(errFeedClosed)
		return nil, wrap(ErrClosed, "observe %q", election)
	}
	return o, nil
}

// Changes yields the present leader and then each new one. A reader that is slow misses what was overtaken, never the
// latest. It is closed when the Observer has ended.
func (o *Observer) Changes() <-chan Leader { return o.changes }

// Err says why the Observer has ended: ctx's error; ErrNoLeader (its node has had no proof of a leader of the cell for
// 2 × Config.ElectionTimeout); ErrClosed (the node was closed). It is nil before, and after Close.
func (o *Observer) Err() error { return wrap(o.feed.error(), "observe %q", o.election) }

// Close ends the Observer and waits for it. It returns nil.
func (o *Observer) Close() error {
	o.close()
	return nil
}

func (o *Observer) run(ctx context.Context, from hub.LockReader) {
	defer o.ended()
	defer close(o.changes)
	defer from.Close()
	changed := func(before, after fsm.LockView) bool {
		a, b := leaderOf(before), leaderOf(after)
		return a.Held != b.Held || a.Epoch != b.Epoch || !bytes.Equal(a.Value, b.Value)
	}
	for {
		view, err := from.Next(ctx, changed)
		if err != nil {
			o.fail(err)
			return
		}
		select {
		case <-o.changes: // overtaken
		default:
		}
		o.changes <- leaderOf(view) // nobody else sends: there is room
	}
}

// errFeedClosed is the cause of a feed that its reader closed.
var errFeedClosed = errors.New("closed by its reader")

// feed is the life of an Observer: a goroutine that its reader can end, and that says why it has ended.
type feed struct {
	node *Node
	stop context.CancelCauseFunc
	done chan struct{}

	mu  sync.Mutex
	err error
}

// open begins the feed's life within ctx's.
func (f *feed) open(ctx context.Context, n *Node) context.Context {
	f.node = n
	ctx, f.stop = context.WithCancelCause(ctx)
	f.done = make(chan struct{})
	return ctx
}

// fail records why the feed has ended.
func (f *feed) fail(err error) {
	if errors.Is(err, errFeedClosed) {
		return
	}
	if errors.Is(err, hub.ErrClosed) {
		err = f.node.srv.Stopped()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = watchError(err)
}

// ended is called by the feed's goroutine when it returns.
func (f *feed) ended() {
	f.stop(errFeedClosed)
	close(f.done)
}

func (f *feed) error() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// close ends the feed and waits for its goroutine.
func (f *feed) close() {
	f.stop(errFeedClosed)
	<-f.done
}
