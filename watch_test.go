package coord_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

func (c *cell) watch(i int, key string, opts ...coord.WatchOption) *coord.Watch {
	c.t.Helper()
	w, err := c.nodes[i].Watch(c.t.Context(), key, opts...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { w.Close() })
	return w
}

// next is the next batch that is not mere progress.
func next(t *testing.T, w *coord.Watch) coord.Batch {
	t.Helper()
	begin := time.Now()
	for b := range w.Batches() {
		if len(b.Events) > 0 || b.Snapshot {
			return b
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("nothing but progress, to revision %d", b.Revision)
		}
	}
	t.Fatalf("the watch has ended: %v", w.Err())
	return coord.Batch{}
}

// ending is how long a watch takes to end, and why it does.
func ending(w *coord.Watch) (time.Duration, error) {
	begin := time.Now()
	for range w.Batches() {
	}
	return time.Since(begin), w.Err()
}

// text is a batch for people: its events, without revisions.
func text(b coord.Batch) string {
	var events []string
	for _, e := range b.Events {
		s := fmt.Sprintf("%v %s=%s", e.Type, e.Key, e.Value)
		if e.Previous != nil {
			s += fmt.Sprintf(" (%s)", e.Previous)
		}
		events = append(events, s)
	}
	out := strings.Join(events, ", ")
	if b.Snapshot {
		out = "snapshot: " + out
	}
	if b.More {
		out += " …"
	}
	return out
}

func TestG9_WatchWhatWasAskedFor(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		one := c.watch(0, "a")
		below := c.watch(1, "a", coord.Prefix(), coord.WithPrevious())
		all := c.watch(2, "", coord.Prefix())
		s := c.session(2)
		var revisions []coord.Revision
		did := func(rev coord.Revision, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			revisions = append(revisions, rev)
		}
		did(c.nodes[0].Put(ctx, "a", []byte("1")))
		did(c.nodes[1].Put(ctx, "ab", []byte("2")))
		did(c.nodes[1].Put(ctx, "b", []byte("3")))
		did(s.Put(ctx, "a", []byte("4")))
		did(c.nodes[2].Delete(ctx, "ab"))
		res, err := c.nodes[0].Txn(ctx, coord.Txn{Then: []coord.Op{
			coord.OpPut("ab", []byte("5")), coord.OpGet("a"), coord.OpPut("b", []byte("6")), coord.OpPut("ab", []byte("7")),
			coord.OpDelete("none"),
		}})
		did(res.Revision, err)
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		for name, tc := range map[string]struct {
			w    *coord.Watch
			want []string
		}{
			"one key": {one, []string{"put a=1", "put a=4", "expire a="}},
			"prefix": {below, []string{
				"put a=1", "put ab=2", "put a=4 (1)", "delete ab= (2)", "put ab=5, put ab=7 (5)", "expire a= (4)",
			}},
			"all": {all, []string{"put a=1", "put ab=2", "put b=3", "put a=4", "delete ab=", "put ab=5, put b=6, put ab=7", "expire a="}},
		} {
			last := coord.Revision(0)
			for i, want := range tc.want {
				b := next(t, tc.w)
				if got := text(b); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
				if b.Revision <= last || name == "all" && i < len(revisions) && b.Revision != revisions[i] {
					t.Errorf("%s: batch %d has revision %d after %d; the calls returned %v", name, i, b.Revision, last, revisions)
				}
				last = b.Revision
				for _, e := range b.Events {
					if e.Revision != b.Revision || (e.Type == coord.EventExpire) != (e.Session == s.ID() && len(e.Value) == 0) {
						t.Errorf("%s: %+v in batch %d", name, e, b.Revision)
					}
				}
			}
		}
	})
}

// What an ephemeral key's death looks like: the holder's process dies, and everybody sees its keys go.
func TestG9_WatchSeesSessionsExpire(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		dying := c.others(c.leader())[0]
		staying := c.others(dying)[0]
		s := c.session(dying)
		for _, key := range []string{"up/1", "up/2"} {
			if _, err := s.Put(c.within(time.Minute), key, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		w := c.watch(staying, "up/", coord.Prefix())
		c.kill(dying)
		begin := time.Now()
		seen := map[string]bool{}
		for len(seen) < 2 {
			for _, e := range next(t, w).Events {
				if e.Type != coord.EventExpire || e.Session != s.ID() || seen[e.Key] {
					t.Errorf("%+v", e)
				}
				seen[e.Key] = true
			}
		}
		if d := time.Since(begin); d > ttl+time.Second {
			t.Errorf("they were there for %v", d)
		}
	})
}

// A Watch begins behind everything that was acknowledged before it, also on a server that is late, and misses nothing
// from then on.
func TestG9_WatchBeginsNow(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		late := c.others(leader)[0]
		c.mustPut(leader, "a", "0")
		c.lab.SetDelay(c.addr(leader), c.addr(late), 60*time.Millisecond)
		for number := range 10 {
			before := c.mustPut(leader, "a", fmt.Sprint("before ", number))
			w := c.watch(late, "a")
			c.mustPut(leader, "a", fmt.Sprint("after ", number))
			if b := next(t, w); b.Revision <= before || text(b) != fmt.Sprint("put a=after ", number) {
				t.Errorf("began with %s, revision %d; the last one before was %d", text(b), b.Revision, before)
			}
		}
	})
}

// shortHistory keeps so few events that a test can fall behind them.
func shortHistory(_ int, cfg *coord.Config) { cfg.Limits.HistoryEvents = 16 }

func TestG9_WatchFromRevision(t *testing.T) {
	inTunedCell(t, 3, shortHistory, func(t *testing.T, c *cell) {
		var revs []coord.Revision
		for i := range 10 {
			revs = append(revs, c.mustPut(i%3, "a", fmt.Sprint(i)))
		}
		for i := range c.nodes {
			for name, tc := range map[string]struct {
				from  coord.Revision
				first int
			}{
				"the beginning": {0, 0}, "the first": {revs[0], 0}, "the middle": {revs[4], 4},
				"between two": {revs[4] + 1, 5}, "the last": {revs[9], 9},
			} {
				w := c.watch(i, "a", coord.FromRevision(tc.from))
				for want := tc.first; want < 10; want++ {
					if b := next(t, w); b.Revision != revs[want] || text(b) != fmt.Sprintf("put a=%d", want) {
						t.Fatalf("server %d, from %s: %s, revision %d, want %d of %v", i, name, text(b), b.Revision, want, revs)
					}
				}
			}
		}
		future := c.watch(0, "a", coord.FromRevision(revs[9]+5))
		var last coord.Revision
		for i := 0; last < revs[9]+5; i++ {
			last = c.mustPut(1, "a", fmt.Sprint("later ", i))
		}
		if b := next(t, future); b.Revision != last {
			t.Errorf("from the future: revision %d, want %d", b.Revision, last)
		}
		for i := range 20 {
			last = c.mustPut(0, "b", fmt.Sprint(i))
		}
		for i, n := range c.nodes {
			if _, err := n.Watch(c.t.Context(), "a", coord.FromRevision(revs[9])); !errors.Is(err, coord.ErrCompacted) {
				t.Errorf("server %d: from below the history: %v", i, err)
			}
			w := c.watch(i, "b", coord.FromRevision(0))
			if b := next(t, w); b.Revision != last-15 {
				t.Errorf("server %d: all that the history has begins at %d, want %d", i, b.Revision, last-15)
			}
		}
	})
}

// A watcher that reads too slowly is told that the history has passed it by, or begins anew with a marked snapshot.
func TestG9_WatchFallsBehind(t *testing.T) {
	inTunedCell(t, 3, shortHistory, func(t *testing.T, c *cell) {
		plain := c.watch(0, "k/", coord.Prefix())
		restarting := c.watch(1, "k/", coord.Prefix(), coord.WithSnapshot())
		other := c.watch(2, "k/0", coord.WithSnapshot())
		if got := text(next(t, restarting)); got != "snapshot: " {
			t.Errorf("a snapshot of nothing: %q", got)
		}
		var last coord.Revision
		for i := range 100 {
			last = c.mustPut(i%3, fmt.Sprintf("k/%d", i%4), fmt.Sprint(i))
		}
		time.Sleep(time.Second)
		if b := next(t, plain); text(b) != "put k/0=0" {
			t.Errorf("the first change: %s", text(b))
		}
		if _, err := ending(plain); !errors.Is(err, coord.ErrCompacted) {
			t.Errorf("fell behind: %v", err)
		}
		if got := text(next(t, other)); got != "snapshot: " {
			t.Errorf("of one key, not there: %q", got)
		}
		fallsBehind(t, restarting, 1, "snapshot: put k/0=96, put k/1=97, put k/2=98, put k/3=99")
		if b := fallsBehind(t, other, 4, "snapshot: put k/0=96"); b.Revision < last-3 {
			t.Errorf("of one key: revision %d", b.Revision)
		}
		c.mustPut(0, "k/0", "on")
		for _, w := range []*coord.Watch{restarting, other} {
			if got := text(next(t, w)); got != "put k/0=on" {
				t.Errorf("after the snapshot: %s", got)
			}
		}
	})
}

// fallsBehind reads the few changes that lay ready, every so manieth of all, and the snapshot that follows.
func fallsBehind(t *testing.T, w *coord.Watch, every int, snapshot string) coord.Batch {
	t.Helper()
	for i := 0; ; i += every {
		b := next(t, w)
		if b.Snapshot {
			if text(b) != snapshot || i == 0 || i > 16*every {
				t.Errorf("after %d changes %q, want %q", i/every, text(b), snapshot)
			}
			return b
		}
		if want := fmt.Sprintf("put k/%d=%d", i%4, i); text(b) != want {
			t.Errorf("got %q, want %q", text(b), want)
		}
	}
}

func TestG9_WatchSnapshots(t *testing.T) {
	inTunedCell(t, 1, shortHistory, func(t *testing.T, c *cell) {
		const keys = 1100
		for i := 0; i < keys; i += 100 {
			var txn coord.Txn
			for k := i; k < i+100; k++ {
				txn.Then = append(txn.Then, coord.OpPut(fmt.Sprintf("k/%04d", k), nil))
			}
			if _, err := c.nodes[0].Txn(c.within(time.Minute), txn); err != nil {
				t.Fatal(err)
			}
		}
		last := c.mustPut(0, "other", "x")
		w := c.watch(0, "k/", coord.Prefix(), coord.WithSnapshot())
		seen, parts := 0, 0
		for more := true; more; parts++ {
			b := next(t, w)
			if !b.Snapshot || b.Revision != last {
				t.Errorf("part %d: snapshot %v, revision %d, want %d", parts, b.Snapshot, b.Revision, last)
			}
			if parts == 0 {
				c.mustPut(0, "k/0000", "changed") // not part of the snapshot, and not lost
				c.mustPut(0, "k/1099", "changed")
			}
			for _, e := range b.Events {
				if e.Key != fmt.Sprintf("k/%04d", seen) || e.Type != coord.EventPut || len(e.Value) != 0 || e.Revision > last {
					t.Fatalf("key %d of the snapshot: %+v", seen, e)
				}
				seen++
			}
			more = b.More
		}
		if seen != keys || parts != 3 {
			t.Errorf("%d keys in %d parts", seen, parts)
		}
		for _, want := range []string{"put k/0000=changed", "put k/1099=changed"} {
			if b := next(t, w); text(b) != want || b.Snapshot {
				t.Errorf("after the snapshot: %s, want %s", text(b), want)
			}
		}
		resumed := c.watch(0, "other", coord.FromRevision(last), coord.WithSnapshot())
		if b := next(t, resumed); b.Snapshot || b.Revision != last {
			t.Errorf("a snapshot though the history reaches back: %s", text(b))
		}
		anew := c.watch(0, "other", coord.FromRevision(1), coord.WithSnapshot())
		if got := text(next(t, anew)); got != "snapshot: put other=x" {
			t.Errorf("the history does not reach back: %s", got)
		}
	})
}

func TestG9_WatchProgress(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var watches []*coord.Watch
		for i, n := range c.nodes {
			w, err := n.Watch(ctx, "never", coord.FromRevision(0))
			if err != nil {
				t.Fatal(i, err)
			}
			watches = append(watches, w)
		}
		busy := make(chan struct{})
		go func() {
			defer close(busy)
			for ctx.Err() == nil {
				c.mustPut(0, "often", "x")
				time.Sleep(300 * time.Millisecond)
			}
		}()
		ended := make(chan string)
		for _, w := range watches {
			go func() {
				last, revision, longest, count := time.Now(), coord.Revision(0), time.Duration(0), 0
				for b := range w.Batches() {
					longest = max(longest, time.Since(last))
					last = time.Now()
					if len(b.Events) > 0 || b.Snapshot || b.Revision < revision {
						t.Errorf("%+v after revision %d", b, revision)
					}
					revision = b.Revision
					count++
				}
				ended <- fmt.Sprintf("silent for at most 1s: %v, told of progress: %v, then %v",
					longest <= time.Second && count >= 9, revision > 20, w.Err())
			}()
		}
		for i := range watches {
			if got := <-ended; got != "silent for at most 1s: true, told of progress: true, then coord: watch \"never\": context deadline exceeded" {
				t.Errorf("server %d: %s", i, got)
			}
		}
		<-busy
		for i, w := range watches {
			if f := w.Fresh(); f > 2*election {
				t.Errorf("server %d: its last proof of a leader is %v old", i, f)
			}
		}
	})
}
