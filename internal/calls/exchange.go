package calls

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord/internal/failstop"
	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

// Directory knows the addresses of nodes. Lookup must not block.
type Directory interface {
	Lookup(id string) (addr string, ok bool)
}

// Handler serves requests. It is called on the connection's reader and must not block; the answer may be given at any
// time and from any goroutine. ctx ends with the connection.
type Handler func(ctx context.Context, req *Request)

// Config says how an Exchange works. Mux, Directory, Handler and Switch are required; zero means the default elsewhere.
type Config struct {
	Mux       *transport.Mux // of which it uses the streams of KindCalls; it is not closed by the Exchange
	Directory Directory
	Handler   Handler
	Switch    *failstop.Switch // once it is thrown, nothing leaves
	Logger    *slog.Logger     // default: none

	// Timeout is after how much silence a connection counts as dead (and up to half as much more), how long a write
	// may make no progress, and how long dialling may take. Default 1s; it should be the election timeout. The nodes
	// need not agree on it.
	Timeout time.Duration
	// ClientTimeout is Timeout for connections between a client and a server, of which a server has many. A client
	// that has asked and hears nothing goes by Timeout nevertheless. Default 20s, and not less than Timeout.
	ClientTimeout time.Duration
	// IdleTimeout is after how long without requests a connection is closed. Default 2m.
	IdleTimeout time.Duration

	// Client says that this node is a client, and those that it calls are servers.
	Client bool
	// IsClient tells which peers are clients; nil: none is. It must not block. It is asked now and then, for a server may
	// not be known as one when it connects.
	IsClient func(peer string) bool

	MaxFrame    int // bytes of a frame, and with a few less of a message; 4 MiB. All nodes must agree on it
	MaxInFlight int // requests under way on a connection; 65,536. All nodes must agree on it
	MaxQueued   int // bytes queued on a connection above which callers wait; 8 MiB
	MaxReplies  int // bytes queued on a connection above which it is closed, for replies cannot wait; 64 MiB
	MaxInbound  int // connections of one peer; when it opens another, its oldest is closed; 2
	MaxPayload  int // bytes of the payloads above 1 KiB of requests under way, on a connection; 64 MiB
	MaxClients  int // connections of clients; a further one is refused; 65,536
	// MaxHeld is how many bytes of requests under way, of replies queued and of frames half read all clients together
	// may make this node hold; above it, the connection of the client that holds the most is closed. 1 GiB.
	MaxHeld int
}

// Exchange makes calls to peers and serves theirs. Its methods may be called concurrently.
type Exchange struct {
	cfg    Config
	ctx    context.Context // ends with the Exchange
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	calls  sync.Pool // of *pending, for Call
	runs   sync.Pool // of *frames, for what is queued
	large  sync.Pool // of *[largeBuffer]byte, for what arrives

	slowness int           // how many times as long as Timeout the ClientTimeout is
	ticker   *time.Ticker  // for the beats; stopped while there is no link
	due      []*link       // beatAll's own
	held     atomic.Int64  // bytes that clients make this node hold
	crowded  chan struct{} // tells that they are too many

	mu       sync.Mutex
	err      error // why it is closed; nil while it is not
	peers    map[string]*peer
	links    [][]*link             // the first slot's have each beat, one of the others' too, in turn
	count    int                   // of links
	clients  int                   // of them, those of clients
	refusals int                   // of them, those that are being refused
	inbound  map[string][]*inbound // oldest first
}

// New starts an Exchange, which runs until Close. It serves nobody before Serve.
func New(cfg Config) *Exchange {
	setDefault(&cfg.Timeout, time.Second)
	setDefault(&cfg.IdleTimeout, 2*time.Minute)
	setDefault(&cfg.MaxFrame, 4<<20)
	setDefault(&cfg.MaxInFlight, 1<<16)
	setDefault(&cfg.MaxQueued, 8<<20)
	setDefault(&cfg.MaxReplies, 64<<20)
	setDefault(&cfg.MaxInbound, 2)
	setDefault(&cfg.MaxPayload, 64<<20)
	setDefault(&cfg.MaxClients, 1<<16)
	setDefault(&cfg.MaxHeld, 1<<30)
	setDefault(&cfg.ClientTimeout, 20*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	x := &Exchange{
		cfg:      cfg,
		slowness: int(max(1, cfg.ClientTimeout/cfg.Timeout)),
		ticker:   time.NewTicker(cfg.Timeout / beats),
		crowded:  make(chan struct{}, 1),
		peers:    make(map[string]*peer),
		inbound:  make(map[string][]*inbound),
	}
	x.ticker.Stop()
	x.links = make([][]*link, 1+x.slowness)
	x.calls.New = func() any { return &pending{done: make(chan answer, 1)} }
	x.runs.New = func() any { return new(frames) }
	x.large.New = func() any { return new([largeBuffer]byte) }
	x.ctx, x.cancel = context.WithCancel(context.Background())
	x.tasks.Go(x.watchSwitch)
	x.tasks.Go(x.beat)
	return x
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Call sends a request to a peer and waits for its one reply, which the caller owns. The payload is not kept.
//
// Errors: ErrNotSent, ErrNoReply, each with its cause (that of ctx, ErrClosed, …); ErrTooLarge, ErrBusy,
// ErrUnknownMethod, *NotLeaderError, *RemoteError.
func (x *Exchange) Call(ctx context.Context, peer string, method wire.Method, payload []byte) ([]byte, error) {
	p := x.calls.Get().(*pending)
	defer x.calls.Put(p)
	out, id, err := x.send(ctx, peer, method, payload, p)
	if err != nil {
		return nil, describe(peer, method, err)
	}
	var a answer
	select {
	case a = <-p.done:
	case <-ctx.Done():
		if out.abandon(id) {
			return nil, describe(peer, method, fmt.Errorf("%w: %w", ErrNoReply, context.Cause(ctx)))
		}
		a = <-p.done // it is on its way
	}
	if a.err != nil {
		return nil, describe(peer, method, a.err)
	}
	return a.body, nil
}

// Stream sends a request to a peer that may have any number of replies. ctx bounds only the sending; errors are those
// of Call that precede a reply. From then on receive is called with each reply, which it owns, and at the end once with
// no reply and the reason: io.EOF, if the peer has ended it, or an error as of Call. These calls come one at a time from
// the connection's reader; they may begin before Stream has returned, and must not block.
//
// cancel tells the peer, and ends the calls of receive: at most one more begins, if it was on its way. It does no harm
// when the stream has ended.
func (x *Exchange) Stream(ctx context.Context, peer string, method wire.Method, payload []byte, receive func(reply []byte, err error)) (cancel func(), err error) {
	p := &pending{receive: func(reply []byte, err error) { receive(reply, describeEnd(peer, method, err)) }}
	out, id, err := x.send(ctx, peer, method, payload, p)
	if err != nil {
		return nil, describe(peer, method, err)
	}
	return func() { out.abandon(id) }, nil
}

// Serve accepts the connections of peers; it is called once. It returns when the Mux is closed, and refuses everybody from Close on; its
// caller waits for it, Close does not.
func (x *Exchange) Serve() {
	for {
		c, err := x.cfg.Mux.Accept(transport.KindCalls)
		if err != nil {
			return
		}
		x.accepted(c)
	}
}

// Close ends all connections and waits for all goroutines, and so for handlers and callbacks that are running: it must
// not be called by one. What is under way ends with ErrNoReply and ErrClosed.
func (x *Exchange) Close() error {
	x.shut(ErrClosed)
	x.tasks.Wait()
	return nil
}

// send finds a connection and sends a request on it. A payload of any size is refused before anything is dialled.
func (x *Exchange) send(ctx context.Context, peer string, method wire.Method, payload []byte, p *pending) (*outbound, uint64, error) {
	if limit := x.maxMessage(); len(payload) > limit {
		return nil, 0, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(payload), limit)
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
	}
	for {
		out, err := x.connection(ctx, peer)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		id, err := out.send(ctx, method, payload, p)
		switch {
		case err == nil:
			return out, id, nil
		case err != errIdle: // it was about to close; the next one is new
			return nil, 0, fmt.Errorf("%w: %w", ErrNotSent, err)
		}
	}
}

// maxMessage is the most bytes of one payload.
func (x *Exchange) maxMessage() int { return x.cfg.MaxFrame - maxOverhead }

func (x *Exchange) watchSwitch() {
	select {
	case <-x.cfg.Switch.Tripped():
		x.shut(fmt.Errorf("%w: %w", ErrClosed, x.cfg.Switch.Err()))
	case <-x.ctx.Done():
	}
}

// shut closes everything without waiting. Only the first reason counts.
func (x *Exchange) shut(reason error) {
	x.mu.Lock()
	if x.err != nil {
		x.mu.Unlock()
		return
	}
	x.err = reason
	x.mu.Unlock()
	x.cancel()
	for _, l := range x.all() {
		l.close(reason)
	}
}

// start runs a task that Close waits for, unless the Exchange is closed.
func (x *Exchange) start(task func()) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil {
		return x.err
	}
	x.tasks.Go(task)
	return nil
}

func describe(peer string, method wire.Method, err error) error {
	return fmt.Errorf("calls: method %d of %s: %w", method, peer, err)
}

// describeEnd is describe for the last call of a stream's callback.
func describeEnd(peer string, method wire.Method, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return describe(peer, method, err)
}
