package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Config says who this server is and where it looks for others.
type Config struct {
	ID   string // the node id: 1 to 64 letters, digits, - or _
	Meta Meta
	Join []string // host:port, this server's own allowed
	Port Port     // Start takes it over, and closes it also when it fails

	// Resolve turns an entry of Join into addresses to dial, anew at each try. Nil: entries are addresses.
	Resolve func(ctx context.Context, hostport string) ([]string, error)

	// OnDialError hears why a stream could not be opened, such as a handshake with another cell, or a name in Join be resolved. It must not wait or
	// call the Gossip. Nil: nobody does.
	OnDialError func(addr string, err error)

	ElectionTimeout time.Duration // the scale of all times; 0: 1s
	Logger          *slog.Logger  // nil: none
}

// Member is a server as gossip knows it; the server itself is one too.
type Member struct {
	ID, Name, Addr string
	CellID         string // empty: it belongs to no cell yet
	Expect         int
	HasState       bool
	Alive          bool
}

// Peer is a server known from elsewhere: the cell's state, or a file of peers.
type Peer struct{ ID, Name, Addr string }

// Gossip is a running memberlist and an address book. Its methods may be called concurrently.
type Gossip struct {
	cfg  Config
	cell [cellHashLen]byte
	list *memberlist.Memberlist
	log  *slog.Logger

	meta    atomic.Pointer[Meta]
	encoded atomic.Pointer[[]byte] // meta, for memberlist
	dirty   chan struct{}          // meta has changed and was not announced; capacity 1

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	loops  sync.WaitGroup

	closing chan struct{} // holds a token while a Close or Leave runs; no mutex: virtual time stands still for one
	closed  bool

	mu      sync.Mutex // never held while memberlist is called: memberlist calls back under its own lock
	members map[string]*member
	learnt  map[string]Peer
	changed chan struct{} // closed at the next change
}

type member struct {
	Member
	diedAt time.Time
}

const (
	maxKnown   = 1024      // members kept, and peers learnt
	deadKept   = time.Hour // how long a dead server is remembered and looked for
	tcpTimeout = 2 * time.Second
)

// Start begins to gossip. It waits for nobody: others appear among Members as they are found.
func Start(cfg Config) (*Gossip, error) {
	g, err := start(cfg)
	if err != nil {
		_ = cfg.Port.Close()
		return nil, err
	}
	g.loops.Go(g.announce)
	g.loops.Go(g.rejoin)
	return g, nil
}

func start(cfg Config) (*Gossip, error) {
	if !validID(cfg.ID) {
		return nil, fmt.Errorf("gossip: node id %q: must be 1 to %d letters, digits, - or _", cfg.ID, MaxIDLen)
	}
	encoded, err := cfg.Meta.encode()
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	if cfg.ElectionTimeout <= 0 {
		cfg.ElectionTimeout = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Resolve == nil {
		cfg.Resolve = func(_ context.Context, addr string) ([]string, error) { return []string{addr}, nil }
	}
	g := &Gossip{
		cfg:     cfg,
		cell:    cellHash(cfg.Meta.Cell),
		log:     cfg.Logger,
		dirty:   make(chan struct{}, 1),
		members: make(map[string]*member),
		learnt:  make(map[string]Peer),
		changed: make(chan struct{}),
		closing: make(chan struct{}, 1),
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.meta.Store(&cfg.Meta)
	g.encoded.Store(&encoded)
	g.list, err = memberlist.Create(g.memberlistConfig())
	if err != nil {
		g.cancel()
		return nil, fmt.Errorf("gossip: %w", err)
	}
	return g, nil
}

// memberlistConfig is memberlist's configuration for a LAN, on the scale of the election timeout.
func (g *Gossip) memberlistConfig() *memberlist.Config {
	scale := g.cfg.ElectionTimeout
	c := memberlist.DefaultLANConfig()
	c.Name = g.cfg.ID
	c.Transport = newLink(g.cfg.Port, g.addressOf, g.cfg.OnDialError)
	c.BindAddr, c.BindPort = "", 0 // the placeholder's port; memberlist fills in BindPort for a port of 0
	c.AdvertisePort = 0
	c.TCPTimeout = tcpTimeout
	c.ProbeInterval = min(max(scale, 200*time.Millisecond), 5*time.Second)
	c.ProbeTimeout = c.ProbeInterval / 2
	c.GossipInterval = c.ProbeInterval / 5
	c.PushPullInterval = 15 * c.ProbeInterval
	c.GossipToTheDeadTime = 30 * c.ProbeInterval
	c.EnableCompression = false
	c.Delegate, c.Events, c.Alive = (*delegate)(g), (*delegate)(g), (*delegate)(g)
	c.Logger = log.New(logWriter{g.log}, "", 0)
	return c
}

// Members lists the servers seen so far, the dead ones too, by id.
func (g *Gossip) Members() []Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]Member, 0, len(g.members))
	for _, m := range g.members {
		list = append(list, m.Member)
	}
	slices.SortFunc(list, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Lookup says under which address the server id is to be reached: what it says itself while it is alive, else what was
// learnt, else what it said last.
func (g *Gossip) Lookup(id string) (addr string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[id]
	if m != nil && m.Alive {
		return m.Addr, true
	}
	if p, ok := g.learnt[id]; ok {
		return p.Addr, true
	}
	if m != nil {
		return m.Addr, true
	}
	return "", false
}

// Alive says whether the server id seems to be alive.
func (g *Gossip) Alive(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[id]
	return m != nil && m.Alive
}

// Learn takes in what is known of servers from elsewhere. It replaces what was learnt before.
func (g *Gossip) Learn(peers []Peer) {
	learnt := make(map[string]Peer, len(peers))
	for _, p := range peers[:min(len(peers), maxKnown)] {
		if p.ID != g.cfg.ID && p.Addr != "" {
			learnt[p.ID] = p
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.learnt = learnt
}

// Changed returns a channel that is closed at the next change of Members. Take it before looking at Members.
func (g *Gossip) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// UpdateMeta changes what this server says about itself; Cell must stay. It is announced in the background.
func (g *Gossip) UpdateMeta(m Meta) error {
	if m.Cell != g.cfg.Meta.Cell {
		return fmt.Errorf("gossip: cell %q: is %q for good", m.Cell, g.cfg.Meta.Cell)
	}
	encoded, err := m.encode()
	if err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	g.meta.Store(&m)
	g.encoded.Store(&encoded)
	g.forgetStrangers(m.CellID)
	select {
	case g.dirty <- struct{}{}:
	default:
	}
	return nil
}

// Leave tells the others that this server stops, for at most timeout, and closes.
func (g *Gossip) Leave(timeout time.Duration) error {
	return g.stop(func() error {
		if timeout <= 0 {
			return nil // memberlist would wait for ever
		}
		return g.list.Leave(timeout)
	})
}

// Close stops at once. The others notice by themselves. What may outlive it are timers of memberlist, for seconds, which
// touch nothing outside of it.
func (g *Gossip) Close() error { return g.stop(func() error { return nil }) }

func (g *Gossip) stop(farewell func() error) error {
	g.closing <- struct{}{}
	defer func() { <-g.closing }()
	if g.closed {
		return nil
	}
	g.closed = true
	g.cancel()
	err := farewell()
	err = errors.Join(err, g.list.Shutdown())
	g.loops.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// announce gives changed metadata to memberlist, which may not be done from its callbacks and may wait.
func (g *Gossip) announce() {
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-g.dirty:
			if err := g.list.UpdateNode(g.cfg.ElectionTimeout); err != nil {
				g.log.Debug("gossip: metadata not announced yet", "error", err)
			}
		}
	}
}

// addressOf is where memberlist reaches id. Other than Lookup it trusts the last word of the server itself.
func (g *Gossip) addressOf(id string) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[id]; m != nil {
		return m.Addr, true
	}
	p, ok := g.learnt[id]
	return p.Addr, ok
}

// forgetStrangers drops the members of other cells.
func (g *Gossip) forgetStrangers(cellID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, m := range g.members {
		if id != g.cfg.ID && cellID != "" && m.CellID != "" && m.CellID != cellID {
			delete(g.members, id)
			g.changedLocked()
		}
	}
}

// changedLocked wakes whoever waits for a change. g.mu is held.
func (g *Gossip) changedLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}

func validID(id string) bool {
	for _, r := range id {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
		default:
			return false
		}
	}
	return id != "" && len(id) <= MaxIDLen
}
