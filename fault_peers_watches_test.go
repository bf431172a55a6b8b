package coord_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// What users of other systems ran into: watches and observers that miss, hang or go stale. docs/FAULTS.md has the table,
// with links.

// mirror keeps a copy of some keys by what a watch with snapshots delivers.
type mirror map[string]string

func (m mirror) take(b coord.Batch, snapshot map[string]string) map[string]string {
	for _, e := range b.Events {
		switch {
		case b.Snapshot:
			snapshot[e.Key] = string(e.Value)
		case e.Type == coord.EventPut:
			m[e.Key] = string(e.Value)
		default:
			delete(m, e.Key)
		}
	}
	if b.Snapshot && !b.More {
		clear(m)
		maps.Copy(m, snapshot)
		return map[string]string{}
	}
	return snapshot
}

// Saw: the revision to resume from was compacted, and each user wrote the listing and watching anew by hand, or lost
// deletions.
// Here: one call. A mirror that lags behind the history again and again, and resumes, equals the cell in the end.
func TestFault_etcd8668_MirrorBehindTheHistory(t *testing.T) {
	inTunedCell(t, 3, shortHistory, func(t *testing.T, c *cell) {
		m, snapshots := mirror{}, 0
		var last coord.Revision
		for round := range 6 {
			for i := range 60 {
				key := fmt.Sprintf("k/%d", (round*7+i)%20)
				if i%3 == 0 {
					if _, err := c.nodes[i%3].Delete(c.within(time.Minute), key); err != nil && !errors.Is(err, coord.ErrKeyNotFound) {
						t.Fatal(err)
					}
					continue
				}
				c.mustPut(i%3, key, fmt.Sprint(round, i))
			}
			w := c.watch(round%3, "k/", coord.Prefix(), coord.FromRevision(last+1), coord.WithSnapshot())
			end := c.mustPut(round%3, "k/end", fmt.Sprint(round))
			for part := map[string]string{}; last < end; {
				b := next(t, w)
				if b.Snapshot {
					snapshots++
				}
				part, last = m.take(b, part), b.Revision
			}
			w.Close()
			l, err := c.nodes[0].List(c.within(time.Minute), "k/")
			if err != nil || len(l.Keys) != len(m) {
				t.Fatalf("round %d: %d keys, the mirror has %d: %v", round, len(l.Keys), len(m), err)
			}
			for _, kv := range l.Keys {
				if m[kv.Key] != string(kv.Value) {
					t.Errorf("round %d: %s is %q, in the mirror %q", round, kv.Key, kv.Value, m[kv.Key])
				}
			}
		}
		if snapshots < 3 {
			t.Errorf("%d snapshots: it never fell behind", snapshots)
		}
	})
}

// Saw: a watch on a server in a minority hangs, says nothing and is never closed.
// Here: it ends with a reason within a few election timeouts, and goes on at another server without a gap.
func TestFault_etcd8980_WatchOnAMinority(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		for round := range 3 {
			cut := c.leader()
			if round == 1 {
				cut = c.others(cut)[0]
			}
			other := c.others(cut)[0]
			w := c.watch(cut, "k")
			first := c.mustPut(other, "k", "before")
			if b := next(t, w); b.Revision != first {
				t.Fatalf("%s, revision %d", text(b), b.Revision)
			}
			c.isolate(cut)
			if fresh := w.Fresh(); fresh > 2*election {
				t.Errorf("stale before the cut: %v", fresh)
			}
			d, err := ending(w)
			if !errors.Is(err, coord.ErrNoLeader) || d > 4*election {
				t.Errorf("ended after %v: %v", d, err)
			}
			c.mustPut(other, "k", "during")
			resumed := c.watch(other, "k", coord.FromRevision(first+1))
			c.mustPut(other, "k", "after")
			for _, want := range []string{"put k=during", "put k=after"} {
				if got := text(next(t, resumed)); got != want {
					t.Errorf("resumed: %s, want %s", got, want)
				}
			}
			c.lab.HealAll()
			c.ready()
		}
	})
}

// Saw: an observer that blocks while there has never been a leader, does not report that one has resigned, and closes
// without saying why.
// Here: "nobody" is news like any other, whether nobody ever led, the leader resigned or it died.
func TestFault_etcd7815_NobodyLeads(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		dead := c.others(c.leader())[0]
		o, err := c.nodes[c.leader()].Observe(t.Context(), "boss")
		if err != nil {
			t.Fatal(err)
		}
		see := func(held bool, value string) {
			t.Helper()
			select {
			case l := <-o.Changes():
				if l.Held != held || string(l.Value) != value {
					t.Errorf("it sees %+v, want %q", l, value)
				}
			case <-time.After(ttl + 2*time.Second):
				t.Errorf("it sees nothing, want %q", value)
			}
		}
		see(false, "")
		for _, end := range []func(l *coord.Leadership){
			func(l *coord.Leadership) { _ = l.Resign(c.within(time.Minute)) },
			func(l *coord.Leadership) { _ = l.Lock().Session().Close(c.within(time.Minute)) },
			func(*coord.Leadership) { c.kill(dead) },
		} {
			l := c.elect(c.session(dead), "boss", "one")
			see(true, "one")
			end(l)
			see(false, "")
		}
		c.nodes[c.leader()].Close()
		if l, open := <-o.Changes(); open || !errors.Is(o.Err(), coord.ErrClosed) {
			t.Errorf("of a closed node: %+v, %v", l, o.Err())
		}
	})
}

// Saw: a store is rebuilt, its revisions begin anew below the old ones, and what was remembered of before silently means
// something else.
// Here: a new cell begins above every token and revision that one before it can have given out.
func TestFault_etcd16028_RevisionsOfARebuiltCell(t *testing.T) {
	inEmptyCell(t, 3, nil, func(t *testing.T, c *cell) {
		time.Sleep(25 * 365 * 24 * time.Hour) // a bubble begins in the year 2000
		var token coord.Token
		var last coord.Revision
		for round := range 3 {
			c.startAll()
			c.ready()
			l := c.lock(c.session(0), "x")
			rev := c.mustPut(1, "k", fmt.Sprint(round))
			if l.Token() <= token || rev <= last {
				t.Errorf("cell %d: token %v after %v, revision %d after %d", round, l.Token(), token, rev, last)
			}
			for range 50 {
				last = c.mustPut(2, "k", "more")
			}
			c.unlock(l)
			token = c.lock(c.session(1), "x").Token()
			c.killAll()
			for i := range 3 {
				c.lab.SetDisk(c.addr(i), nil)
			}
			time.Sleep(time.Minute)
		}
	})
}

// Saw: a key was created and deleted while the client was disconnected, and its watch never knew.
// Here: a watch that resumes sees both.
func TestFault_zookeeperWatches_CreatedAndDeletedMeanwhile(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		far := c.others(c.leader())[0]
		other := c.others(far)[0]
		w := c.watch(far, "k")
		last := c.mustPut(other, "other", "")
		c.isolate(far)
		if _, err := ending(w); !errors.Is(err, coord.ErrNoLeader) {
			t.Fatal(err)
		}
		c.mustPut(other, "k", "short")
		if _, err := c.nodes[other].Delete(c.within(time.Minute), "k"); err != nil {
			t.Fatal(err)
		}
		s := c.session(other)
		if _, err := s.Put(c.within(time.Minute), "k", []byte("ephemeral")); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		c.lab.HealAll()
		c.ready()
		resumed := c.watch(far, "k", coord.FromRevision(last+1))
		for _, want := range []string{"put k=short", "delete k=", "put k=ephemeral", "expire k="} {
			if got := text(next(t, resumed)); got != want {
				t.Errorf("resumed: %s, want %s", got, want)
			}
		}
	})
}
