package transport

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultHandshakeTimeout = 5 * time.Second
	maxHandshakes           = 256             // incoming and unfinished
	acceptQueueSize         = 128             // streams of a kind that Accept has not taken yet
	lingerSize              = 64 << 10        // bytes read from a refused dialler, so that it gets to read why
	maxAcceptPause          = 1 * time.Second // between attempts, while the system has no file handles left
)

// MuxConfig says who a node is. Only Cell and Node are required.
type MuxConfig struct {
	Cell   string   // the cell's name, 1 to 255 bytes of UTF-8
	Group  uint32   // raft group
	Node   string   // the node's id, 1 to 255 bytes of UTF-8
	Boot   uint64   // random for each start of the process
	CellID [16]byte // see SetCellID
	// LearnCellID makes a node that knows no id take that of the first formed node that it dials. It is for those
	// that keep nothing and are told only where the cell's servers are. Streams to nodes that were not formed are
	// closed then: which cell they become part of is not known.
	LearnCellID bool

	HandshakeTimeout time.Duration // for one handshake, at either end; 0: 5 s
	// Wrap puts a layer around each stream before its first byte, for encryption; nil: none. The stream has a
	// deadline while Wrap runs and during what follows up to the end of the handshake. If it fails, the Mux closes
	// the stream.
	Wrap   func(conn net.Conn, server bool) (net.Conn, error)
	Logger *slog.Logger // nil: quiet
}

// Mux lets several kinds of traffic share an Endpoint, and lets no stranger in: a stream is handed over only after
// both ends have said who they are and found that they belong together. See Hello. Packets carry a mark of the cell,
// which keeps mistakes out, not attackers.
//
// Its methods may be called concurrently.
type Mux struct {
	ep      Endpoint
	config  MuxConfig
	mark    packetMark
	queues  [kindEnd]chan *Conn
	done    chan struct{} // closed at its end
	workers sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	cellID     [16]byte
	conns      map[*Conn]struct{}
	unfinished *list.List // of net.Conn: incoming handshakes, oldest first

	refused, evicted, foreign atomic.Uint64
}

// MuxStats counts what a Mux turned away since its start.
type MuxStats struct {
	Refused        uint64 // streams whose handshake failed, at the accepting end
	Evicted        uint64 // of these, those that were the oldest of too many unfinished ones
	ForeignPackets uint64 // packets that bear no mark of the cell
}

// NewMux takes over ep, closes it in the end, and begins to accept. It fails only if config is not valid; then ep
// is left alone.
func NewMux(ep Endpoint, config MuxConfig) (*Mux, error) {
	if config.HandshakeTimeout <= 0 {
		config.HandshakeTimeout = defaultHandshakeTimeout
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Mux{
		ep:         ep,
		config:     config,
		mark:       newPacketMark(config.Cell),
		done:       make(chan struct{}),
		cellID:     config.CellID,
		conns:      make(map[*Conn]struct{}),
		unfinished: list.New(),
	}
	if err := m.hello("").check(); err != nil {
		return nil, err
	}
	for kind := KindGossip; kind < kindEnd; kind++ {
		m.queues[kind] = make(chan *Conn, acceptQueueSize)
	}
	m.workers.Go(m.acceptAll)
	return m, nil
}

// Addr is the endpoint's address.
func (m *Mux) Addr() string { return m.ep.Addr() }

// Now is the endpoint's lease clock.
func (m *Mux) Now() time.Duration { return m.ep.Now() }

// CellID is the id of the node's cell; zero: not formed, or not known yet.
func (m *Mux) CellID() [16]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cellID
}

// SetCellID says which cell the node belongs to from now on. Streams whose peer belongs to another are closed, and
// none begins afterwards; raft streams need the same id at both ends.
func (m *Mux) SetCellID(id [16]byte) {
	m.mu.Lock()
	m.cellID = id
	strangers := m.connsWhere(func(c *Conn) bool { return admitCellID(c.kind, id, c.peer.CellID) != nil })
	m.mu.Unlock()
	for _, c := range strangers {
		c.Close()
	}
}

// connsWhere selects streams. m.mu is held.
func (m *Mux) connsWhere(want func(*Conn) bool) (found []*Conn) {
	for c := range m.conns {
		if want(c) {
			found = append(found, c)
		}
	}
	return found
}

// Dial opens a stream to the node at addr, which must be expect unless that is "". ctx bounds the attempt only. The
// error wraps ErrCell and so on when the other end is the wrong one, at whichever end that was found.
func (m *Mux) Dial(ctx context.Context, kind Kind, addr, expect string) (*Conn, error) {
	if kind == 0 || kind >= kindEnd {
		return nil, fmt.Errorf("dial %s: %w: %v", addr, ErrKind, kind)
	}
	own := m.hello(expect)
	err := own.check()
	if err == nil && kind == KindRaft {
		err = admitCellID(kind, own.CellID, own.CellID)
	}
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	raw, err := m.ep.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c, err := m.introduce(ctx, raw, kind, own)
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("dial %s for %v: %w", addr, kind, err)
	}
	return c, nil
}

// introduce is the dialler's side of a handshake. The caller closes raw if it fails.
func (m *Mux) introduce(ctx context.Context, raw net.Conn, kind Kind, own Hello) (*Conn, error) {
	raw.SetDeadline(time.Now().Add(m.config.HandshakeTimeout))
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	conn, peer, err := m.exchange(raw, kind, own)
	if !stop() {
		return nil, ctx.Err() // its deadline may be set at any time, even now
	}
	if err != nil {
		return nil, err
	}
	if err := admit(kind, own, peer); err != nil {
		return nil, err
	}
	raw.SetDeadline(time.Time{})
	c := &Conn{Conn: conn, mux: m, kind: kind, peer: peer}
	if m.config.LearnCellID {
		return c, m.learn(c, own.CellID)
	}
	return c, m.track(c)
}

func (m *Mux) exchange(raw net.Conn, kind Kind, own Hello) (net.Conn, Hello, error) {
	conn, err := m.wrap(raw, false)
	if err != nil {
		return nil, Hello{}, err
	}
	if _, err := conn.Write(appendHello([]byte{byte(kind)}, own)); err != nil {
		return nil, Hello{}, fmt.Errorf("handshake: %w", err)
	}
	peer, err := readHello(conn)
	return conn, peer, err
}

// Accept waits for the next stream of a kind. After the end of the Mux it returns net.ErrClosed.
func (m *Mux) Accept(kind Kind) (*Conn, error) {
	if kind == 0 || kind >= kindEnd {
		return nil, fmt.Errorf("accept: %w: %v", ErrKind, kind)
	}
	select {
	case <-m.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-m.queues[kind]:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

// Stats returns the counts so far.
func (m *Mux) Stats() MuxStats {
	return MuxStats{Refused: m.refused.Load(), Evicted: m.evicted.Load(), ForeignPackets: m.foreign.Load()}
}

// Close ends the endpoint and all its streams, and waits until nothing of the Mux runs any more.
func (m *Mux) Close() error {
	err := m.end()
	m.workers.Wait()
	return err
}

// end is Close without the wait; it also runs when the endpoint has ended by itself.
func (m *Mux) end() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	close(m.done)
	return m.ep.Close()
}

func (m *Mux) acceptAll() {
	defer m.end()
	for pause := time.Duration(0); ; {
		raw, err := m.ep.Accept()
		switch {
		case err == nil:
			pause = 0
			m.welcome(raw)
		case errors.Is(err, net.ErrClosed):
			return
		default: // such as too many open files
			pause = min(max(2*pause, 5*time.Millisecond), maxAcceptPause)
			m.config.Logger.Warn("cannot accept streams", "addr", m.Addr(), "error", err)
			select {
			case <-time.After(pause):
			case <-m.done:
				return
			}
		}
	}
}

// welcome runs the handshake of an incoming stream. Of too many at a time the oldest gives way: an honest one takes
// a round trip, and who stalls on purpose is older than that.
func (m *Mux) welcome(raw net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		raw.Close()
		return
	}
	if m.unfinished.Len() >= maxHandshakes {
		oldest := m.unfinished.Front()
		m.unfinished.Remove(oldest)
		oldest.Value.(net.Conn).Close()
		m.evicted.Add(1)
	}
	place := m.unfinished.PushBack(raw)
	m.workers.Go(func() {
		err := m.handshake(raw)
		m.mu.Lock()
		m.unfinished.Remove(place)
		m.mu.Unlock()
		if err != nil {
			raw.Close()
			m.refused.Add(1)
			m.config.Logger.Info("refused a stream", "from", raw.RemoteAddr(), "error", err)
		}
	})
}

// handshake is the accepting side of a handshake, up to the hand-over. The caller closes raw if it fails.
func (m *Mux) handshake(raw net.Conn) error {
	raw.SetDeadline(time.Now().Add(m.config.HandshakeTimeout))
	conn, err := m.wrap(raw, true)
	if err != nil {
		return err
	}
	kind, peer, err := readIntroduction(conn)
	own := m.hello("")
	if err == nil {
		err = admit(kind, own, peer)
	}
	if err == nil && len(m.queues[kind]) == cap(m.queues[kind]) {
		err = fmt.Errorf("%w: %d %v streams", ErrBusy, acceptQueueSize, kind)
	}
	if err != nil {
		refuse(conn, err)
		return err
	}
	if _, err := conn.Write(appendHello(nil, own)); err != nil {
		return err
	}
	raw.SetDeadline(time.Time{})
	c := &Conn{Conn: conn, mux: m, kind: kind, peer: peer}
	if err := m.track(c); err != nil {
		return err
	}
	select {
	case m.queues[kind] <- c:
		return nil
	default:
		c.Close()
		return ErrBusy
	}
}

func readIntroduction(r io.Reader) (Kind, Hello, error) {
	var first [1]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return 0, Hello{}, fmt.Errorf("handshake: %w", err)
	}
	peer, err := readHello(r)
	kind := Kind(first[0])
	if err == nil && (kind == 0 || kind >= kindEnd) {
		err = fmt.Errorf("%w: %v", ErrKind, kind)
	}
	return kind, peer, err
}

// refuse tells the dialler why, unless it went away or stalled. It reads on for a while: closing a connection with
// unread bytes would throw the answer away too.
func refuse(conn net.Conn, reason error) {
	var netErr net.Error
	if errors.Is(reason, io.EOF) || errors.Is(reason, io.ErrUnexpectedEOF) || errors.As(reason, &netErr) {
		return
	}
	if _, err := conn.Write(appendRefusal(nil, reason)); err == nil {
		io.CopyN(io.Discard, conn, lingerSize)
	}
}

func (m *Mux) wrap(raw net.Conn, server bool) (net.Conn, error) {
	if m.config.Wrap == nil {
		return raw, nil
	}
	return m.config.Wrap(raw, server)
}

func (m *Mux) hello(expect string) Hello {
	return Hello{
		Version: Version,
		Cell:    m.config.Cell,
		CellID:  m.CellID(),
		Group:   m.config.Group,
		Node:    m.config.Node,
		Boot:    m.config.Boot,
		Expect:  expect,
	}
}

// learn is track for a stream that was dialled, in which this node said that its cell's id is told: if it knows none,
// it takes the peer's. A peer that has none either, and was told none, may become part of any cell: no stream to such
// a one outlives the moment at which the id is known.
func (m *Mux) learn(c *Conn, told [16]byte) error {
	var none [16]byte
	var unformed []*Conn
	m.mu.Lock()
	err := m.trackLocked(c)
	switch known := m.cellID != none; {
	case err != nil:
	case !known && c.peer.CellID != none:
		m.cellID = c.peer.CellID
		unformed = m.connsWhere(func(c *Conn) bool { return c.peer.CellID == none })
	case known && told == none && c.peer.CellID == none:
		delete(m.conns, c)
		err = fmt.Errorf("%w: the peer's cell is not formed yet", ErrCell)
	}
	m.mu.Unlock()
	for _, c := range unformed {
		c.Close()
	}
	return err
}

// track makes c subject to SetCellID, which may have been called since the handshake.
func (m *Mux) track(c *Conn) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trackLocked(c)
}

func (m *Mux) trackLocked(c *Conn) error {
	if m.closed {
		return net.ErrClosed
	}
	if err := admitCellID(c.kind, m.cellID, c.peer.CellID); err != nil {
		return err
	}
	m.conns[c] = struct{}{}
	return nil
}

// Conn is a stream whose ends know each other.
type Conn struct {
	net.Conn
	mux  *Mux
	kind Kind
	peer Hello
}

// Peer is what the other end said about itself.
func (c *Conn) Peer() Hello { return c.peer }

// Kind is the kind it was dialled with.
func (c *Conn) Kind() Kind { return c.kind }

// Close ends the stream.
func (c *Conn) Close() error {
	c.mux.mu.Lock()
	delete(c.mux.conns, c)
	c.mux.mu.Unlock()
	return c.Conn.Close()
}
