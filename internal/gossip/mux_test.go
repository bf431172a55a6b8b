package gossip

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/transport"
)

// muxPort is a whole Mux for gossip alone.
type muxPort struct{ *transport.Mux }

func (p muxPort) Dial(ctx context.Context, addr, expect string) (net.Conn, error) {
	c, err := p.Mux.Dial(ctx, transport.KindGossip, addr, expect)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (p muxPort) Accept() (net.Conn, error) {
	c, err := p.Mux.Accept(transport.KindGossip)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// onNetwork starts a Gossip on a real Mux.
func onNetwork(t *testing.T, network transport.Network, id, listen string, join ...string) *Gossip {
	t.Helper()
	ep, err := network.Listen(context.Background(), listen)
	if err != nil {
		t.Fatal(err)
	}
	mux, err := transport.NewMux(ep, transport.MuxConfig{Cell: "c", Node: id})
	if err != nil {
		t.Fatal(err)
	}
	g, err := Start(Config{ID: id, Meta: Meta{Cell: "c", Name: id, Addr: ep.Addr()}, Join: join, Port: muxPort{mux}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func TestOverMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory()
		seeds := []string{"h1:1", "h2:1", "h3:1"}
		a := onNetwork(t, network, "a", "h1:1", seeds...)
		b := onNetwork(t, network, "b", "h2:1", seeds...)
		c := onNetwork(t, network, "c", "h3:1", seeds...)
		time.Sleep(3 * time.Second)
		wantAlive(t, "a@h1:1 b@h2:1 c@h3:1", a, b, c)
		network.Partition([]string{"h1", "h2"}, []string{"h3"})
		time.Sleep(5 * time.Minute)
		wantAlive(t, "a@h1:1 b@h2:1", a, b)
		wantAlive(t, "c@h3:1", c)
		network.HealAll()
		time.Sleep(40 * time.Second)
		wantAlive(t, "a@h1:1 b@h2:1 c@h3:1", a, b, c)
		_ = c.Close()
		time.Sleep(100 * time.Millisecond)
		c = onNetwork(t, network, "c", "h4:1", seeds...)
		time.Sleep(3 * time.Second)
		wantAlive(t, "a@h1:1 b@h2:1 c@h4:1", a, b, c)
	})
}

func TestSeedOfAnotherCellIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory()
		onNetwork(t, network, "a", "h1:1")
		ep, err := network.Listen(context.Background(), "h2:1")
		if err != nil {
			t.Fatal(err)
		}
		mux, err := transport.NewMux(ep, transport.MuxConfig{Cell: "other", Node: "b"})
		if err != nil {
			t.Fatal(err)
		}
		reasons := make(chan error, 100)
		b, err := Start(Config{
			ID: "b", Meta: Meta{Cell: "other", Addr: "h2:1"}, Join: []string{"h1:1"}, Port: muxPort{mux},
			OnDialError: func(_ string, err error) { reasons <- err },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if err := <-reasons; !errors.Is(err, transport.ErrCell) {
			t.Error(err)
		}
	})
}

func TestOverTCP(t *testing.T) {
	a := onNetwork(t, transport.TCP(), "a", "127.0.0.1:0")
	b := onNetwork(t, transport.TCP(), "b", "127.0.0.1:0", a.meta.Load().Addr)
	for {
		changedA, changedB := a.Changed(), b.Changed()
		if a.Alive("b") && b.Alive("a") {
			return
		}
		select {
		case <-changedA:
		case <-changedB:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}
