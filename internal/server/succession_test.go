package server

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/transport"
)

// door is a Mux for a test.
func door(t *testing.T, network transport.Network, addr, node string, boot uint64) *transport.Mux {
	t.Helper()
	ep, err := network.Listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	m, err := transport.NewMux(ep, transport.MuxConfig{Cell: "c", Node: node, Boot: boot, CellID: [16]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// What the operating system says of a process, over TCP. A process that is frozen is a place to listen at which nobody
// accepts, with room for more or without.
func TestWhoAnswersAKnock(t *testing.T) {
	self := door(t, transport.TCP(), "127.0.0.1:0", "self", 1)
	lives := door(t, transport.TCP(), "127.0.0.1:0", "leader", 7)
	other := door(t, transport.TCP(), "127.0.0.1:0", "other", 8)
	listen := func() *net.TCPListener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l.(*net.TCPListener)
	}
	dead, frozen, resets := listen(), listen(), listen()
	dead.Close()
	go func() { // ends with the listener
		for {
			c, err := resets.AcceptTCP()
			if err != nil {
				return
			}
			_ = c.SetLinger(0)
			_ = c.Close()
		}
	}()
	for name, c := range map[string]struct {
		addr string
		boot uint64
		want finding
	}{
		"it lives":                   {lives.Addr(), 7, sameProcess},
		"it was started again":       {lives.Addr(), 6, anotherProcess},
		"another server":             {other.Addr(), 7, nobody},
		"nobody listens":             {dead.Addr().String(), 7, nobody},
		"frozen":                     {frozen.Addr().String(), 7, unknown},
		"accepted, and reset":        {resets.Addr().String(), 7, unknown},
		"an address that is no good": {"127.0.0.1", 7, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if got := knock(ctx, self, c.addr, "leader", c.boot); got != c.want {
				t.Errorf("%d, not %d", got, c.want)
			}
		})
	}
}

// processPair is two servers whose streams are followed at one of them.
type processPair struct {
	net    *transport.Memory
	near   *transport.Mux
	ps     *processes
	leader *transport.Mux
}

func inProcessPair(t *testing.T, test func(t *testing.T, p *processPair)) {
	synctest.Test(t, func(t *testing.T) {
		net := transport.NewMemory()
		test(t, &processPair{
			net: net, near: door(t, net, "near:1", "self", 1), ps: newProcesses(), leader: door(t, net, "leader:1", "leader", 7),
		})
	})
}

// stream is one that the leader opens, and what the other server makes of it.
func (p *processPair) stream(t *testing.T) (leaders net.Conn, followed *processStream) {
	t.Helper()
	leaders, err := p.leader.Dial(t.Context(), transport.KindRaft, "near:1", "self")
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := p.near.Accept(transport.KindRaft)
	if err != nil {
		t.Fatal(err)
	}
	return leaders, p.ps.follow(accepted)
}

// A process is gone when all its streams have been ended from its side, and not before.
func TestWhichStreamsAreLost(t *testing.T) {
	inProcessPair(t, func(t *testing.T, p *processPair) {
		gone := func(want bool) {
			t.Helper()
			if boot, got := p.ps.gone("leader"); got != want || boot != 7 {
				t.Errorf("process %d is gone: %v", boot, got)
			}
			select {
			case <-p.ps.lost:
				if !want {
					t.Error("it is said to be")
				}
			default:
				if want {
					t.Error("nobody is told")
				}
			}
		}
		read := func(c net.Conn) error {
			_, err := c.Read(make([]byte, 1))
			return err
		}
		if _, got := p.ps.gone("leader"); got {
			t.Error("one that was never there is gone")
		}
		_, silent := p.stream(t)
		if err := silent.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if read(silent) == nil {
			t.Error("there was something to read")
		}
		gone(false) // silence is no end
		silent.Close()
		gone(false) // it was ended here
		silent.Close()

		leaders, closed := p.stream(t)
		_, reset := p.stream(t)
		leaders.Close()
		if err := read(closed); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		gone(false) // another one is open
		p.net.Reset("near:1", "leader:1")
		time.Sleep(time.Second)
		if _, err := reset.Write([]byte("x")); err == nil {
			t.Error("a broken stream can be written to")
		}
		gone(true)
		closed.Close()
		reset.Close()
		_, again := p.stream(t)
		if _, got := p.ps.gone("leader"); got {
			t.Error("it has come back, and is gone")
		}
		again.Close()
		gone(false)
	})
}

// A refusal is believed only of a process that has lost its streams; another process is proof by itself.
func TestOnlyWhoHasLostItsStreamsIsDead(t *testing.T) {
	inProcessPair(t, func(t *testing.T, p *processPair) {
		_, c := p.stream(t)
		died := func(boot uint64, found finding) bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return p.ps.hasDied(ctx, "leader", boot, 50*time.Millisecond, func() finding { return found })
		}
		expect := func(when string, boot uint64, dead ...finding) {
			t.Helper()
			for found := unknown; found <= nobody; found++ {
				want := false
				for _, f := range dead {
					want = want || f == found
				}
				if got := died(boot, found); got != want {
					t.Errorf("%s, and knocking finds %d: dead %v", when, found, got)
				}
			}
		}
		expect("its streams are open", 7, anotherProcess)
		p.net.Reset("near:1", "leader:1")
		_, _ = c.Read(make([]byte, 1))
		expect("its streams are lost", 7, anotherProcess, nobody)
		expect("those of another process are lost", 6, anotherProcess)
	})
}

// What is remembered of servers that have come and gone is bounded.
func TestG12_ProcessesAreForgotten(t *testing.T) {
	inProcessPair(t, func(t *testing.T, p *processPair) {
		_, open := p.stream(t)
		accepted := make(chan *transport.Conn)
		go func() {
			for {
				c, err := p.near.Accept(transport.KindRaft)
				if err != nil {
					return
				}
				accepted <- c
			}
		}()
		for i := range 3 * processesKept {
			m := door(t, p.net, "other:0", string(rune('a'+i)), 1)
			if _, err := m.Dial(t.Context(), transport.KindRaft, "near:1", "self"); err != nil {
				t.Fatal(err)
			}
			p.ps.follow(<-accepted).Close()
		}
		if n := len(p.ps.last); n > processesKept {
			t.Errorf("%d are remembered", n)
		}
		if boot, _ := p.ps.gone("leader"); boot != 7 {
			t.Error("one whose stream is open was forgotten")
		}
		open.Close()
	})
}
