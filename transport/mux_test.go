package transport

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
)

func TestMuxHandsOverStreams(t *testing.T) {
	t.Run("TCP", func(t *testing.T) { testMuxHandsOverStreams(t, TCP()) })
	t.Run("Memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testMuxHandsOverStreams(t, NewMemory()) })
	})
}

func testMuxHandsOverStreams(t *testing.T, network Network) {
	a := openMux(t, network, MuxConfig{Cell: "cell", Node: "a", Boot: 1, CellID: [16]byte{1}})
	b := openMux(t, network, MuxConfig{Cell: "cell", Node: "b", Boot: 2, CellID: [16]byte{1}})
	for kind := KindGossip; kind < kindEnd; kind++ {
		near, err := a.Dial(context.Background(), kind, b.Addr(), "b")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := near.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		far, err := b.Accept(kind)
		if err != nil {
			t.Fatal(err)
		}
		if near.Peer().Node != "b" || near.Peer().Boot != 2 || far.Peer().Node != "a" || far.Peer().Boot != 1 {
			t.Errorf("the ends think that they talk with %+v and %+v", near.Peer(), far.Peer())
		}
		near.Close()
		got, err := io.ReadAll(far)
		if string(got) != "hello" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
	}
	if _, err := a.Dial(context.Background(), KindCalls, b.Addr(), "c"); !errors.Is(err, ErrIdentity) {
		t.Errorf("dialling b for c: %v", err)
	}
}

// openMux opens a Mux on 127.0.0.1 that lives as long as the test.
func openMux(t *testing.T, network Network, config MuxConfig) *Mux {
	t.Helper()
	ep, err := network.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMux(ep, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}
