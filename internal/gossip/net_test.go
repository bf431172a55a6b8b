package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// fakeNet joins fakePorts. Everything takes a millisecond, so that virtual time passes.
type fakeNet struct {
	mu    sync.Mutex
	ports map[string]*fakePort
	cut   map[string]bool // addresses that nothing reaches and nothing leaves
}

func newFakeNet() *fakeNet {
	return &fakeNet{ports: make(map[string]*fakePort), cut: make(map[string]bool)}
}

// setCut isolates addrs from all others, or takes that back.
func (n *fakeNet) setCut(cut bool, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range addrs {
		n.cut[a] = cut
	}
}

func (n *fakeNet) find(from, to string) *fakePort {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut[from] != n.cut[to] {
		return nil
	}
	return n.ports[to]
}

func (n *fakeNet) listen(t *testing.T, addr, id string) *fakePort {
	t.Helper()
	p := &fakePort{net: n, addr: addr, id: id, done: make(chan struct{}), streams: make(chan net.Conn), packets: make(chan packet, 64)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports[addr] != nil {
		t.Fatalf("%s is in use", addr)
	}
	n.ports[addr] = p
	return p
}

type packet struct {
	b    []byte
	from string
}

type fakePort struct {
	net      *fakeNet
	addr, id string
	once     sync.Once
	done     chan struct{}
	streams  chan net.Conn
	packets  chan packet
}

func (p *fakePort) Dial(ctx context.Context, addr, expect string) (net.Conn, error) {
	time.Sleep(time.Millisecond)
	to := p.net.find(p.addr, addr)
	if to == nil {
		<-ctx.Done() // as if every packet were swallowed
		return nil, ctx.Err()
	}
	if expect != "" && to.id != expect {
		return nil, fmt.Errorf("%s is %s, not %s", addr, to.id, expect)
	}
	here, there := net.Pipe()
	select {
	case to.streams <- there:
		return here, nil
	case <-to.done:
		return nil, errors.New("refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *fakePort) Accept() (net.Conn, error) {
	select {
	case c := <-p.streams:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *fakePort) WritePacket(b []byte, addr string) error {
	to := p.net.find(p.addr, addr)
	if to == nil {
		return nil
	}
	sent := packet{b: append([]byte(nil), b...), from: p.addr}
	time.AfterFunc(time.Millisecond, func() {
		select {
		case to.packets <- sent:
		default:
		}
	})
	return nil
}

func (p *fakePort) ReadPacket(b []byte) (int, string, error) {
	select {
	case got := <-p.packets:
		return copy(b, got.b), got.from, nil
	case <-p.done:
		return 0, "", net.ErrClosed
	}
}

func (p *fakePort) Close() error {
	p.once.Do(func() {
		close(p.done)
		p.net.mu.Lock()
		defer p.net.mu.Unlock()
		delete(p.net.ports, p.addr)
	})
	return nil
}
