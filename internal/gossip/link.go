package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Port is gossip's part of a node's port. Its methods may be called concurrently.
type Port interface {
	// Dial opens a stream to the node at addr, which must have the id expect unless that is empty.
	Dial(ctx context.Context, addr, expect string) (net.Conn, error)
	// Accept waits for a stream from another node. After Close it returns net.ErrClosed.
	Accept() (net.Conn, error)
	// WritePacket sends a datagram, without waiting for anything.
	WritePacket(b []byte, addr string) error
	// ReadPacket waits for a datagram and says where it came from. After Close it returns net.ErrClosed.
	ReadPacket(b []byte) (n int, from string, err error)
	// Close ends this part of the port only.
	Close() error
}

const (
	maxStreams = 128 // open at once, dialled and accepted
	pingsKept  = 64
	errorPause = 50 * time.Millisecond // after an unexpected error of the port
)

// Every server has this address as far as memberlist is concerned (192.0.2.0/24 is reserved for documentation). With
// port 0, it answers a ping to where the ping came from.
var placeholderIP = net.IPv4(192, 0, 2, 1).To4()

const placeholder = "192.0.2.1:0"

// joinTarget is what makes memberlist's Join dial addr.
func joinTarget(addr string) string { return addr + "/" + placeholder }

// address is a net.Addr for any network.
type address string

func (a address) Network() string { return "coord" }
func (a address) String() string  { return string(a) }

// link carries memberlist's packets and streams over a Port.
type link struct {
	port    Port
	route   func(id string) (addr string, ok bool) // called without memberlist's lock or with it: must not wait
	failed  func(addr string, err error)           // a dial; may be nil
	packets chan *memberlist.Packet                // unbuffered: a packet is done with when the next one is taken
	streams chan net.Conn

	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	loops  sync.WaitGroup

	mu     sync.Mutex
	conns  map[*guarded]struct{}
	pings  [pingsKept]uint32 // the numbers of the last pings sent, a ring
	sent   int               // how many went into it
	closed bool
}

var _ memberlist.NodeAwareTransport = (*link)(nil)

func newLink(port Port, route func(id string) (string, bool), failed func(string, error)) *link {
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{
		port:    port,
		route:   route,
		failed:  failed,
		packets: make(chan *memberlist.Packet),
		streams: make(chan net.Conn),
		ctx:     ctx,
		cancel:  cancel,
		conns:   make(map[*guarded]struct{}),
	}
	l.loops.Go(l.readPackets)
	l.loops.Go(l.acceptStreams)
	return l
}

func (l *link) FinalAdvertiseAddr(string, int) (net.IP, int, error) { return placeholderIP, 0, nil }
func (l *link) PacketCh() <-chan *memberlist.Packet                 { return l.packets }
func (l *link) StreamCh() <-chan net.Conn                           { return l.streams }

func (l *link) WriteTo(b []byte, addr string) (time.Time, error) {
	return l.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (l *link) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return l.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

func (l *link) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	addr, _, err := l.resolve(to)
	if err != nil {
		return time.Time{}, err
	}
	if !l.notePing(b) {
		return time.Time{}, net.ErrClosed
	}
	now := time.Now()
	return now, l.port.WritePacket(b, addr)
}

// notePing remembers the number of a ping. It returns false once the link is closed.
func (l *link) notePing(b []byte) bool {
	seq, ping := pingSeq(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	if ping {
		l.pings[l.sent%pingsKept] = seq
		l.sent++
	}
	return !l.closed
}

func (l *link) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	addr, id, err := l.resolve(to)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	conn, err := l.port.Dial(ctx, addr, id)
	if err != nil {
		if l.failed != nil && l.ctx.Err() == nil {
			l.failed(addr, err)
		}
		return nil, err
	}
	return l.adopt(conn)
}

// resolve says where to send: an address that memberlist took from a packet, the target of a join, or a node's own.
func (l *link) resolve(to memberlist.Address) (addr, id string, err error) {
	switch {
	case to.Addr != placeholder:
		return to.Addr, "", nil
	case strings.Contains(to.Name, ":"):
		return to.Name, "", nil
	}
	addr, ok := l.route(to.Name)
	if !ok {
		return "", "", fmt.Errorf("gossip: no address known for node %q", to.Name)
	}
	return addr, to.Name, nil
}

// Shutdown closes the port and every stream, and waits for the link's goroutines. memberlist calls it before it stops
// to listen to the link.
func (l *link) Shutdown() error {
	l.cancel()
	err := l.port.Close()
	l.loops.Wait()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return err
	}
	l.closed = true
	pings := append([]uint32(nil), l.pings[:min(l.sent, pingsKept)]...)
	open := make([]*guarded, 0, len(l.conns))
	for c := range l.conns {
		open = append(open, c)
	}
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
	l.answer(pings)
	return err
}

// answer ends the probes that still wait: memberlist does not, and their goroutines would outlive the node.
func (l *link) answer(pings []uint32) {
	pings = append(pings, 0) // memberlist has dealt with the last one when it takes this, which answers nothing
	for _, seq := range pings {
		l.packets <- &memberlist.Packet{Buf: ackPacket(seq), From: address(placeholder), Timestamp: time.Now()}
	}
}

func (l *link) readPackets() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := l.port.ReadPacket(buf)
		if err != nil {
			if l.ended(err) {
				return
			}
			continue
		}
		if !packetOK(buf[:n]) {
			continue
		}
		p := &memberlist.Packet{Buf: append([]byte(nil), buf[:n]...), From: address(from), Timestamp: time.Now()}
		select {
		case l.packets <- p:
		case <-l.ctx.Done():
			return
		}
	}
}

func (l *link) acceptStreams() {
	for {
		conn, err := l.port.Accept()
		if err != nil {
			if l.ended(err) {
				return
			}
			continue
		}
		c, err := l.adopt(conn)
		if err != nil {
			continue
		}
		select {
		case l.streams <- c:
		case <-l.ctx.Done():
			_ = c.Close()
			return
		}
	}
}

// ended says whether a loop is to stop after err, and lets a moment pass if not.
func (l *link) ended(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return true
	}
	select {
	case <-l.ctx.Done():
		return true
	case <-time.After(errorPause):
		return false
	}
}

// adopt counts conn among the link's open streams, or closes it.
func (l *link) adopt(conn net.Conn) (net.Conn, error) {
	c := &guarded{Conn: conn}
	c.closed = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
	}
	l.mu.Lock()
	full, closed := len(l.conns) >= maxStreams, l.closed
	if !full && !closed {
		l.conns[c] = struct{}{}
	}
	l.mu.Unlock()
	switch {
	case closed:
		_ = conn.Close()
		return nil, net.ErrClosed
	case full:
		_ = conn.Close()
		return nil, fmt.Errorf("gossip: %d streams open", maxStreams)
	}
	return c, nil
}
