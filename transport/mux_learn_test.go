package transport

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// openLearner opens a Mux that only dials and is told no id.
func openLearner(t *testing.T, network Network, node string) *Mux {
	t.Helper()
	ep, err := network.Listen(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	config := inCell(node)
	config.CellID, config.LearnCellID = [16]byte{}, true
	m, err := NewMux(ep, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestMuxLearnsTheCellID(t *testing.T) {
	t.Run("TCP", func(t *testing.T) { testMuxLearnsTheCellID(t, TCP()) })
	t.Run("Memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testMuxLearnsTheCellID(t, NewMemory()) })
	})
}

func testMuxLearnsTheCellID(t *testing.T, network Network) {
	other, none := inCell("other"), inCell("none")
	other.CellID, none.CellID = [16]byte{9}, [16]byte{}
	member, stranger, unformed := openMux(t, network, inCell("member")), openMux(t, network, other), openMux(t, network, none)
	m := openLearner(t, network, "learner")

	early := dial(t, m, KindCalls, unformed)
	talk(t, early, accept(t, unformed, KindCalls))
	if m.CellID() != [16]byte{} {
		t.Errorf("%x learned from a node that knows none", m.CellID())
	}
	first := dial(t, m, KindCalls, member)
	if m.CellID() != member.CellID() {
		t.Errorf("the id is %x", m.CellID())
	}
	early.SetReadDeadline(time.Now().Add(time.Second)) // refused if it is closed
	if _, err := early.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the stream to a node of no cell lives on: %v", err)
	}
	if _, err := m.Dial(context.Background(), KindCalls, stranger.Addr(), ""); !errors.Is(err, ErrCell) {
		t.Errorf("Dial to another cell: %v", err)
	}
	dial(t, m, KindCalls, unformed)
	if m.CellID() != member.CellID() {
		t.Errorf("the id became %x", m.CellID())
	}
	talk(t, first, accept(t, member, KindCalls))
}

// Of two cells that are dialled at once only one can be this node's.
func TestMuxLearnsOneCellIDOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		other := inCell("b")
		other.CellID = [16]byte{9}
		a, b := openMux(t, network, inCell("a")), openMux(t, network, other)
		m := openLearner(t, network, "learner")
		failed := make(chan error)
		for _, to := range []*Mux{a, b} {
			go func() {
				_, err := m.Dial(context.Background(), KindCalls, to.Addr(), "")
				failed <- err
			}()
		}
		one, two := <-failed, <-failed
		if (one == nil) == (two == nil) || !errors.Is(errors.Join(one, two), ErrCell) {
			t.Errorf("%v, %v", one, two)
		}
	})
}

// The id becomes known while a handshake with a node of no cell is under way.
func TestMuxLearnsDuringAHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		none := inCell("b")
		none.CellID = [16]byte{}
		a, b := openMux(t, network, inCell("a")), openMux(t, network, none)
		m := openLearner(t, network, "learner")
		network.SetDelay(b.Addr(), "dialler-1", time.Second)
		failed := make(chan error)
		go func() {
			_, err := m.Dial(context.Background(), KindCalls, b.Addr(), "")
			failed <- err
		}()
		time.Sleep(1500 * time.Millisecond)
		dial(t, m, KindCalls, a)
		if err := <-failed; !errors.Is(err, ErrCell) {
			t.Errorf("Dial: %v, want %v", err, ErrCell)
		}
		dial(t, m, KindCalls, b)
		if len(m.conns) != 2 {
			t.Errorf("%d streams", len(m.conns))
		}
	})
}

func TestMuxLearnsNothingUnlessTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		ignorant := inCell("b")
		ignorant.CellID = [16]byte{}
		a, b := openMux(t, network, inCell("a")), openMux(t, network, ignorant)
		dial(t, b, KindCalls, a)
		if b.CellID() != [16]byte{} {
			t.Errorf("%x", b.CellID())
		}
	})
}

// Who dials a learner, if it listens, teaches it nothing.
func TestMuxLearnsOnlyFromWhomItDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		config := inCell("b")
		config.CellID, config.LearnCellID = [16]byte{}, true
		a, b := openMux(t, network, inCell("a")), openMux(t, network, config)
		dial(t, a, KindCalls, b)
		accept(t, b, KindCalls)
		if b.CellID() != [16]byte{} {
			t.Errorf("%x", b.CellID())
		}
	})
}

// A Mux that only dials waits for streams and packets until it ends.
func TestMuxOnlyDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := openLearner(t, NewMemory(), "learner")
		if addr := m.Addr(); addr != "" {
			t.Errorf("Addr() = %q", addr)
		}
		ended := make(chan error)
		go func() {
			_, err := m.Accept(KindCalls)
			ended <- err
		}()
		go func() {
			_, _, err := m.ReadPacket(make([]byte, 100))
			ended <- err
		}()
		synctest.Wait()
		if err := m.WritePacket([]byte("x"), "127.0.0.1:1"); err == nil {
			t.Error("a packet was taken")
		}
		m.Close()
		for range 2 {
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
	})
}
