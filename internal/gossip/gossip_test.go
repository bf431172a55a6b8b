package gossip

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// server starts a Gossip that ends with the test.
func server(t *testing.T, n *fakeNet, id, addr string, join ...string) *Gossip {
	t.Helper()
	return serverOf(t, n, id, Meta{Cell: "c", Name: "name-" + id, Addr: addr}, join...)
}

func serverOf(t *testing.T, n *fakeNet, id string, m Meta, join ...string) *Gossip {
	t.Helper()
	return serverWith(t, n, Config{ID: id, Meta: m, Join: join})
}

func serverWith(t *testing.T, n *fakeNet, cfg Config) *Gossip {
	t.Helper()
	cfg.Port = n.listen(t, cfg.Meta.Addr, cfg.ID)
	g, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// alive lists the living members as id@addr.
func alive(g *Gossip) string {
	var s []string
	for _, m := range g.Members() {
		if m.Alive {
			s = append(s, m.ID+"@"+m.Addr)
		}
	}
	return strings.Join(s, " ")
}

func wantAlive(t *testing.T, want string, gs ...*Gossip) {
	t.Helper()
	for _, g := range gs {
		if got := alive(g); got != want {
			t.Errorf("%s sees %q, want %q", g.cfg.ID, got, want)
		}
	}
}

func TestServersFindEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		seeds := []string{"h1:1", "h2:1"} // each one's own among them
		a := server(t, n, "a", "h1:1", seeds...)
		time.Sleep(20 * time.Second) // a has long since slowed down
		b := server(t, n, "b", "h2:1", seeds...)
		c := serverOf(t, n, "c", Meta{Cell: "c", CellID: "x", Name: "N", Addr: "h3:1", Expect: 3, HasState: true}, seeds...)
		time.Sleep(2 * time.Second)
		wantAlive(t, "a@h1:1 b@h2:1 c@h3:1", a, b, c)
		want := Member{ID: "c", Name: "N", Addr: "h3:1", CellID: "x", Expect: 3, HasState: true, Alive: true}
		if got := a.Members()[2]; got != want {
			t.Errorf("a knows %+v, want %+v", got, want)
		}
		if !a.Alive("c") || a.Alive("d") {
			t.Error("Alive is wrong")
		}
	})
}

func TestMetadataIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		a := server(t, n, "a", "h1:1")
		b := server(t, n, "b", "h2:1", "h1:1")
		time.Sleep(2 * time.Second)
		changed := b.Changed()
		if err := a.UpdateMeta(Meta{Cell: "c", CellID: "x", Name: "A", Addr: "h1:1", HasState: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		select {
		case <-changed:
		default:
			t.Error("no word of the change")
		}
		if m := b.Members()[0]; m.CellID != "x" || !m.HasState || m.Name != "A" {
			t.Errorf("b knows %+v", m)
		}
		if err := a.UpdateMeta(Meta{Cell: "other", Name: "A", Addr: "h1:1"}); err == nil {
			t.Error("the cell's name may be changed")
		}
	})
}

func TestDeadServerIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		a := server(t, n, "a", "h1:1")
		b := server(t, n, "b", "h2:1", "h1:1")
		c := server(t, n, "c", "h3:1", "h1:1")
		time.Sleep(3 * time.Second)
		_ = c.Close()
		time.Sleep(20 * time.Second)
		wantAlive(t, "a@h1:1 b@h2:1", a, b)
		if addr, ok := a.Lookup("c"); !ok || addr != "h3:1" {
			t.Errorf("last address of c: %q", addr)
		}
		if err := b.Leave(5 * time.Second); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		wantAlive(t, "a@h1:1", a)
	})
}

// memberlist forgets the dead after 30 s and its halves never meet again (its #222). How soon they do is in proportion to
// the election timeout, and never more than 30 s and what an attempt takes that is under way.
func TestLongPartitionHeals(t *testing.T) {
	for election, within := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 3*time.Second + tcpTimeout,
		time.Second:            30*time.Second + tcpTimeout,
		time.Minute:            30*time.Second + tcpTimeout,
	} {
		t.Run(election.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNet()
				start := func(id, addr string, join ...string) *Gossip {
					return serverWith(t, n, Config{
						ID: id, Meta: Meta{Cell: "c", Addr: addr}, Join: join, ElectionTimeout: election,
					})
				}
				a := start("a", "h1:1")
				b, c, d := start("b", "h2:1", "h1:1"), start("c", "h3:1", "h1:1"), start("d", "h4:1", "h1:1")
				time.Sleep(10 * time.Second)
				n.setCut(true, "h3:1", "h4:1")
				time.Sleep(10 * time.Minute)
				wantAlive(t, "a@h1:1 b@h2:1", a, b)
				wantAlive(t, "c@h3:1 d@h4:1", c, d)
				n.setCut(false, "h3:1", "h4:1")
				time.Sleep(within)
				wantAlive(t, "a@h1:1 b@h2:1 c@h3:1 d@h4:1", a, b, c, d)
			})
		})
	}
}

func TestReturnsAtOnceOnANewAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		a := server(t, n, "a", "h1:1")
		b := server(t, n, "b", "h2:1", "h1:1")
		c := server(t, n, "c", "h3:1", "h1:1")
		for round := range 3 { // its incarnation starts at one each time
			time.Sleep(10 * time.Second)
			_ = c.Close()
			time.Sleep(100 * time.Millisecond) // nobody has missed it
			c = server(t, n, "c", fmt.Sprintf("new%d:1", round), "h2:1")
			time.Sleep(2 * time.Second)
			wantAlive(t, fmt.Sprintf("a@h1:1 b@h2:1 c@new%d:1", round), a, b, c)
			if addr, _ := a.Lookup("c"); addr != fmt.Sprintf("new%d:1", round) {
				t.Errorf("a looks for c at %s", addr)
			}
		}
	})
}

func TestAllReturnOnPermutedAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		seeds := []string{"h1:1", "h2:1", "h3:1"}
		a, b, c := server(t, n, "a", "h1:1", seeds...), server(t, n, "b", "h2:1", seeds...), server(t, n, "c", "h3:1", seeds...)
		time.Sleep(5 * time.Second)
		for _, g := range []*Gossip{a, b, c} {
			_ = g.Close()
		}
		a, b, c = server(t, n, "a", "h2:1", seeds...), server(t, n, "b", "h3:1", seeds...), server(t, n, "c", "h1:1", seeds...)
		time.Sleep(3 * time.Second)
		wantAlive(t, "a@h2:1 b@h3:1 c@h1:1", a, b, c)
	})
}

func TestLearntPeersAreJoinedAndLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		a := server(t, n, "a", "h1:1")
		b := server(t, n, "b", "h2:1")
		b.Learn([]Peer{{ID: "a", Addr: "h1:1"}, {ID: "z", Addr: "gone:1"}})
		if addr, ok := b.Lookup("z"); !ok || addr != "gone:1" {
			t.Errorf("z is at %q", addr)
		}
		time.Sleep(15 * time.Second)
		wantAlive(t, "a@h1:1 b@h2:1", a, b)
		b.Learn([]Peer{{ID: "a", Addr: "stale:1"}})
		if addr, _ := b.Lookup("a"); addr != "h1:1" {
			t.Errorf("a is at %q: what it says itself comes first", addr)
		}
	})
}

func TestStrangersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		a := serverOf(t, n, "a", Meta{Cell: "c", CellID: "x", Addr: "h1:1"})
		b := serverOf(t, n, "b", Meta{Cell: "other", Addr: "h2:1"}, "h1:1")
		c := serverOf(t, n, "c", Meta{Cell: "c", CellID: "y", Addr: "h3:1"}, "h1:1")
		d := serverOf(t, n, "d", Meta{Cell: "c", Addr: "h4:1"}, "h1:1")
		time.Sleep(20 * time.Second)
		wantAlive(t, "a@h1:1 d@h4:1", a)
		wantAlive(t, "b@h2:1", b)
		wantAlive(t, "a@h1:1 c@h3:1 d@h4:1", d) // it belongs to neither cell yet
		if got := alive(c); strings.Contains(got, "a@") {
			t.Errorf("c sees %s", got)
		}
		if err := d.UpdateMeta(Meta{Cell: "c", CellID: "y", Addr: "h4:1"}); err != nil {
			t.Fatal(err)
		}
		if got := alive(d); strings.Contains(got, "a@") {
			t.Errorf("d of cell y still sees %s", got)
		}
	})
}

func TestNamesAreResolvedAnewAtEachTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		var addrs atomic.Pointer[[]string]
		addrs.Store(&[]string{"gone:1"})
		resolve := func(_ context.Context, name string) ([]string, error) {
			if name != "cell.example:1" {
				t.Errorf("asked for %s", name)
			}
			return *addrs.Load(), nil
		}
		a := server(t, n, "a", "h1:1")
		b := server(t, n, "b", "h2:1")
		c, err := Start(Config{
			ID: "c", Meta: Meta{Cell: "c", Addr: "h3:1"}, Port: n.listen(t, "h3:1", "c"),
			Join: []string{"cell.example:1"}, Resolve: resolve,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		time.Sleep(10 * time.Second)
		addrs.Store(&[]string{"h1:1", "h2:1", "h3:1"}) // all of them are meant
		time.Sleep(20 * time.Second)
		wantAlive(t, "a@h1:1 b@h2:1 c@h3:1", a, b, c)
	})
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	for name, c := range map[string]Config{
		"id":     {ID: "a:b", Meta: Meta{Addr: "h:1"}},
		"no id":  {Meta: Meta{Addr: "h:1"}},
		"name":   {ID: "a", Meta: Meta{Addr: "h:1", Name: strings.Repeat("x", MaxNameLen+1)}},
		"addr":   {ID: "a", Meta: Meta{Addr: strings.Repeat("x", MaxAddrLen+1)}},
		"cellid": {ID: "a", Meta: Meta{Addr: "h:1", CellID: strings.Repeat("x", MaxIDLen+1)}},
		"expect": {ID: "a", Meta: Meta{Addr: "h:1", Expect: -1}},
	} {
		p := newFakeNet().listen(t, "h:1", "a")
		c.Port = p
		if g, err := Start(c); err == nil {
			_ = g.Close()
			t.Errorf("%s: accepted", name)
		}
		select {
		case <-p.done:
		default:
			t.Errorf("%s: the port stays open", name)
		}
	}
}
