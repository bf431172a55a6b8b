package caller

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/lease"
	"github.com/coordcell/coord/internal/wire"
)

// DefaultTTL is a session's TTL where nothing is asked and the bounds allow it.
const DefaultTTL = 10 * time.Second

// LeastTTL is the shortest TTL of a session: a failover takes a few election timeouts, and should hardly ever end a session.
func LeastTTL(election time.Duration) time.Duration { return max(time.Second, 4*election) }

// Cell is the cell as a node reaches it. Its methods may be called concurrently.
type Cell interface {
	// Route says where changes go for now. It does not block.
	Route() Route
	// Propose makes one attempt at a change over a route whose Leader is not "". One Answer is put into answers, which
	// has room for it, unless forget has been called before: then one may still come. ctx bounds the sending only.
	Propose(ctx context.Context, rt Route, cmd fsm.Command, answers chan<- Answer) (forget func())
	// KeepAlive carries one renewal message to whoever leads. See lease.Send.
	KeepAlive(ctx context.Context, number uint64, ids []fsm.SessionID) (lease.Reply, error)
	// Ask carries one question to whoever leads, and returns its answer. It waits no longer than ctx.
	Ask(ctx context.Context, kind wire.AskKind, question []byte) ([]byte, error)
	// LimitError is the error for a change that the cell has refused because of a limit.
	LimitError(fsm.Limit) error
}

// Route is where changes go for now.
type Route struct {
	Leader  string          // who leads; "" nobody known
	Local   bool            // it is this node, and it serves
	Changed <-chan struct{} // closed when the route may be another one: what is under way will not be answered
}

// Answer is how an attempt ended.
type Answer struct {
	Result fsm.Result
	Err    error
}

// Config says how a Caller works. Every field is required.
type Config struct {
	Cell            Cell
	Node, Name      string // id and name of the node
	ElectionTimeout time.Duration
	MaxTTL          time.Duration
	Now             func() time.Duration // the lease clock
	Stop            context.Context      // ends when the node begins to stop
	Stopped         func() error         // what calls return then
	Go              func(func()) bool    // runs a function on a goroutine that the node waits for; false: it is stopping
	Logger          *slog.Logger
}

// Caller makes the calls of one node. Its methods may be called concurrently.
type Caller struct {
	cfg      Config
	renewer  *lease.Renewer
	sessions sessions
	own      *own
	stopped  stopped
	pausing  atomic.Int64 // requests between two attempts
}

// New returns a Caller that renews nothing before Run.
func New(cfg Config) *Caller {
	c := &Caller{cfg: cfg, own: newOwn()}
	c.renewer = lease.NewRenewer(cfg.Now, c.keepAlive)
	return c
}

// Run keeps the leases of all sessions alive until Config.Stop ends, and ends those whose time is up every 100 ms: timers
// stand still while the machine sleeps.
func (c *Caller) Run() {
	var renewing sync.WaitGroup
	defer renewing.Wait()
	renewing.Go(func() { c.renewer.Run(c.cfg.Stop) })
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c.renewer.Tick()
		case <-c.cfg.Stop.Done():
			return
		}
	}
}

// SessionOptions say what session to open.
type SessionOptions struct {
	TTL   time.Duration // 0: the default
	Grace time.Duration // see package lease; 0: none
	Label string
}

// OpenSession opens a session for the program, whose label has been checked.
func (c *Caller) OpenSession(ctx context.Context, o SessionOptions) (*Session, error) {
	if o.TTL == 0 {
		o.TTL = c.defaultTTL()
	}
	if least := LeastTTL(c.cfg.ElectionTimeout); o.TTL < least || o.TTL > c.cfg.MaxTTL {
		return nil, fmt.Errorf("%w: TTL %v: must be %v (1s, or 4 × ElectionTimeout) … Limits.MaxTTL, %v",
			ErrInvalid, o.TTL, least, c.cfg.MaxTTL)
	}
	if o.Grace < 0 || o.Grace > c.cfg.MaxTTL {
		return nil, fmt.Errorf("%w: grace %v: must be 0 … Limits.MaxTTL, %v", ErrInvalid, o.Grace, c.cfg.MaxTTL)
	}
	return c.openSession(ctx, o, false)
}

func (c *Caller) defaultTTL() time.Duration {
	return min(max(DefaultTTL, LeastTTL(c.cfg.ElectionTimeout)), c.cfg.MaxTTL)
}

// Leave ends every session, for this process at once and for the cell as far as it can be told before ctx ends. No
// further one is opened.
func (c *Caller) Leave(ctx context.Context) {
	var closing sync.WaitGroup
	for _, x := range c.sessions.close() {
		closing.Go(func() {
			if err := x.close(ctx, ErrClosed); err != nil {
				c.cfg.Logger.Debug("a session is left to expire", "session", x.id, "error", err)
			}
		})
	}
	closing.Wait()
}

// End ends every lease, and tells nobody else.
func (c *Caller) End() {
	for _, x := range c.sessions.close() {
		x.lease.End(ErrClosed)
	}
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
