package coord_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// mustPut writes a plain key by way of server i.
func (c *cell) mustPut(i int, key, value string) coord.Revision {
	c.t.Helper()
	rev, err := c.nodes[i].Put(c.within(time.Minute), key, []byte(value))
	if err != nil {
		c.t.Fatal(err)
	}
	return rev
}

func TestKeys_EveryServer(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		first := c.mustPut(0, "a", "1")
		second := c.mustPut(1, "a", "2")
		if second <= first {
			t.Errorf("revision %d after %d", second, first)
		}
		for i, n := range c.nodes {
			kv, err := n.Get(ctx, "a")
			if err != nil || string(kv.Value) != "2" || kv.Created != first || kv.Changed != second || kv.Session != 0 || kv.Key != "a" {
				t.Errorf("server %d: %+v, %v", i, kv, err)
			}
		}
		third, err := c.nodes[2].Delete(ctx, "a")
		if err != nil || third <= second {
			t.Errorf("delete: %d, %v", third, err)
		}
		if _, err := c.nodes[0].Get(ctx, "a"); !errors.Is(err, coord.ErrKeyNotFound) {
			t.Errorf("get after delete: %v", err)
		}
		if _, err := c.nodes[1].Delete(ctx, "a"); !errors.Is(err, coord.ErrKeyNotFound) {
			t.Errorf("second delete: %v", err)
		}
		empty := c.mustPut(0, "empty", "")
		if kv, err := c.nodes[1].Get(ctx, "empty"); err != nil || len(kv.Value) != 0 || kv.Created != empty {
			t.Errorf("empty value: %+v, %v", kv, err)
		}
	})
}

func TestKeys_Conditions(t *testing.T) {
	inCell(t, 1, func(t *testing.T, c *cell) {
		ctx, n := c.within(time.Minute), c.nodes[0]
		one := []byte("1")
		rev, err := n.Put(ctx, "a", one, coord.IfAbsent())
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"IfAbsent, present":       second(n.Put(ctx, "a", one, coord.IfAbsent())),
			"IfRevision, too low":     second(n.Put(ctx, "a", one, coord.IfRevision(rev-1))),
			"IfRevision, too high":    second(n.Put(ctx, "a", one, coord.IfRevision(rev+1))),
			"IfRevision, no such key": second(n.Put(ctx, "b", one, coord.IfRevision(rev))),
			"Delete, wrong revision":  second(n.Delete(ctx, "a", coord.IfRevision(rev+1))),
		} {
			if !errors.Is(err, coord.ErrConflict) {
				t.Errorf("%s: %v, want ErrConflict", name, err)
			}
		}
		if err := second(n.Delete(ctx, "b", coord.IfRevision(rev))); !errors.Is(err, coord.ErrKeyNotFound) {
			t.Errorf("conditional delete of nothing: %v", err)
		}
		for name, err := range map[string]error{
			"IfRevision(0)":           second(n.Put(ctx, "a", one, coord.IfRevision(0))),
			"IfRevision and IfAbsent": second(n.Put(ctx, "a", one, coord.IfRevision(rev), coord.IfAbsent())),
			"Delete, IfAbsent":        second(n.Delete(ctx, "a", coord.IfAbsent())),
			"Delete, IfRevision(0)":   second(n.Delete(ctx, "a", coord.IfRevision(0))),
		} {
			if !errors.Is(err, coord.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		if kv, err := n.Get(ctx, "a"); err != nil || kv.Changed != rev {
			t.Errorf("what was refused has changed something: %+v, %v", kv, err)
		}
		next, err := n.Put(ctx, "a", []byte("2"), coord.IfRevision(rev))
		if err != nil || next <= rev {
			t.Errorf("IfRevision: %d, %v", next, err)
		}
		if _, err := n.Delete(ctx, "a", coord.IfRevision(next)); err != nil {
			t.Error(err)
		}
	})
}

// second is the error of a call that returns two values.
func second[T any](_ T, err error) error { return err }

func TestKeys_ListInPages(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		var want []string
		for i := range 25 {
			key := fmt.Sprintf("jobs/%02d", i)
			want = append(want, key)
			c.mustPut(i%3, key, fmt.Sprint(i))
		}
		c.mustPut(0, "jobs", "not below jobs/")
		last := c.mustPut(0, "jobs0", "behind them")
		for i, n := range c.nodes {
			var got []string
			after, pages := "", 0
			for {
				l, err := n.List(ctx, "jobs/", coord.WithLimit(10), coord.WithAfter(after))
				if err != nil {
					t.Fatal(err)
				}
				if l.Revision != last || len(l.Keys) > 10 {
					t.Errorf("server %d: revision %d, %d keys", i, l.Revision, len(l.Keys))
				}
				for _, kv := range l.Keys {
					got = append(got, kv.Key)
				}
				pages++
				if !l.More {
					break
				}
				after = got[len(got)-1]
			}
			if !slices.Equal(got, want) || pages != 3 {
				t.Errorf("server %d: %d pages: %v", i, pages, got)
			}
		}
		for prefix, n := range map[string]int{"": 27, "jobs": 27, "jobs/": 25, "jobs/0": 10, "x": 0} {
			l, err := c.nodes[1].List(ctx, prefix)
			if err != nil || len(l.Keys) != n || l.More {
				t.Errorf("list %q: %d keys, more %v, %v", prefix, len(l.Keys), l.More, err)
			}
		}
		l, err := c.nodes[0].List(ctx, "jobs/", coord.WithLimit(25))
		if err != nil || len(l.Keys) != 25 || l.More {
			t.Errorf("a limit that is just reached: %d keys, more %v, %v", len(l.Keys), l.More, err)
		}
	})
}

// A write decides anew whose a key is.
func TestKeys_WhoOwnsThem(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		a, b := c.session(0), c.session(1)
		for _, key := range []string{"mine", "taken", "made plain"} {
			if _, err := a.Put(ctx, key, []byte("a")); err != nil {
				t.Fatal(err)
			}
		}
		c.mustPut(2, "made ephemeral", "x")
		if _, err := b.Put(ctx, "taken", []byte("b")); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Put(ctx, "made ephemeral", []byte("a")); err != nil {
			t.Fatal(err)
		}
		c.mustPut(2, "made plain", "x")
		owners := func() string {
			l, err := c.nodes[2].List(ctx, "")
			if err != nil {
				t.Fatal(err)
			}
			out := ""
			for _, kv := range l.Keys {
				owner := map[coord.SessionID]string{0: "nobody", a.ID(): "a", b.ID(): "b"}[kv.Session]
				out += kv.Key + ": " + owner + "; "
			}
			return out
		}
		if got, want := owners(), "made ephemeral: a; made plain: nobody; mine: a; taken: b; "; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if err := a.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if got, want := owners(), "made plain: nobody; taken: b; "; got != want {
			t.Errorf("after the session of a was closed\ngot  %s\nwant %s", got, want)
		}
		if _, err := a.Put(ctx, "x", nil); !errors.Is(err, coord.ErrSessionClosed) {
			t.Errorf("put of a closed session: %v", err)
		}
	})
}

func TestTxn_ConditionsAndResults(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		n := c.nodes[c.others(c.leader())[0]]
		rev := c.mustPut(0, "a", "1")
		held := c.lock(c.session(1), "x")
		for name, tc := range map[string]struct {
			cond  coord.Condition
			holds bool
		}{
			"at":            {coord.KeyAt("a", rev), true},
			"not at":        {coord.KeyAt("a", rev+1), false},
			"at, missing":   {coord.KeyAt("b", rev), false},
			"absent":        {coord.KeyAbsent("b"), true},
			"not absent":    {coord.KeyAbsent("a"), false},
			"value":         {coord.ValueIs("a", []byte("1")), true},
			"other value":   {coord.ValueIs("a", []byte("2")), false},
			"value of none": {coord.ValueIs("b", nil), false},
			"held":          {coord.HeldBy("x", held.Token()), true},
			"held, other":   {coord.HeldBy("x", held.Token()+1), false},
			"not held":      {coord.HeldBy("y", held.Token()), false},
			"held by lock":  {held.Held(), true},
		} {
			res, err := n.Txn(ctx, coord.Txn{
				If:   []coord.Condition{coord.ValueIs("a", []byte("1")), tc.cond},
				Then: []coord.Op{coord.OpGet("a")},
				Else: []coord.Op{coord.OpGet("b"), coord.OpGet("b")},
			})
			if err != nil || res.Succeeded != tc.holds || len(res.Results) != map[bool]int{true: 1, false: 2}[tc.holds] {
				t.Errorf("%s: %+v, %v", name, res, err)
			}
		}
		res, err := n.Txn(ctx, coord.Txn{Then: []coord.Op{
			coord.OpGet("a"), coord.OpPut("a", []byte("2")), coord.OpGet("a"),
			coord.OpDelete("a"), coord.OpGet("a"), coord.OpDelete("a"), coord.OpPut("c", []byte("3")),
		}})
		if err != nil || !res.Succeeded || res.Revision <= rev {
			t.Fatalf("%+v, %v", res, err)
		}
		var got []string
		for _, r := range res.Results {
			got = append(got, fmt.Sprintf("%v:%s", r.Found, r.Value))
		}
		if s := strings.Join(got, " "); s != "true:1 true:2 true:2 true:2 false: false: true:3" {
			t.Errorf("results: %s", s)
		}
		if kv := res.Results[6].KeyValue; kv.Key != "c" || kv.Created != res.Revision || kv.Changed != res.Revision {
			t.Errorf("what was written: %+v, at revision %d", kv, res.Revision)
		}
	})
}

// A Txn that is bound to a grant does nothing once that grant has ended, and what a session's Txn puts is the session's.
func TestTxn_OfHoldersAndSessions(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		s := c.session(0)
		held := c.lock(s, "x")
		write := coord.Txn{If: []coord.Condition{held.Held()}, Then: []coord.Op{coord.OpPut("state", []byte("1"))}}
		if res, err := s.Txn(ctx, write); err != nil || !res.Succeeded {
			t.Fatalf("%+v, %v", res, err)
		}
		if kv, err := c.nodes[1].Get(ctx, "state"); err != nil || kv.Session != s.ID() {
			t.Errorf("%+v, %v", kv, err)
		}
		if err := held.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		c.lock(c.session(1), "x")
		if res, err := c.nodes[2].Txn(ctx, write); err != nil || res.Succeeded || len(res.Results) != 0 {
			t.Errorf("of a former holder: %+v, %v", res, err)
		}
	})
}

// What a call returns, and what it was given, shares no memory with the state.
func TestKeys_ValuesAreCopies(t *testing.T) {
	inCell(t, 1, func(t *testing.T, c *cell) {
		ctx, n := c.within(time.Minute), c.nodes[0]
		w, err := n.Watch(ctx, "a", coord.WithPrevious())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		given := []byte("good")
		if _, err := n.Put(ctx, "a", given); err != nil {
			t.Fatal(err)
		}
		copy(given, "evil")
		s := c.session(0)
		data := []byte("good")
		l, err := s.Lock(ctx, "x", coord.WithData(data))
		if err != nil {
			t.Fatal(err)
		}
		copy(data, "evil")
		spoil := func(b []byte) {
			t.Helper()
			if string(b) != "good" {
				t.Errorf("spoilt: %q", b)
			}
			copy(b, "evil")
		}
		for range 2 {
			kv, _ := n.Get(ctx, "a", coord.Stale())
			spoil(kv.Value)
			list, _ := n.List(ctx, "")
			spoil(list.Keys[0].Value)
			res, _ := n.Txn(ctx, coord.Txn{Then: []coord.Op{coord.OpGet("a")}})
			spoil(res.Results[0].Value)
			info, _ := n.Lookup(ctx, "x")
			spoil(info.Holders[0].Data)
			leader, _ := n.Leader(ctx, "x")
			spoil(leader.Value)
		}
		spoil((<-w.Batches()).Events[0].Value)
		again, err := n.Watch(ctx, "a", coord.FromRevision(0))
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		spoil((<-again.Batches()).Events[0].Value)
		snap, err := n.Watch(ctx, "a", coord.WithSnapshot())
		if err != nil {
			t.Fatal(err)
		}
		defer snap.Close()
		spoil((<-snap.Batches()).Events[0].Value)
		if kv, _ := n.Get(ctx, "a"); string(kv.Value) != "good" {
			t.Errorf("spoilt: %q", kv.Value)
		}
		_ = l
	})
}
