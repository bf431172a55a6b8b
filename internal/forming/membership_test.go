package forming

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/internal/gossip"
	"github.com/coordcell/coord/internal/raftnode"
)

// fakeCell is a leader's raft, state and gossip, in which every change takes ten milliseconds.
type fakeCell struct {
	mu      sync.Mutex
	index   uint64
	servers []raftnode.Server
	members []gossip.Peer
	seen    []gossip.Member
	down    map[string]time.Time // since when
	lagging map[string]bool
	log     []string
}

func newFakeCell(voters ...string) *fakeCell {
	c := &fakeCell{index: 1, down: make(map[string]time.Time), lagging: make(map[string]bool)}
	for _, id := range voters {
		c.servers = append(c.servers, raftnode.Server{ID: id, Voter: true})
		c.see(id, "n"+id)
	}
	return c
}

func (c *fakeCell) see(id, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, gossip.Member{ID: id, Name: name, Addr: id + ":1", Alive: true})
}

func (c *fakeCell) lag(id string, lagging bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lagging[id] = lagging
}

// die ends a server; gossip takes five seconds to notice.
func (c *fakeCell) die(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down[id] = time.Now()
}

func (c *fakeCell) Members() []gossip.Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

func (c *fakeCell) Configuration() ([]raftnode.Server, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.servers), c.index
}

func (c *fakeCell) Progress() (list []raftnode.Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		p := raftnode.Progress{Server: s, Match: 5000, Heard: time.Now()}
		if c.lagging[s.ID] {
			p.Match = 0
		}
		if t, ok := c.down[s.ID]; ok {
			p.Heard = t
		}
		list = append(list, p)
	}
	return list
}

func (c *fakeCell) LastIndex() uint64 { return 5500 }

func (c *fakeCell) change(prev uint64, what string, f func()) error {
	time.Sleep(10 * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	if prev != 0 {
		if prev != c.index {
			return errors.New("not the latest configuration")
		}
		c.index++
	}
	c.log = append(c.log, what)
	f()
	return nil
}

func (c *fakeCell) AddNonvoter(_ context.Context, id string, prev uint64) error {
	return c.change(prev, "add "+id, func() { c.servers = append(c.servers, raftnode.Server{ID: id}) })
}

func (c *fakeCell) Promote(_ context.Context, id string, prev uint64) error {
	return c.change(prev, "promote "+id, func() {
		for i := range c.servers {
			c.servers[i].Voter = c.servers[i].Voter || c.servers[i].ID == id
		}
	})
}

func (c *fakeCell) Remove(_ context.Context, id string, prev uint64) error {
	return c.change(prev, "remove "+id, func() {
		c.servers = slices.DeleteFunc(c.servers, func(s raftnode.Server) bool { return s.ID == id })
	})
}

func (c *fakeCell) SetMember(_ context.Context, p gossip.Peer) error {
	return c.change(0, "set "+p.ID, func() {
		c.members = slices.DeleteFunc(c.members, func(m gossip.Peer) bool { return m.ID == p.ID })
		c.members = append(c.members, p)
	})
}

func (c *fakeCell) RemoveMember(_ context.Context, id string) error {
	return c.change(0, "forget "+id, func() {
		c.members = slices.DeleteFunc(c.members, func(m gossip.Peer) bool { return m.ID == id })
	})
}

// fakeView is the gossip of a fakeCell.
type fakeView struct{ *fakeCell }

func (v fakeView) Changed() <-chan struct{} { return nil }

func (v fakeView) Members() []gossip.Member {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := slices.Clone(v.seen)
	for i, m := range seen {
		if t, ok := v.down[m.ID]; ok && time.Since(t) > 5*time.Second {
			seen[i].Alive = false
		}
	}
	return seen
}

func (c *fakeCell) voters() string {
	servers, _ := c.Configuration()
	var s []string
	for _, srv := range servers {
		if srv.Voter {
			s = append(s, srv.ID)
		} else {
			s = append(s, "("+srv.ID+")")
		}
	}
	return strings.Join(s, " ")
}

// tended runs f beside the Membership of c's leader, a.
func tended(t *testing.T, c *fakeCell, f func(m *Membership)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := NewMembership(MembershipConfig{ID: "a", Raft: c, State: c, View: fakeView{c}})
		ctx, cancel := context.WithCancel(context.Background())
		var run sync.WaitGroup
		run.Go(func() { m.Run(ctx) })
		defer run.Wait()
		defer cancel()
		f(m)
	})
}

// join asks once a second, as a server does, until the answer is final.
func join(m *Membership, id, name string) (JoinReply, time.Duration) {
	began := time.Now()
	for range 100 {
		r := m.Admit(context.Background(), JoinRequest{ID: id, Name: name, Addr: id + ":1"})
		if r.Code != Retry {
			return r, time.Since(began)
		}
		time.Sleep(time.Second)
	}
	return JoinReply{}, time.Since(began)
}

func TestServersAreAddedWithoutAVoteAndPromotedInPairs(t *testing.T) {
	c := newFakeCell("a", "b", "c")
	tended(t, c, func(m *Membership) {
		time.Sleep(5 * time.Second)
		c.see("d", "nd")
		if r, _ := join(m, "d", "nd"); r.Code != Admitted {
			t.Fatal(r)
		}
		time.Sleep(time.Minute)
		if got := c.voters(); got != "a b c (d)" {
			t.Error(got)
		}
		c.lag("e", true)
		c.see("e", "ne")
		if r, _ := join(m, "e", "ne"); r.Code != Admitted {
			t.Fatal(r)
		}
		time.Sleep(time.Minute)
		if got := c.voters(); got != "a b c (d) (e)" {
			t.Errorf("%s: e has not caught up", got)
		}
		c.lag("e", false)
		time.Sleep(10 * time.Second)
		if got := c.voters(); got != "a b c d e" {
			t.Error(got)
		}
		if len(c.Members()) != 5 {
			t.Error("recorded:", c.Members())
		}
	})
}

func TestDeadServerIsReplacedByItsName(t *testing.T) {
	c := newFakeCell("a", "b", "c")
	tended(t, c, func(m *Membership) {
		time.Sleep(5 * time.Second)
		c.die("c")
		time.Sleep(500 * time.Millisecond) // its directory is wiped, and it is back: as another
		c.see("c2", "nc")
		r, took := join(m, "c2", "nc")
		if r.Code != Admitted || took > 10*time.Second {
			t.Fatal(r, took)
		}
		time.Sleep(5 * time.Second)
		if got := c.voters(); got != "a b c2" {
			t.Error(got)
		}
		want := "remove c, forget c, add c2, set c2, promote c2"
		if got := strings.Join(c.log[len(c.log)-5:], ", "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestLiveServerIsNotReplaced(t *testing.T) {
	c := newFakeCell("a", "b", "c")
	tended(t, c, func(m *Membership) {
		time.Sleep(5 * time.Second)
		r, took := join(m, "x", "nc")
		if r.Code != Refused || took > 5*time.Second || !strings.Contains(r.Reason, "second live node") {
			t.Error(r, took)
		}
		if got := c.voters(); got != "a b c" {
			t.Error(got)
		}
	})
}

func TestNobodyIsReplacedWithoutAHealthyMajority(t *testing.T) {
	c := newFakeCell("a", "b", "c")
	tended(t, c, func(m *Membership) {
		c.die("b")
		c.die("c")
		time.Sleep(time.Minute)
		if r, _ := join(m, "c2", "nc"); r.Code != 0 {
			t.Error(r)
		}
		if got := c.voters(); got != "a b c" {
			t.Error(got)
		}
	})
}

func TestAskersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCell("a")
		m := NewMembership(MembershipConfig{ID: "a", Raft: c, State: c, View: fakeView{c}})
		for i := range 10 * maxAskers {
			m.asked(fmt.Sprint("x", i))
		}
		if len(m.askers) > maxAskers {
			t.Errorf("%d askers", len(m.askers))
		}
		time.Sleep(2 * askerKept)
		m.asked("y")
		if len(m.askers) != 1 {
			t.Errorf("%d askers are kept", len(m.askers))
		}
	})
}
