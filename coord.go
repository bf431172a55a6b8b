// Package coord turns the processes of an application into a coordination cell: they hold sessions, locks, elections and
// keys, and watch them, with no other server to run. A program starts a Node; the nodes find each other, form a Raft
// group, and any of them takes any call.
//
//	node, err := coord.Start(ctx, coord.Config{Dir: dir, Join: []string{"a:7420", "b:7420", "c:7420"}, Expect: 3})
//	...
//	session, err := node.NewSession(ctx, coord.WithLabel("billing"))
//	...
//	err = session.Do(ctx, "jobs/nightly", func(ctx context.Context, l *coord.Lock) error {
//		if err := l.Check(); err != nil {
//			return err // this process may not act any more
//		}
//		return bill(ctx, l.Token()) // the database refuses tokens lower than the highest it has seen
//	})
//
// # Who may act
//
// A session lives as long as its process renews it, three times in a TTL, in the background. What it holds (locks,
// leaderships, ephemeral keys) goes when it ends. The holder of a lock may act while Lock.Check returns nil: it compares
// the process's own clock with the last renewal that a quorum stands behind, and needs no network. Lost is closed, and
// Context ends, when it no longer may; the cell grants the lock to the next only after that.
//
// # What is guaranteed
//
//   - G1: a name has one holder, or readers only, or one holder a slot. G2: every grant of a name has a higher token than all earlier ones.
//   - G3: a holder's Check fails before another is granted, if clocks tick at nearly the same rate.
//   - G4: a resource that checks tokens (package fence) takes nothing from a former holder once a later one wrote.
//   - G5: reads see all that was acknowledged before them, unless Stale is asked for.
//   - G6: waiters are served first come, first served, the dead ones left out.
//   - G7: a change takes effect once, however often the library has to repeat it.
//   - G8: a session that is renewed in time does not expire, and another does within TTL + 1 s.
//   - G9: a Watch yields every change once and in order, or ends and says why.
//   - G10: servers whose states differ stop. G11: nothing acknowledged is lost while a majority of disks survive.
//   - G12: a closed node leaves nothing behind, and no call of this package panics.
//
// # What is not
//
// A lock whose resource checks no tokens is advice: a process can be frozen between its Check and its write. A process
// that was frozen past its lease learns of that when it wakes up; one in a virtual machine whose clock stood still may
// not learn of it even then. A Dir that was copied, or set back to an earlier state, breaks the cell. Without a majority
// of its servers a cell grants nothing and answers nothing but Stale reads.
package coord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/client"
	"github.com/coordcell/coord/internal/hub"
	"github.com/coordcell/coord/internal/server"
	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

// Defaults of Config.
const (
	DefaultCell            = "default"
	DefaultListen          = ":7420"
	DefaultElectionTimeout = time.Second
)

// Config says what node to start. The zero value of a field is its default. Start copies it and never writes to it.
type Config struct {
	// Name is the server's role, and stays when its Dir is lost: a new server of the same name takes a dead one's place.
	// A second live one is refused (ErrInvalid, by Node.Err). Default: the host name and six hex digits of the node's id,
	// which no other server ever has.
	Name string
	// Cell is the cell's name; a node refuses to talk to another cell's. Default "default".
	Cell string
	// Dir is where the server keeps its log and snapshots. It makes the node's identity: never copy it, never set it
	// back to an earlier state. A second process on the same Dir gets ErrDirInUse.
	Dir string
	// LogStore is how a new Dir keeps the log: LogSegments by default. A Dir that keeps it the other way is refused
	// (ErrInvalid); without LogStore, a Dir goes on as it was made.
	LogStore LogStore
	// InMemory keeps log and snapshots in memory, without a Dir: for tests and demonstrations. Each start is a new
	// server.
	InMemory bool
	// Listen is host:port for everything, TCP and UDP. Default ":7420"; port 0 picks one.
	Listen string
	// Advertise is the host:port that others dial. Default: Listen's address, with the host's own where that is
	// unspecified.
	Advertise string
	// Join lists host:port of servers, this one allowed. A name with several addresses means all of them; names are
	// resolved anew at each try.
	Join []string
	// Expect is how many servers must meet before a new cell forms, the same number at each of them. 1 forms alone, and
	// Join must be empty then. 0 never forms a cell, and only joins one. A server that has state ignores it.
	Expect int
	// ElectionTimeout is how long the servers do without a leader before they elect another. Default 1s; 50ms … 1m. The
	// same at all servers.
	ElectionTimeout time.Duration
	// Limits bounds what calls may ask for and what the cell may hold.
	Limits Limits
	// Logger gets what the node has to say. Default: slog.Default, at Warn and above.
	Logger *slog.Logger
	// Hooks are told what happens. A client is told of LeaderChanged only.
	Hooks Hooks
	// Transport is the network. Default: TCP. transport.NewMemory serves tests.
	Transport transport.Network
	// Role says what the node does in its cell. Default: RoleServer.
	Role Role
}

// Role is what a node does in its cell.
type Role uint8

const (
	// RoleServer keeps a replica of the cell's state, votes, and serves others.
	RoleServer Role = iota
	// RoleClient keeps no replica: it makes its calls through one of the servers that Join names or that those tell of,
	// and moves to another one when it has to. It holds sessions, locks and watches as a server does; it needs no Dir,
	// opens no port and does not count for any majority. An application of hundreds of processes runs a few servers, and
	// clients everywhere else. Join and Cell are required, ElectionTimeout must be the servers'; Dir, InMemory, Listen,
	// Advertise and Expect must be left out.
	RoleClient
)

// String returns "server" or "client".
func (r Role) String() string {
	switch r {
	case RoleServer:
		return "server"
	case RoleClient:
		return "client"
	default:
		return fmt.Sprintf("Role(%d)", uint8(r))
	}
}

// LogStore is a way to keep the log on disk. A Dir has one for ever.
type LogStore string

const (
	LogSegments LogStore = "segments" // files that are appended to: one sync a write
	LogBolt     LogStore = "bolt"     // a bbolt file, as it was always before there was a choice: two syncs a write
)

// Limits are checked where a call enters. 0 is the default. Those from Sessions on belong to the cell: they are fixed when
// it forms, and servers that disagree about them do not form one.
type Limits struct {
	Name   int           // bytes of a name of a lock, an election or a key; default 512, at most 4 KiB
	Value  int           // bytes of a value, or of a lock's data; default 64 KiB, at most 1 MiB
	Txn    int           // operations of a Txn, in each branch, and its conditions; default 128, at most 1,024
	List   int           // items of one List; default 10,000, at most 2^20
	MaxTTL time.Duration // of a session; default 24h. The least is 1s, and 4 × ElectionTimeout

	Sessions int // open at once, the nodes' own not counted; default 1,000,000
	Locks    int // held at once; default 4,000,000
	Keys     int // default 4,000,000
	Waiters  int // on one name; default 100,000

	HistoryEvents int // events kept for watches; default 500,000, at least 16
	HistoryBytes  int // default 64 MiB, at least 64 KiB
}

// Node is this process's part in a cell: a server with a replica of the cell's state, or a client without one. Any node
// takes any call, and passes on to the leader what only the leader may do. All methods may be called concurrently.
type Node struct {
	srv    cell
	calls  *caller.Caller // of srv
	limits server.Limits
}

// cell is what stands behind a Node: a server, or a client that is attached to one.
type cell interface {
	ID() string
	Name() string
	Addr() string
	Status() caller.Status
	Members() []caller.Member
	Transfer(ctx context.Context, to string) error

	Ready(ctx context.Context) error
	Shutdown(ctx context.Context) error
	Close() error
	Done() <-chan struct{}
	Err() error
	Stopping() <-chan struct{} // closed when the node begins to stop
	Stopped() error            // the error of a call that finds it stopping
	Go(f func()) bool          // runs f on a goroutine that Close waits for; false: the node is stopping

	Read(ctx context.Context, r wire.Read) (wire.ReadAnswer, error)
	Fresh(ctx context.Context) error
	BeginWatch(ctx context.Context, o hub.Options) (hub.Options, error)
	Watch(o hub.Options, ready func()) (hub.Reader, error)
	Pump() *hub.Pump // gives turns to those who read from Watch
	Observe(name string) hub.LockReader
	LimitError(l fsm.Limit) error
}

// Start runs a node in this process. It returns once Dir is open and the port bound; finding, joining and forming the
// cell go on behind it, and WaitReady reports them. ctx bounds this call only. What makes them impossible later (another
// cell's servers at the addresses, configurations that disagree, a failing disk) ends the node: see Done and Err.
//
// Errors: ErrInvalid (every field that is out of bounds, with its value and what is allowed), ErrDirInUse, ErrWrongCell
// (Dir belongs to another cell), and those of the operating system for Dir and Listen.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	n, err := start(ctx, cfg)
	if err != nil {
		return nil, wrap(err, "start")
	}
	return n, nil
}

func start(ctx context.Context, cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	limits := server.Limits(cfg.Limits)
	hooks := newHookQueue(cfg.Hooks)
	if cfg.Role == RoleClient {
		c, err := client.Start(ctx, client.Config{
			Name: cfg.Name, Cell: cfg.Cell, Join: cfg.Join, ElectionTimeout: cfg.ElectionTimeout, MaxTTL: limits.MaxTTL,
			Logger: cfg.Logger, Network: cfg.Transport, LeaderChanged: hooks.leaderChanged,
		})
		if err != nil {
			return nil, err
		}
		hooks.run(c)
		return &Node{srv: c, calls: c.Caller(), limits: limits}, nil
	}
	srv, err := server.Start(ctx, server.Config{
		Name: cfg.Name, Cell: cfg.Cell, Dir: cfg.Dir, LogStore: string(cfg.LogStore), InMemory: cfg.InMemory,
		Listen: cfg.Listen, Advertise: cfg.Advertise, Join: cfg.Join, Expect: cfg.Expect,
		ElectionTimeout: cfg.ElectionTimeout, Limits: limits, Logger: cfg.Logger, Network: cfg.Transport,
		Applied: hooks.applied, LeaderChanged: hooks.leaderChanged,
	})
	if err != nil {
		return nil, err
	}
	hooks.run(srv)
	return &Node{srv: srv, calls: srv.Caller(), limits: limits}, nil
}

// WaitReady waits until a leader is known and this node has caught up with it. Errors: ErrNoLeader with ctx's error, and
// why the cell cannot be reached or formed, as far as that is known; what Err says once the node has ended.
func (n *Node) WaitReady(ctx context.Context) error { return wrap(n.srv.Ready(ctx), "wait ready") }

// Shutdown stops the node gracefully: it ends the sessions of this process, so that what they hold is free at once,
// hands leadership over, and stops. The node stays a member of its cell. Without a leader nobody can be told: it tries
// for 5s, or 4 × ElectionTimeout if that is more, and what its sessions hold is handed on when they expire. When ctx ends first it stops at once. A second
// call waits for the first.
//
// Errors: ctx's, if it ended first.
func (n *Node) Shutdown(ctx context.Context) error { return wrap(n.srv.Shutdown(ctx), "shut down") }

// Close stops the node at once. What its sessions hold is handed on when they expire. It is idempotent.
func (n *Node) Close() error { return wrap(n.srv.Close(), "close") }

// Done is closed when the node has stopped, for whatever reason.
func (n *Node) Done() <-chan struct{} { return n.srv.Done() }

// Err says why the node has stopped: ErrClosed after Shutdown or Close, else what made it impossible to go on. It is nil
// while the node runs.
func (n *Node) Err() error { return n.srv.Err() }

// ID is the node's id: 32 hex digits that were made with its Dir, or for a client at its start, and that no other node ever has.
func (n *Node) ID() string { return n.srv.ID() }

// Name is Config.Name, or the default made from the host's name and the id.
func (n *Node) Name() string { return n.srv.Name() }

// Addr is the address it listens on, port filled in; "" for a client.
func (n *Node) Addr() string { return n.srv.Addr() }

// Status is what a node knows of itself and its cell.
type Status struct {
	ID, Name, Cell, CellID string // CellID is "" before the cell has formed, or is known
	Role                   Role
	Voter, IsLeader        bool
	Leader                 string // id of the leader; "" if none is known
	Term                   uint64 // of the leader
	Applied, Committed     uint64 // log indexes
	Revision               Revision
	Sessions, Locks, Keys  int
	Waiting                int           // in queues
	Evidence               time.Duration // age of the last proof of a leader; centuries if there never was one
}

// Status asks nobody. A client shows what a server has told it last: of the leader as soon as that changes, of the rest
// no more than half a minute ago.
func (n *Node) Status() Status {
	s := n.srv.Status()
	role := RoleServer
	if s.Client {
		role = RoleClient
	}
	return Status{
		ID: s.ID, Name: s.Name, Cell: s.Cell, CellID: s.CellID, Role: role, Voter: s.Voter, IsLeader: s.IsLeader, Leader: s.Leader,
		Term: s.Term, Applied: s.Applied, Committed: s.Committed, Revision: s.Revision,
		Sessions: s.Counts.Sessions, Locks: s.Counts.Locks, Keys: s.Counts.Keys, Waiting: s.Counts.Waiting,
		Evidence: s.Evidence,
	}
}

// Member is a server of the cell, as this node sees it.
type Member struct {
	ID, Name, Addr string
	Role           Role // RoleServer: clients are not members, and nobody counts them
	Voter, Leader  bool
	Alive          bool          // the servers' gossip says so
	LastContact    time.Duration // since this node last heard of it; 0 for itself, negative where it does not hear of it
}

// Members lists the servers of the cell, ordered by id. It asks nobody.
func (n *Node) Members() []Member {
	var out []Member
	for _, m := range n.srv.Members() {
		out = append(out, Member{
			ID: m.ID, Name: m.Name, Addr: m.Addr, Role: RoleServer, Voter: m.Voter, Leader: m.Leader, Alive: m.Alive,
			LastContact: m.LastContact,
		})
	}
	return out
}

// TransferLeadership hands leadership of the cell to a voter, named by its id or by a name that only one has; "" lets the
// cell choose. Errors: ErrInvalid (no such voter, or several, or no other), why the leader could not hand over (the voter
// does not answer, or does not catch up within two election timeouts), ctx's error, ErrNoLeader (with ctx's), ErrClosed.
func (n *Node) TransferLeadership(ctx context.Context, to string) error {
	return wrap(n.srv.Transfer(ctx, to), "transfer leadership to %q", to)
}

func (c Config) withDefaults() Config {
	if c.Cell == "" {
		c.Cell = DefaultCell
	}
	if c.Listen == "" && c.Role == RoleServer {
		c.Listen = DefaultListen
	}
	if c.ElectionTimeout == 0 {
		c.ElectionTimeout = DefaultElectionTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(atLeast{slog.Default().Handler(), slog.LevelWarn})
	}
	if c.Transport == nil {
		c.Transport = transport.TCP()
	}
	c.Join = append([]string(nil), c.Join...)
	c.Limits = Limits(server.Limits(c.Limits).WithDefaults())
	return c
}

// validate names every bad field at once.
func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if len(c.Name) > 128 || strings.ContainsFunc(c.Name, unprintable) {
		bad("Name = %q: must be at most 128 bytes of printable text", c.Name)
	}
	if len(c.Cell) > 128 || strings.ContainsFunc(c.Cell, unprintable) {
		bad("Cell = %q: must be at most 128 bytes of printable text", c.Cell)
	}
	switch c.Role {
	case RoleServer:
		c.validateServer(bad)
	case RoleClient:
		c.validateClient(bad)
	default:
		bad("Role = %v: must be RoleServer or RoleClient", c.Role)
	}
	for i, a := range c.Join {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			bad("Join[%d] = %q: must be host:port, both given", i, a)
		}
	}
	if c.ElectionTimeout < 50*time.Millisecond || c.ElectionTimeout > time.Minute {
		bad("ElectionTimeout = %v: must be 50ms … 1m", c.ElectionTimeout)
	}
	if err := server.Limits(c.Limits).Validate(caller.LeastTTL(c.ElectionTimeout)); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// validateServer names every field that is bad for a server.
func (c Config) validateServer(bad func(format string, args ...any)) {
	switch {
	case c.Dir == "" && !c.InMemory:
		bad("Dir is empty: a server needs one, or InMemory")
	case c.Dir != "" && c.InMemory:
		bad("Dir = %q with InMemory: choose one", c.Dir)
	}
	if c.LogStore != "" && c.LogStore != LogSegments && c.LogStore != LogBolt {
		bad("LogStore = %q: must be %q or %q", c.LogStore, LogSegments, LogBolt)
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		bad("Listen = %q: must be host:port", c.Listen)
	}
	if c.Advertise != "" {
		if host, port, err := net.SplitHostPort(c.Advertise); err != nil || host == "" || port == "" || port == "0" {
			bad("Advertise = %q: must be host:port, both given", c.Advertise)
		}
	}
	if c.Expect < 0 || c.Expect > 32 {
		bad("Expect = %d: must be 0 … 32", c.Expect)
	}
	if c.Expect == 1 && len(c.Join) > 0 {
		bad("Expect = 1 forms a cell alone: Join = %q must be empty", c.Join)
	}
	if c.Expect != 1 && len(c.Join) == 0 {
		bad("Join is empty and Expect = %d: there is nobody to find; name servers, or form alone with Expect 1", c.Expect)
	}
}

// validateClient names every field that is bad for a client.
func (c Config) validateClient(bad func(format string, args ...any)) {
	if c.Dir != "" {
		bad("Dir = %q: a client keeps nothing", c.Dir)
	}
	if c.InMemory {
		bad("InMemory = true: a client keeps nothing")
	}
	if c.Listen != "" {
		bad("Listen = %q: a client does not listen", c.Listen)
	}
	if c.Advertise != "" {
		bad("Advertise = %q: nobody dials a client", c.Advertise)
	}
	if c.Expect != 0 {
		bad("Expect = %d: a client forms no cell", c.Expect)
	}
	if len(c.Join) == 0 {
		bad("Join is empty: a client has to be told of servers")
	}
}

func unprintable(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }

// atLeast drops records below a level.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}
func (h atLeast) WithAttrs(a []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(a), h.level}
}
func (h atLeast) WithGroup(g string) slog.Handler { return atLeast{h.Handler.WithGroup(g), h.level} }
