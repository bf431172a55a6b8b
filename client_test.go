package coord_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// client starts client node i, on a host of its own. The caller closes it.
func (c *cell) client(i int) *coord.Node {
	c.t.Helper()
	n, err := coord.Start(c.t.Context(), c.clientConfig(i))
	if err != nil {
		c.t.Fatalf("start client %d: %v", i, err)
	}
	return n
}

func (c *cell) clientConfig(i int) coord.Config {
	cfg := coord.Config{
		Name: fmt.Sprint("client", i), Role: coord.RoleClient, ElectionTimeout: election,
		Transport: c.lab.On(clientHost(i)), Logger: slog.New(slog.DiscardHandler),
	}
	for j := range c.size {
		cfg.Join = append(cfg.Join, c.addr(j))
	}
	return cfg
}

func clientHost(i int) string { return fmt.Sprint("client", i) }

// withClient runs test in a cell with one client that is ready.
func withClient(t *testing.T, servers int, test func(t *testing.T, c *cell, client *coord.Node)) {
	t.Helper()
	inCell(t, servers, func(t *testing.T, c *cell) {
		n := c.client(0)
		defer n.Close()
		if err := n.WaitReady(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		test(t, c, n)
	})
}

func (c *cell) sessionOn(n *coord.Node) *coord.Session {
	c.t.Helper()
	s, err := n.NewSession(c.within(time.Minute), coord.WithTTL(ttl))
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func TestClient_EveryCall(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *cell, n *coord.Node) {
		ctx := c.within(time.Minute)
		s := c.sessionOn(n)
		l := c.lock(s, "jobs/7", coord.WithData([]byte("who")))
		if _, err := s.TryLock(ctx, "jobs/7"); !errors.Is(err, coord.ErrLocked) {
			t.Errorf("TryLock: %v", err)
		}
		if _, err := s.Lock(ctx, "jobs/7", coord.WithMaxWait(100*time.Millisecond)); !errors.Is(err, coord.ErrLocked) {
			t.Errorf("Lock with WithMaxWait: %v", err)
		}
		if info, err := n.Lookup(ctx, "jobs/7"); err != nil || len(info.Holders) != 1 || string(info.Holders[0].Data) != "who" {
			t.Errorf("Lookup: %+v, %v", info, err)
		}
		rev, err := n.Put(ctx, "conf/a", []byte("1"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Put(ctx, "conf/a", []byte("2"), coord.IfRevision(rev+1)); !errors.Is(err, coord.ErrConflict) {
			t.Errorf("Put: %v", err)
		}
		if kv, err := n.Get(ctx, "conf/a"); err != nil || string(kv.Value) != "1" || kv.Changed != rev {
			t.Errorf("Get: %+v, %v", kv, err)
		}
		if kv, err := n.Get(ctx, "conf/a", coord.Stale()); err != nil || string(kv.Value) != "1" {
			t.Errorf("stale Get: %+v, %v", kv, err)
		}
		if _, err := n.Get(ctx, "conf/b"); !errors.Is(err, coord.ErrKeyNotFound) {
			t.Errorf("Get of none: %v", err)
		}
		if _, err := s.Put(ctx, "conf/c", nil); err != nil {
			t.Error(err)
		}
		if list, err := n.List(ctx, "conf/"); err != nil || len(list.Keys) != 2 || list.More {
			t.Errorf("List: %+v, %v", list, err)
		}
		res, err := n.Txn(ctx, coord.Txn{
			If: []coord.Condition{l.Held()}, Then: []coord.Op{coord.OpPut("conf/d", []byte("x")), coord.OpGet("conf/a")},
		})
		if err != nil || !res.Succeeded || string(res.Results[1].Value) != "1" {
			t.Errorf("Txn: %+v, %v", res, err)
		}
		if _, err := n.Delete(ctx, "conf/d"); err != nil {
			t.Error(err)
		}
		lead, err := s.Campaign(ctx, "boss", []byte("me"))
		if err != nil {
			t.Fatal(err)
		}
		if err := lead.Proclaim(ctx, []byte("still me")); err != nil {
			t.Error(err)
		}
		if who, err := n.Leader(ctx, "boss"); err != nil || !who.Held || string(who.Value) != "still me" {
			t.Errorf("Leader: %+v, %v", who, err)
		}
		if err := lead.Resign(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * ttl)
		if err := l.Check(); err != nil {
			t.Errorf("after %v: %v", 5*ttl, err)
		}
		if err := l.Unlock(ctx); err != nil {
			t.Error(err)
		}
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := n.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestClient_KnowsTheCell(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *cell, n *coord.Node) {
		leader := c.nodes[c.leader()]
		st := n.Status()
		if st.Role != coord.RoleClient || st.Leader != leader.ID() || st.CellID != leader.Status().CellID || st.Voter || st.IsLeader {
			t.Errorf("%+v", st)
		}
		members := n.Members()
		if len(members) != 3 {
			t.Fatalf("%+v", members)
		}
		for _, m := range members {
			if !m.Voter || !m.Alive || m.Leader != (m.ID == leader.ID()) || m.Addr == "" || m.Name == "" || m.Role != coord.RoleServer {
				t.Errorf("%+v", m)
			}
		}
		if n.Addr() != "" {
			t.Errorf("it listens on %q", n.Addr())
		}
		to := c.nodes[c.others(c.leader())[0]].ID()
		if err := n.TransferLeadership(c.within(time.Minute), to); err != nil {
			t.Fatal(err)
		}
		time.Sleep(election)
		if st := n.Status(); st.Leader != to {
			t.Errorf("the leader is %s, want %s", st.Leader, to)
		}
	})
}

func TestClient_ConfigIsChecked(t *testing.T) {
	_, err := coord.Start(context.Background(), coord.Config{
		Role: coord.RoleClient, Dir: "d", InMemory: true, Listen: ":1", Advertise: "a:1", Expect: 3,
	})
	if !errors.Is(err, coord.ErrInvalid) {
		t.Fatal(err)
	}
	for _, field := range []string{"Dir", "InMemory", "Listen", "Advertise", "Expect", "Join"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
}

func TestClient_Watches(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *cell, n *coord.Node) {
		ctx := c.within(time.Minute)
		if _, err := n.Put(ctx, "a/1", []byte("x")); err != nil {
			t.Fatal(err)
		}
		w, err := n.Watch(ctx, "a/", coord.Prefix(), coord.WithSnapshot(), coord.WithPrevious())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if b := <-w.Batches(); !b.Snapshot || b.More || len(b.Events) != 1 || b.Events[0].Key != "a/1" {
			t.Errorf("%+v", b)
		}
		for i := range 3 {
			if _, err := n.Put(ctx, "a/1", fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		previous := "x"
		for i := 0; i < 3; {
			b := <-w.Batches()
			for _, e := range b.Events {
				if string(e.Value) != fmt.Sprint(i) || string(e.Previous) != previous {
					t.Errorf("%+v", e)
				}
				previous = string(e.Value)
				i++
			}
		}
		if b := <-w.Batches(); len(b.Events) > 0 || b.Revision == 0 {
			t.Errorf("%+v", b)
		}
		if age := w.Fresh(); age > 4*election+election {
			t.Errorf("it was last fresh %v ago", age)
		}
		o, err := n.Observe(ctx, "boss")
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		if l := <-o.Changes(); l.Held {
			t.Errorf("%+v", l)
		}
		lead, err := c.sessionOn(n).Campaign(ctx, "boss", []byte("me"))
		if err != nil {
			t.Fatal(err)
		}
		if l := <-o.Changes(); !l.Held || string(l.Value) != "me" {
			t.Errorf("%+v", l)
		}
		time.Sleep(10 * time.Second)
		if err := lead.Resign(ctx); err != nil {
			t.Error(err)
		}
		if l := <-o.Changes(); l.Held {
			t.Errorf("%+v", l)
		}
	})
}

func TestClient_WatchOfACompactedHistory(t *testing.T) {
	tune := func(_ int, cfg *coord.Config) { cfg.Limits.HistoryEvents = 16 }
	inTunedCell(t, 1, tune, func(t *testing.T, c *cell) {
		n := c.client(0)
		defer n.Close()
		ctx := c.within(time.Minute)
		first, err := n.Put(ctx, "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			if _, err := n.Put(ctx, "k", fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := n.Watch(ctx, "k", coord.FromRevision(first)); !errors.Is(err, coord.ErrCompacted) {
			t.Errorf("from a revision that is gone: %v", err)
		}
		w, err := n.Watch(ctx, "k", coord.FromRevision(first), coord.WithSnapshot())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if b := <-w.Batches(); !b.Snapshot || len(b.Events) != 1 || string(b.Events[0].Value) != "39" {
			t.Errorf("%+v", b)
		}
		all, err := n.Watch(ctx, "k", coord.FromRevision(0))
		if err != nil {
			t.Fatal(err)
		}
		defer all.Close()
		if b := <-all.Batches(); len(b.Events) != 1 || b.Snapshot {
			t.Errorf("%+v", b)
		}
	})
}

// What is larger than a frame comes in parts, of one moment.
func TestClient_LargeAnswers(t *testing.T) {
	tune := func(_ int, cfg *coord.Config) { cfg.Limits.Value = 1 << 20 }
	inTunedCell(t, 3, tune, func(t *testing.T, c *cell) {
		n := c.client(0)
		defer n.Close()
		ctx := c.within(time.Minute)
		s := c.session(0)
		for i := range 12 {
			if _, err := s.Put(ctx, fmt.Sprintf("k%02d", i), make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		list, err := n.List(ctx, "k")
		if err != nil || len(list.Keys) != 12 || list.More || len(list.Keys[11].Value) != 1<<20 {
			t.Fatalf("%d keys, more: %v, %v", len(list.Keys), list.More, err)
		}
		list, err = n.List(ctx, "k", coord.WithLimit(7), coord.WithAfter("k03"))
		if err != nil || len(list.Keys) != 7 || !list.More || list.Keys[0].Key != "k04" {
			t.Fatalf("%d keys, more: %v, %v", len(list.Keys), list.More, err)
		}
		from, err := n.Watch(ctx, "k", coord.Prefix(), coord.WithPrevious())
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		var ops []coord.Op
		for i := range 12 {
			ops = append(ops, coord.OpPut(fmt.Sprintf("k%02d", i), []byte{1}))
		}
		if _, err := n.Txn(ctx, coord.Txn{Then: ops}); err != nil {
			t.Fatal(err)
		}
		b := <-from.Batches()
		for len(b.Events) == 0 {
			b = <-from.Batches()
		}
		if len(b.Events) != len(ops) {
			t.Fatalf("%d events of %d in one batch", len(b.Events), len(ops))
		}
		for i, e := range b.Events {
			if e.Key != fmt.Sprintf("k%02d", i) || len(e.Previous) != 1<<20 || len(e.Value) != 1 {
				t.Errorf("event %d: %v of %q, %d bytes before", i, e.Type, e.Key, len(e.Previous))
			}
		}
		if _, err := n.Put(ctx, "k", []byte("next")); err != nil {
			t.Fatal(err)
		}
		for b = range from.Batches() {
			if len(b.Events) > 0 {
				break
			}
		}
		if len(b.Events) != 1 || b.Events[0].Key != "k" {
			t.Errorf("after it came %d events", len(b.Events))
		}
	})
}
