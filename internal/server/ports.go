package server

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"sync"

	"github.com/coordcell/coord/transport"
)

// ports are the parts of the one port: each kind of traffic has its own, which can be closed without the others.
type ports struct {
	mux   *transport.Mux
	pumps sync.WaitGroup
}

func openPorts(mux *transport.Mux) *ports { return &ports{mux: mux} }

// wait waits for the goroutines of all parts, after the mux has been closed.
func (p *ports) wait() { p.pumps.Wait() }

// streams is what has been accepted of one kind. The mux waits for a stream of a kind until it is closed itself; here
// closing the part is enough.
type streams struct {
	ports    *ports
	kind     transport.Kind
	accepted chan *transport.Conn
	closed   chan struct{}
	once     sync.Once
}

func (p *ports) streams(kind transport.Kind) *streams {
	s := &streams{ports: p, kind: kind, accepted: make(chan *transport.Conn), closed: make(chan struct{})}
	p.pumps.Go(s.pump)
	return s
}

func (s *streams) pump() {
	for {
		conn, err := s.ports.mux.Accept(s.kind)
		if err != nil {
			return
		}
		select {
		case s.accepted <- conn:
		case <-s.closed:
			conn.Close()
		}
	}
}

func (s *streams) accept() (*transport.Conn, error) {
	select {
	case conn := <-s.accepted:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close ends this part of the port.
func (s *streams) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// raftPort is the part for raft, where nodes are known by their ids.
type raftPort struct {
	*streams
	lookup    func(id string) (addr string, ok bool)
	processes *processes
}

func (p *ports) raft(lookup func(string) (string, bool), processes *processes) raftPort {
	return raftPort{p.streams(transport.KindRaft), lookup, processes}
}

func (p raftPort) Accept() (net.Conn, error) {
	conn, err := p.accept()
	if err != nil {
		return nil, err
	}
	return p.processes.follow(conn), nil
}

func (p raftPort) Dial(ctx context.Context, id string) (net.Conn, error) {
	addr, ok := p.lookup(id)
	if !ok {
		return nil, fmt.Errorf("no address is known of server %s", id)
	}
	conn, err := p.ports.mux.Dial(ctx, transport.KindRaft, addr, id)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// gossipPort is the part for gossip: streams and packets.
type gossipPort struct {
	*streams
	packets chan packet
}

type packet struct {
	data []byte
	from string
}

// packetsQueued bounds the packets that gossip has not taken yet. Packets may be lost.
const packetsQueued = 64

func (p *ports) gossip() *gossipPort {
	g := &gossipPort{streams: p.streams(transport.KindGossip), packets: make(chan packet, packetsQueued)}
	p.pumps.Go(g.pumpPackets)
	return g
}

func (g *gossipPort) pumpPackets() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := g.ports.mux.ReadPacket(buf)
		if err != nil {
			return
		}
		select {
		case g.packets <- packet{append([]byte(nil), buf[:n]...), from}:
		default:
		}
	}
}

func (g *gossipPort) Accept() (net.Conn, error) {
	conn, err := g.accept()
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func (g *gossipPort) Dial(ctx context.Context, addr, expect string) (net.Conn, error) {
	conn, err := g.ports.mux.Dial(ctx, transport.KindGossip, addr, expect)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func (g *gossipPort) WritePacket(b []byte, addr string) error {
	return g.ports.mux.WritePacket(b, addr)
}

func (g *gossipPort) ReadPacket(b []byte) (n int, from string, err error) {
	select {
	case p := <-g.packets:
		return copy(b, p.data), p.from, nil
	case <-g.closed:
		return 0, "", net.ErrClosed
	}
}

// bootID tells one start of this process from another.
func bootID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint64(b[:])
}

// advertised is the address that others dial, made of the one that is listened on: an unspecified host is replaced by
// one of this machine's.
func advertised(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return listen
	}
	return net.JoinHostPort(hostAddress(), port)
}

// hostAddress is an address of this machine that others are likely to reach; the loopback one if there is no other.
func hostAddress() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}
