package transport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Bounds of a Memory. They are generous for tests and keep a runaway one from eating the machine.
const (
	minLatency      = time.Millisecond // so that virtual time advances, whatever a retry loop does
	streamWindow    = 1 << 20          // bytes written and not yet read, per direction of a stream
	streamTimeout   = 15 * time.Minute // a link cut for longer breaks the streams across it
	backlogSize     = 128              // streams dialled and not yet accepted, per endpoint
	packetQueueSize = 1024             // packets that arrived and were not yet read, or wait to leave, per endpoint
	maxPacketSize   = 65507            // as UDP over IPv4
	synRetry        = time.Second      // how long a dial waits before it tries a full backlog again
)

// Memory is a Network inside one process, with faults: tests make it lose, delay, double and hold what is sent.
//
// It may be used in a testing/synctest bubble, if it is made in that bubble, and outside. Everything that is sent
// takes at least a millisecond, so that virtual time goes on.
//
// The methods that set faults name endpoints by the address they listen on, host:port, or by the host alone, which
// means every endpoint on it. They take effect at once, on open streams too, and may be called concurrently, before
// anybody listens at that address as well.
//
// Hosts are mere names, nothing is looked up; an empty host, localhost and the unspecified addresses mean 127.0.0.1.
//
// An endpoint that only dials has no address and yet a place for faults: a host of its own, dialler-1 for the first
// one that the network opened, dialler-2 for the second and so on, or the host that On named.
type Memory struct {
	mu        sync.Mutex // guards everything below, and the state of all endpoints and streams
	endpoints map[string]*memEndpoint
	streams   map[*memStream]struct{}
	clocks    map[string]*memClock
	links     map[link]*linkFaults
	groups    map[string]int // Partition; an address or host that is missing is in group 0
	latency   time.Duration
	random    *rand.Rand
	lastPort  int
	diallers  int           // endpoints that only dial, opened on no particular host
	changed   chan struct{} // closed and replaced whenever a fault changes; dials wait for it
}

// link is one direction between two endpoints, or hosts.
type link struct{ from, to string }

// NewMemory returns a network without faults, with a latency of one millisecond.
func NewMemory() *Memory {
	return &Memory{
		endpoints: make(map[string]*memEndpoint),
		streams:   make(map[*memStream]struct{}),
		clocks:    make(map[string]*memClock),
		links:     make(map[link]*linkFaults),
		latency:   minLatency,
		random:    rand.New(rand.NewPCG(1, 0)),
		lastPort:  20000,
		changed:   make(chan struct{}),
	}
}

// Listen opens an endpoint. An address can be listened on again once its endpoint is closed or killed.
func (m *Memory) Listen(ctx context.Context, addr string) (Endpoint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if addr == "" {
		return m.openDialler(""), nil
	}
	addr, err := canonical(addr)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if host, port, _ := net.SplitHostPort(addr); port == "0" {
		addr = m.freeAddr(host)
	}
	if m.endpoints[addr] != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, syscall.EADDRINUSE)
	}
	e := newMemEndpoint(m, addr, m.clock(addr))
	m.endpoints[addr] = e
	return e, nil
}

// On returns the same network as a process on that host sees it: what it opens with Listen(ctx, "") is on that host.
func (m *Memory) On(host string) Network { return memoryOn{m, canonicalHost(host)} }

type memoryOn struct {
	*Memory
	host string
}

func (m memoryOn) Listen(ctx context.Context, addr string) (Endpoint, error) {
	if addr != "" || ctx.Err() != nil {
		return m.Memory.Listen(ctx, addr)
	}
	return m.openDialler(m.host), nil
}

// openDialler opens an endpoint that only dials.
func (m *Memory) openDialler(host string) Endpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	if host == "" {
		m.diallers++
		host = "dialler-" + strconv.Itoa(m.diallers)
	}
	e := newMemEndpoint(m, m.freeAddr(host), m.clock(host))
	e.onlyDials = true
	m.endpoints[e.addr] = e
	return e
}

// freeAddr picks a port of host that nobody listens on.
func (m *Memory) freeAddr(host string) string {
	for {
		addr := net.JoinHostPort(host, strconv.Itoa(m.nextPort()))
		if m.endpoints[addr] == nil {
			return addr
		}
	}
}

// nextPort goes round the upper ports; the near end of a dialled stream gets one too.
func (m *Memory) nextPort() int {
	if m.lastPort++; m.lastPort > 65535 {
		m.lastPort = 20001
	}
	return m.lastPort
}

// canonical checks host:port and gives each endpoint a single spelling.
func canonical(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", &net.AddrError{Err: "port is not a number from 0 to 65535", Addr: addr}
	} else {
		port = strconv.FormatUint(n, 10)
	}
	return net.JoinHostPort(canonicalHost(host), port), nil
}

func canonicalHost(host string) string {
	switch host {
	case "", "localhost", "0.0.0.0", "::":
		return "127.0.0.1"
	}
	return host
}

// place is the one spelling of what the fault methods take: host:port or a host.
func place(name string) string {
	if addr, err := canonical(name); err == nil {
		return addr
	}
	return canonicalHost(name)
}

// hostOf returns the host of a canonical address.
func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// memAddr is the net.Addr of either end of a stream.
type memAddr string

func (memAddr) Network() string  { return "memory" }
func (a memAddr) String() string { return string(a) }
