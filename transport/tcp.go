package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

const (
	tcpKeepAlive    = 15 * time.Second // idle time before a probe, and between probes
	portAttempts    = 16               // TCP ports tried until UDP is free on the same one
	udpBuffer       = 1 << 20          // bytes; the system may give less
	udpResolveLimit = 2 * time.Second
)

// TCP is the Network of real machines: a TCP listener and a UDP socket on the same port. The lease clock of its
// endpoints goes on while the machine sleeps where the system has such a clock (Linux), and is Go's monotonic clock
// elsewhere.
func TCP() Network { return tcpNetwork{} }

type tcpNetwork struct{}

func (tcpNetwork) Listen(ctx context.Context, addr string) (Endpoint, error) {
	if addr == "" {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return newTCPEndpoint("", nil, nil), nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", addr, err)
	}
	config := net.ListenConfig{KeepAliveConfig: keepAlive()}
	for attempt := 1; ; attempt++ {
		e, err := listenBoth(ctx, config, addr)
		switch {
		case err == nil:
			return e, nil
		case port == "0" && attempt < portAttempts && errors.Is(err, syscall.EADDRINUSE):
			continue // TCP's choice was taken for UDP
		default:
			return nil, fmt.Errorf("listen on %s: %w", addr, err)
		}
	}
}

func listenBoth(ctx context.Context, config net.ListenConfig, addr string) (*tcpEndpoint, error) {
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	at := listener.Addr().(*net.TCPAddr)
	packets, err := net.ListenUDP("udp", &net.UDPAddr{IP: at.IP, Port: at.Port, Zone: at.Zone})
	if err != nil {
		listener.Close()
		return nil, err
	}
	packets.SetReadBuffer(udpBuffer)  // best effort
	packets.SetWriteBuffer(udpBuffer) // best effort
	return newTCPEndpoint(at.String(), listener.(*net.TCPListener), packets), nil
}

func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: tcpKeepAlive, Interval: tcpKeepAlive}
}

type tcpEndpoint struct {
	addr     string           // "": it only dials
	listener *net.TCPListener // nil: it only dials
	packets  *net.UDPConn     // nil: it only dials
	clock    *clock
	ctx      context.Context // ends with the endpoint, and dials under way with it
	cancel   context.CancelFunc

	mu     sync.Mutex
	closed bool
	conns  map[*tcpConn]struct{}
}

func newTCPEndpoint(addr string, listener *net.TCPListener, packets *net.UDPConn) *tcpEndpoint {
	e := &tcpEndpoint{
		addr:     addr,
		listener: listener,
		packets:  packets,
		clock:    newClock(),
		conns:    make(map[*tcpConn]struct{}),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

func (e *tcpEndpoint) Addr() string { return e.addr }

func (e *tcpEndpoint) Accept() (net.Conn, error) {
	if e.listener == nil {
		<-e.ctx.Done()
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: net.ErrClosed}
	}
	conn, err := e.listener.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return e.track(conn)
}

func (e *tcpEndpoint) Dial(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	dialer := net.Dialer{KeepAliveConfig: keepAlive()}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		if e.ctx.Err() != nil {
			err = &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}
		}
		return nil, err
	}
	return e.track(conn.(*net.TCPConn))
}

// track makes the endpoint's Close close conn too. (TCP_NODELAY is Go's default.)
func (e *tcpEndpoint) track(conn *net.TCPConn) (net.Conn, error) {
	c := &tcpConn{TCPConn: conn, ep: e}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	e.conns[c] = struct{}{}
	return c, nil
}

// WritePacket looks addr up first if its host is a name.
func (e *tcpEndpoint) WritePacket(b []byte, addr string) error {
	if e.packets == nil {
		err := errOnlyDials
		if e.ctx.Err() != nil {
			err = net.ErrClosed
		}
		return &net.OpError{Op: "write", Net: "udp", Err: err}
	}
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		if to, err = e.resolve(addr); err != nil {
			return err
		}
	}
	_, err = e.packets.WriteToUDPAddrPort(b, to)
	return err
}

func (e *tcpEndpoint) resolve(addr string) (netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(e.ctx, udpResolveLimit)
	defer cancel()
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, e.family(), host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(ips[0].Unmap(), uint16(port)), nil
}

// family is what the UDP socket can reach.
func (e *tcpEndpoint) family() string {
	if e.packets.LocalAddr().(*net.UDPAddr).IP.To4() != nil {
		return "ip4"
	}
	return "ip"
}

func (e *tcpEndpoint) ReadPacket(b []byte) (n int, from string, err error) {
	if e.packets == nil {
		<-e.ctx.Done()
		return 0, "", &net.OpError{Op: "read", Net: "udp", Err: net.ErrClosed}
	}
	n, addr, err := e.packets.ReadFromUDPAddrPort(b)
	if err != nil {
		return 0, "", err
	}
	return n, netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()).String(), nil
}

func (e *tcpEndpoint) Now() time.Duration { return e.clock.now() }

func (e *tcpEndpoint) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	conns := e.conns
	e.conns = nil
	e.mu.Unlock()

	e.cancel()
	var err error
	if e.listener != nil {
		err = errors.Join(e.listener.Close(), e.packets.Close())
	}
	for c := range conns {
		c.TCPConn.Close() // an error here says that it is closed already
	}
	return err
}

// tcpConn leaves its endpoint's list when it is closed.
type tcpConn struct {
	*net.TCPConn
	ep *tcpEndpoint
}

func (c *tcpConn) Close() error {
	c.ep.mu.Lock()
	delete(c.ep.conns, c)
	c.ep.mu.Unlock()
	return c.TCPConn.Close()
}
