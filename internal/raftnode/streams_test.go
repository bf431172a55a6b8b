package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coordcell/coord/internal/failstop"
)

// switchboard connects the ports of these tests over net.Pipe, so that raft's real network transport runs in a bubble.
type switchboard struct {
	mu    sync.Mutex
	ports map[string]*port
}

// port is one node's Network.
type port struct {
	board    *switchboard
	id       string
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
	off      bool
	conns    []net.Conn
	dialled  []net.Conn // their far ends
}

func (b *switchboard) port(id string) *port {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &port{board: b, id: id, accepted: make(chan net.Conn), closed: make(chan struct{})}
	b.ports[id] = p
	return p
}

// unplug ends every connection of a node and lets no new one through, until it is plugged in again.
func (b *switchboard) unplug(id string, off bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.ports[id]
	p.off = off
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// hangUp ends every connection that a node has dialled from the other end, as the death of all others would.
func (b *switchboard) hangUp(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, far := range b.ports[id].dialled {
		_ = far.Close()
	}
	b.ports[id].dialled = nil
}

// line is a net.Pipe that ends as TCP does.
type line struct{ net.Conn }

func (l line) Write(b []byte) (int, error) {
	n, err := l.Conn.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = syscall.EPIPE
	}
	return n, err
}

func (p *port) Dial(ctx context.Context, id string) (net.Conn, error) {
	time.Sleep(latency)
	p.board.mu.Lock()
	o := p.board.ports[id]
	off := o == nil || o.off || p.off
	p.board.mu.Unlock()
	if off {
		return nil, errors.New("unplugged")
	}
	mine, theirs := net.Pipe()
	select {
	case o.accepted <- theirs:
	case <-o.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	p.conns = append(p.conns, mine, theirs)
	o.conns = append(o.conns, mine, theirs)
	p.dialled = append(p.dialled, theirs)
	return line{mine}, nil
}

func (p *port) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *port) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// streamCell is three voters over raft's network transport.
func streamCell(t *testing.T) (*cell, *switchboard) {
	c, b := &cell{t: t}, &switchboard{ports: make(map[string]*port)}
	t.Cleanup(func() {
		for _, m := range c.nodes {
			if err := m.Shutdown(); err != nil {
				t.Error(err)
			}
		}
	})
	ids := []string{"n0", "n1", "n2"}
	for _, id := range ids {
		m := &member{machine: &recorder{}, store: newMemStore(), snaps: raft.NewInmemSnapshotStore(), sw: failstop.New(), acts: &activity{}}
		m.store.sw = m.sw
		m.cfg = Config{
			ID: id, Streams: Streams(id, b.port(id)), Logs: m.store, Stable: m.store, Snapshots: m.snaps, Machine: m.machine, Switch: m.sw,
			ElectionTimeout: election, TrailingLogs: 1,
			TermStart: func(nonce [16]byte) []byte { return append([]byte("T"), nonce[:]...) },
		}
		n, err := Open(m.cfg)
		if err != nil {
			t.Fatal(err)
		}
		m.Node = n
		c.nodes = append(c.nodes, m)
	}
	if err := c.nodes[0].Bootstrap(ids); err != nil {
		t.Fatal(err)
	}
	return c, b
}

// Everything together over raft's own wire format and pipelines: elections, evidence, a snapshot for one that was away,
// a transfer, and a Shutdown that leaves no goroutine.
func TestG12_OverStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := streamCell(t)
		l := c.leader()
		away := c.others(l)[0]
		b.unplug(away.ID(), true)
		for i := range 100 {
			l.propose(t, fmt.Sprint(i))
			if err := l.WaitEvidence(t.Context(), l.ActiveTerm(), l.Stamp(), true); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.unplug(away.ID(), false)
		eventually(t, "it has caught up by a snapshot", func() bool { return len(away.machine.list()) == 100 })
		if err := c.leader().Transfer(t.Context(), away.ID()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the target leads", func() bool { return away.ActiveTerm() != 0 })
		for range 5 {
			l := c.leader()
			b.unplug(l.ID(), true)
			c.leader(l).propose(t, "next")
			b.unplug(l.ID(), false)
		}
	})
}

// With raft's heartbeat handler in the network transport the term would change while the main loop waits for the disk.
func TestOnlyRaftsMainLoopChangesTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := streamCell(t)
		l := c.leader()
		f := c.others(l)[0]
		hang := make(chan struct{})
		f.store.set(func(s *memStore) { s.hang = hang })
		go func() { _ = l.Propose(context.Background(), []byte("x")) }()
		time.Sleep(10 * latency)
		term := f.raft.Load().CurrentTerm()
		var resp raft.AppendEntriesResponse
		req := &raft.AppendEntriesRequest{RPCHeader: l.inbound.header(), Term: term + 5}
		if err := l.network.inner.AppendEntries(raft.ServerID(f.ID()), raft.ServerAddress(f.ID()), req, &resp); err == nil {
			t.Error("a heartbeat of a later term was answered")
		}
		if now := f.raft.Load().CurrentTerm(); now != term {
			t.Errorf("the term went from %d to %d beside the main loop", term, now)
		}
		beat := &raft.AppendEntriesRequest{RPCHeader: l.inbound.header(), Term: term}
		if err := l.network.inner.AppendEntries(raft.ServerID(f.ID()), raft.ServerAddress(f.ID()), beat, &resp); err != nil || resp.Term != term || !resp.Success {
			t.Errorf("the leader's own heartbeat: %v %+v", err, resp)
		}
		f.store.set(func(s *memStore) { s.hang = nil })
		close(hang)
	})
}

// A server that has led before has streams to the others in store. They broke while nobody used them; its next election is
// not lost to that.
func TestBrokenStreamsLoseNoVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := streamCell(t)
		l := c.leader()
		f := c.others(l)[0]
		for _, to := range []*member{f, l} {
			if err := c.leader().Transfer(t.Context(), to.ID()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the target leads", func() bool { return to.ActiveTerm() != 0 })
		}
		time.Sleep(2 * election)
		term := l.ActiveTerm()
		b.unplug(c.others(l, f)[0].ID(), true) // f needs the vote of l
		b.hangUp(f.ID())
		began := time.Now()
		if err := f.inbound.stand(t.Context(), candidacy{leader: raft.ServerID(l.ID()), term: term}); err != nil {
			t.Fatal(err)
		}
		for f.ActiveTerm() == 0 && time.Since(began) < election/4 {
			time.Sleep(latency)
		}
		if got := f.ActiveTerm(); got != term+1 {
			t.Errorf("after %v its active term is %d, not %d", time.Since(began), got, term+1)
		}
	})
}
