package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// inCell is a valid config of a node.
func inCell(node string) MuxConfig {
	return MuxConfig{Cell: "cell", Group: 7, Node: node, Boot: uint64(node[0]), CellID: [16]byte{1, 2, 3}}
}

// openMux opens a Mux on 127.0.0.1 that lives as long as the test.
func openMux(t *testing.T, network Network, config MuxConfig) *Mux {
	t.Helper()
	m, err := NewMux(openEndpoint(t, network), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func openEndpoint(t *testing.T, network Network) Endpoint {
	t.Helper()
	ep, err := network.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ep.Close() })
	return ep
}

func dial(t *testing.T, from *Mux, kind Kind, to *Mux) *Conn {
	t.Helper()
	c, err := from.Dial(context.Background(), kind, to.Addr(), "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func accept(t *testing.T, m *Mux, kind Kind) *Conn {
	t.Helper()
	c, err := m.Accept(kind)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// talk checks that bytes go both ways.
func talk(t *testing.T, one, two net.Conn) {
	t.Helper()
	for _, c := range [][2]net.Conn{{one, two}, {two, one}} {
		got := make([]byte, 5)
		if _, err := c[0].Write([]byte("hello")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(c[1], got); err != nil || string(got) != "hello" {
			t.Errorf("read %q, %v", got, err)
		}
	}
}

func TestMuxHandsOverStreams(t *testing.T) {
	t.Run("TCP", func(t *testing.T) { testMuxHandsOverStreams(t, TCP()) })
	t.Run("Memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testMuxHandsOverStreams(t, NewMemory()) })
	})
}

func testMuxHandsOverStreams(t *testing.T, network Network) {
	a, b := openMux(t, network, inCell("a")), openMux(t, network, inCell("b"))
	for kind := KindGossip; kind < kindEnd; kind++ {
		near, err := a.Dial(context.Background(), kind, b.Addr(), "b")
		if err != nil {
			t.Fatal(err)
		}
		far := accept(t, b, kind)
		want := Hello{Version: 1, Cell: "cell", Group: 7, Node: "a", Boot: 'a', CellID: [16]byte{1, 2, 3}, Expect: "b"}
		if far.Peer() != want || far.Kind() != kind {
			t.Errorf("b accepted a %v stream from %+v, want %v from %+v", far.Kind(), far.Peer(), kind, want)
		}
		want.Node, want.Boot, want.Expect = "b", 'b', ""
		if near.Peer() != want || near.Kind() != kind {
			t.Errorf("a dialled a %v stream to %+v, want %v to %+v", near.Kind(), near.Peer(), kind, want)
		}
		talk(t, near, far)
		near.Close()
		if _, err := far.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("Read after the end: %v", err)
		}
		far.Close()
	}
	if len(a.conns)+len(b.conns) != 0 {
		t.Errorf("%d and %d closed streams are kept", len(a.conns), len(b.conns))
	}
}

// What a dialler writes right behind its hello belongs to whoever accepts.
func TestMuxHandsOverEveryByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		m, raw := openMux(t, network, inCell("a")), openEndpoint(t, network)
		c, err := raw.Dial(context.Background(), m.Addr())
		if err != nil {
			t.Fatal(err)
		}
		hello := Hello{Version: 1, Cell: "cell", Group: 7, Node: "b"}
		c.Write(append(appendHello([]byte{byte(KindCalls)}, hello), "at once"...))
		c.Close() // with the answer unread
		got, err := io.ReadAll(accept(t, m, KindCalls))
		if string(got) != "at once" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

func TestMuxRefuses(t *testing.T) {
	change := func(f func(*MuxConfig)) MuxConfig {
		c := inCell("b")
		f(&c)
		return c
	}
	for _, test := range []struct {
		name   string
		b      MuxConfig
		kind   Kind
		expect string
		want   error // nil: welcome
	}{
		{"same cell", inCell("b"), KindRaft, "b", nil},
		{"anybody", inCell("b"), KindCalls, "", nil},
		{"other name", change(func(c *MuxConfig) { c.Cell = "other" }), KindCalls, "", ErrCell},
		{"other id", change(func(c *MuxConfig) { c.CellID[15] = 1 }), KindCalls, "", ErrCell},
		{"other id, gossip", change(func(c *MuxConfig) { c.CellID[15] = 1 }), KindGossip, "", ErrCell},
		{"other id, raft", change(func(c *MuxConfig) { c.CellID[15] = 1 }), KindRaft, "", ErrCell},
		{"no id yet", change(func(c *MuxConfig) { c.CellID = [16]byte{} }), KindCalls, "", nil},
		{"no id yet, gossip", change(func(c *MuxConfig) { c.CellID = [16]byte{} }), KindGossip, "", nil},
		{"no id yet, raft", change(func(c *MuxConfig) { c.CellID = [16]byte{} }), KindRaft, "", ErrCell},
		{"other group", change(func(c *MuxConfig) { c.Group = 8 }), KindCalls, "", ErrGroup},
		{"other node", inCell("b"), KindCalls, "c", ErrIdentity},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := NewMemory()
				a, b := openMux(t, network, inCell("a")), openMux(t, network, test.b)
				c, err := a.Dial(context.Background(), test.kind, b.Addr(), test.expect)
				if !errors.Is(err, test.want) {
					t.Fatalf("Dial: %v, want %v", err, test.want)
				}
				if err == nil {
					talk(t, c, accept(t, b, test.kind))
					return
				}
				time.Sleep(time.Second) // b reads on until a has closed the stream
				if b.Stats().Refused != 1 || len(b.queues[test.kind]) != 0 {
					t.Errorf("b counts %d refused and has handed over %d", b.Stats().Refused, len(b.queues[test.kind]))
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		unformed := openMux(t, network, change(func(c *MuxConfig) { c.CellID = [16]byte{} }))
		a := openMux(t, network, inCell("a"))
		if _, err := unformed.Dial(context.Background(), KindRaft, a.Addr(), ""); !errors.Is(err, ErrCell) {
			t.Errorf("a raft stream from a node without a cell: %v", err)
		}
		for _, kind := range []Kind{0, kindEnd, 22, 255} {
			if _, err := a.Dial(context.Background(), kind, a.Addr(), ""); !errors.Is(err, ErrKind) {
				t.Errorf("Dial(%v): %v", kind, err)
			}
			if _, err := a.Accept(kind); !errors.Is(err, ErrKind) {
				t.Errorf("Accept(%v): %v", kind, err)
			}
		}
	})
}

// A dialler that has said more than its hello still gets to read why it is refused.
func TestMuxRefusalIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		m, raw := openMux(t, network, inCell("a")), openEndpoint(t, network)
		c, err := raw.Dial(context.Background(), m.Addr())
		if err != nil {
			t.Fatal(err)
		}
		hello := appendHello([]byte{byte(KindCalls)}, Hello{Version: 1, Cell: "other", Node: "b"})
		c.Write(append(hello, make([]byte, 10_000)...))
		answer, err := io.ReadAll(c)
		if err != nil {
			t.Errorf("the stream ended with %v", err)
		}
		if _, err := readHello(bytes.NewReader(answer)); !errors.Is(err, ErrCell) {
			t.Errorf("the answer is %v, want %v", err, ErrCell)
		}
	})
}

// The dialler checks too, whatever the other end thinks of it.
func TestMuxDiallerRefuses(t *testing.T) {
	good := Hello{Version: 1, Cell: "cell", Group: 7, Node: "b", CellID: [16]byte{1, 2, 3}}
	answer := func(change func(*Hello)) []byte {
		h := good
		change(&h)
		return appendHello(nil, h)
	}
	for _, test := range []struct {
		name   string
		answer []byte
		want   error
	}{
		{"good", answer(func(*Hello) {}), nil},
		{"other name", answer(func(h *Hello) { h.Cell = "other" }), ErrCell},
		{"other id", answer(func(h *Hello) { h.CellID[0] = 9 }), ErrCell},
		{"no id", answer(func(h *Hello) { h.CellID = [16]byte{} }), ErrCell},
		{"other group", answer(func(h *Hello) { h.Group = 1 }), ErrGroup},
		{"other node", answer(func(h *Hello) { h.Node = "c" }), ErrIdentity},
		{"wants another node", answer(func(h *Hello) { h.Expect = "x" }), ErrIdentity},
		{"newer version", answer(func(h *Hello) { h.Version = 2 }), ErrVersion},
		{"version 0", answer(func(h *Hello) { h.Version = 0 }), ErrHandshake},
		{"http", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), ErrHandshake},
		{"silence", nil, os.ErrDeadlineExceeded},
		{"cut short", answer(func(*Hello) {})[:20], os.ErrDeadlineExceeded},
		{"refusal of a newer version", appendMessage(nil, 9, codeCell, []byte("no")), ErrCell},
		{"unknown refusal", appendMessage(nil, 1, 200, []byte("no\x00")), ErrHandshake},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := NewMemory()
				a, fake := openMux(t, network, inCell("a")), openEndpoint(t, network)
				go func() {
					if c, err := fake.Accept(); err == nil {
						c.Write(test.answer)
					}
				}()
				start := time.Now()
				c, err := a.Dial(context.Background(), KindRaft, fake.Addr(), "b")
				if !errors.Is(err, test.want) || (c == nil) != (err != nil) {
					t.Errorf("Dial: %v, %v, want %v", c, err, test.want)
				}
				if passed := time.Since(start); passed > 6*time.Second {
					t.Errorf("it took %v", passed)
				}
				if n := len(a.conns); n > 1 || n == 1 && err != nil {
					t.Errorf("%d streams are kept", n)
				}
			})
		})
	}
}

func TestMuxDialEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		a, silent := openMux(t, network, inCell("a")), openEndpoint(t, network)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := a.Dial(ctx, KindCalls, silent.Addr(), "")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Dial: %v after %v, want its context's end after 1 s", err, time.Since(start))
		}

		b := openMux(t, network, inCell("b"))
		ctx, cancel = context.WithCancel(context.Background())
		c, err := a.Dial(ctx, KindCalls, b.Addr(), "")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Minute) // no deadline stays behind either
		talk(t, c, accept(t, b, KindCalls))
	})
}

func TestMuxSetCellIDEndsStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		unformed := inCell("c")
		unformed.CellID = [16]byte{}
		a, b, c := openMux(t, network, inCell("a")), openMux(t, network, inCell("b")), openMux(t, network, unformed)
		raft, calls := dial(t, b, KindRaft, a), dial(t, b, KindCalls, a)
		raftFar := accept(t, a, KindRaft)
		undecided := dial(t, c, KindCalls, a)
		undecidedFar := accept(t, a, KindCalls)
		queued := accept(t, a, KindCalls)
		if queued.Peer().Node == "c" {
			queued, undecidedFar = undecidedFar, queued
		}

		a.SetCellID([16]byte{1, 2, 3}) // no change
		talk(t, raft, raftFar)
		talk(t, calls, queued)
		a.SetCellID([16]byte{9})
		for _, stream := range []*Conn{raft, calls} {
			if _, err := stream.Read(make([]byte, 1)); err == nil {
				t.Errorf("the %v stream to another cell lives on", stream.Kind())
			}
		}
		talk(t, undecided, undecidedFar)
		if _, err := b.Dial(context.Background(), KindRaft, a.Addr(), ""); !errors.Is(err, ErrCell) {
			t.Errorf("Dial after the change: %v", err)
		}
		b.SetCellID([16]byte{9})
		if a.CellID() != b.CellID() {
			t.Error("the ids differ")
		}
		talk(t, dial(t, b, KindRaft, a), accept(t, a, KindRaft))
	})
}

// The id changes between the check and the hand-over: the answer is on its way then.
func TestMuxSetCellIDDuringAHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		network.SetLatency(time.Second)
		a, b := openMux(t, network, inCell("a")), openMux(t, network, inCell("b"))
		time.AfterFunc(3500*time.Millisecond, func() { a.SetCellID([16]byte{9}) })
		if _, err := a.Dial(context.Background(), KindRaft, b.Addr(), ""); !errors.Is(err, ErrCell) {
			t.Errorf("Dial: %v, want %v", err, ErrCell)
		}
	})
}

func TestMuxFullQueueIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		a, b := openMux(t, network, inCell("a")), openMux(t, network, inCell("b"))
		for range acceptQueueSize {
			dial(t, a, KindCalls, b)
		}
		if _, err := a.Dial(context.Background(), KindCalls, b.Addr(), ""); !errors.Is(err, ErrBusy) {
			t.Errorf("Dial: %v, want %v", err, ErrBusy)
		}
		talk(t, dial(t, a, KindRaft, b), accept(t, b, KindRaft)) // each kind has a queue of its own
		accept(t, b, KindCalls)
		dial(t, a, KindCalls, b)
	})
}

func TestMuxPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		other := inCell("c")
		other.Cell = "other"
		a, b, c := openMux(t, network, inCell("a")), openMux(t, network, inCell("b")), openMux(t, network, other)
		raw := openEndpoint(t, network)
		raw.WritePacket(nil, b.Addr())
		raw.WritePacket([]byte{0xc0}, b.Addr())
		raw.WritePacket([]byte("a stranger's packet"), b.Addr())
		c.WritePacket([]byte("from another cell"), b.Addr())
		time.Sleep(time.Second)
		for _, want := range []string{"from a", ""} {
			a.WritePacket([]byte(want), b.Addr())
			buf := make([]byte, 100)
			n, from, err := b.ReadPacket(buf)
			if string(buf[:n]) != want || from != a.Addr() || err != nil {
				t.Errorf("ReadPacket: %q from %s, %v", buf[:n], from, err)
			}
		}
		if n := b.Stats().ForeignPackets; n != 4 {
			t.Errorf("%d foreign packets were counted, want 4", n)
		}
		if _, _, err := b.ReadPacket(make([]byte, PacketOverhead-1)); err == nil {
			t.Error("ReadPacket into too small a buffer succeeded")
		}
	})
}

func TestMuxCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		a, b := openMux(t, network, inCell("a")), openMux(t, network, inCell("b"))
		open := dial(t, a, KindRaft, b)
		dial(t, a, KindCalls, b) // never accepted
		openEndpoint(t, network).Dial(context.Background(), b.Addr())
		ended := make(chan error)
		go func() { _, err := b.Accept(KindGossip); ended <- err }()
		go func() { _, _, err := b.ReadPacket(make([]byte, 100)); ended <- err }()
		go func() { _, err := accept(t, b, KindRaft).Read(make([]byte, 1)); ended <- err }()
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		for range 3 {
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Errorf("during Close: %v, want net.ErrClosed", err)
			}
		}
		if _, err := open.Read(make([]byte, 1)); err == nil {
			t.Error("a stream outlived its Mux")
		}
		if _, err := b.Accept(KindCalls); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close: %v, want net.ErrClosed", err)
		}
		if _, err := b.Dial(context.Background(), KindCalls, a.Addr(), ""); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Dial after Close: %v, want net.ErrClosed", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("the second Close: %v", err)
		}
	})
}

func TestMuxCloseWaitsForHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		config := inCell("a")
		running := true
		config.Wrap = func(net.Conn, bool) (net.Conn, error) {
			time.Sleep(time.Second)
			running = false
			return nil, errors.New("too slow")
		}
		m, raw := openMux(t, network, config), openEndpoint(t, network)
		if _, err := raw.Dial(context.Background(), m.Addr()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		m.Close()
		if running {
			t.Error("a handshake outlived the Mux")
		}
	})
}

func TestMuxEndsWithItsEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		m := openMux(t, network, inCell("a"))
		time.AfterFunc(time.Second, func() { network.Kill(m.Addr()) })
		if _, err := m.Accept(KindRaft); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v, want net.ErrClosed", err)
		}
	})
}

// flaky is an endpoint whose Accept fails now and then, as it does without free file handles.
type flaky struct {
	Endpoint
	failures int
}

func (f *flaky) Accept() (net.Conn, error) {
	if f.failures > 0 {
		f.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return f.Endpoint.Accept()
}

func TestMuxSurvivesAcceptErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		a := openMux(t, network, inCell("a"))
		b, err := NewMux(&flaky{openEndpoint(t, network), 20}, inCell("b"))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		time.Sleep(time.Minute)
		talk(t, dial(t, a, KindCalls, b), accept(t, b, KindCalls))
	})
}

func TestMuxConfigIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ep := openEndpoint(t, NewMemory())
		for _, name := range []string{"", strings.Repeat("x", 256), "\xff"} {
			for _, config := range []MuxConfig{{Cell: name, Node: "a"}, {Cell: "cell", Node: name}} {
				if _, err := NewMux(ep, config); err == nil {
					t.Errorf("NewMux(%.20q, %.20q) succeeded", config.Cell, config.Node)
				}
			}
		}
		m, err := NewMux(ep, MuxConfig{Cell: strings.Repeat("x", 255), Node: strings.Repeat("y", 255)})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := m.Dial(context.Background(), KindCalls, m.Addr(), strings.Repeat("z", 256)); err == nil {
			t.Error("Dial for a node with too long an id succeeded")
		}
		dial(t, m, KindCalls, m)
	})
}

// scrambled stands for encryption.
type scrambled struct{ net.Conn }

func (s scrambled) Write(b []byte) (int, error) { return s.Conn.Write(scramble(bytes.Clone(b))) }

func (s scrambled) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	scramble(b[:n])
	return n, err
}

func scramble(b []byte) []byte {
	for i := range b {
		b[i] ^= 0x55
	}
	return b
}

func TestMuxWrap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		servers := 0
		wrap := func(c net.Conn, server bool) (net.Conn, error) {
			if server {
				servers++
			}
			return scrambled{c}, nil
		}
		config := func(node string) MuxConfig { c := inCell(node); c.Wrap = wrap; return c }
		a, b, plain := openMux(t, network, config("a")), openMux(t, network, config("b")), openMux(t, network, inCell("c"))
		talk(t, dial(t, a, KindRaft, b), accept(t, b, KindRaft))
		if servers != 1 {
			t.Errorf("%d servers, want 1", servers)
		}
		if _, err := a.Dial(context.Background(), KindRaft, plain.Addr(), ""); err == nil {
			t.Error("a wrapped stream got through to a node that does not wrap")
		}
		broken := inCell("d")
		broken.Wrap = func(net.Conn, bool) (net.Conn, error) { return nil, fmt.Errorf("no certificate") }
		d := openMux(t, network, broken)
		if _, err := d.Dial(context.Background(), KindRaft, a.Addr(), ""); err == nil {
			t.Error("Dial succeeded though Wrap failed")
		}
		if _, err := a.Dial(context.Background(), KindRaft, d.Addr(), ""); err == nil {
			t.Error("a stream was accepted though Wrap failed")
		}
	})
}
