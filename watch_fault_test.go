package coord_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// A slow reader delays neither changes nor other readers, and loses nothing that the history still has.
func TestG9_SlowWatcherDelaysNobody(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		slow, fast := c.watch(0, "a"), c.watch(0, "a")
		for i := range 100 {
			begin := time.Now()
			c.mustPut(0, "a", fmt.Sprint(i))
			if got := text(next(t, fast)); got != fmt.Sprintf("put a=%d", i) {
				t.Fatalf("change %d: %s", i, got)
			}
			if d := time.Since(begin); d > 200*time.Millisecond {
				t.Fatalf("change %d took %v", i, d)
			}
		}
		for i := range 100 {
			if got := text(next(t, slow)); got != fmt.Sprintf("put a=%d", i) {
				t.Fatalf("the slow one, change %d: %s", i, got)
			}
		}
	})
}

// A watch on a server that is cut off does not go on as if nothing happened in the cell.
func TestG9_WatchOnACutServerEnds(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		for _, cut := range []int{c.leader(), c.others(c.leader())[0]} {
			w := c.watch(cut, "a", coord.Prefix())
			snap := c.watch(cut, "a", coord.WithSnapshot())
			other := c.watch(c.others(cut)[0], "a", coord.Prefix())
			c.isolate(cut)
			d, err := ending(w)
			if most := 3*election + election; !errors.Is(err, coord.ErrNoLeader) || d > most {
				t.Errorf("server %d: ended after %v, want at most %v: %v", cut, d, most, err)
			}
			if _, err := ending(snap); !errors.Is(err, coord.ErrNoLeader) {
				t.Errorf("with a snapshot: %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = c.nodes[cut].Watch(ctx, "a")
			cancel()
			if !errors.Is(err, coord.ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a new one: %v", err)
			}
			c.mustPut(c.others(cut)[0], "a", fmt.Sprint(cut))
			if got := text(next(t, other)); got != fmt.Sprintf("put a=%d", cut) {
				t.Errorf("one that is not cut off: %s", got)
			}
			c.lab.HealAll()
			c.ready()
		}
	})
}

// A watch whose reader has not come for what lies there does not end because nobody led for a while; the reader misses
// nothing.
func TestG9_SlowReadersOutlastAFailover(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		server := c.others(leader)[0]
		w := c.watch(server, "a")
		c.mustPut(server, "a", "1")
		time.Sleep(time.Second)
		c.isolate(leader)
		c.isolate(c.others(leader)[1])
		time.Sleep(4 * election) // it has no majority
		c.lab.HealAll()
		c.ready()
		c.mustPut(server, "a", "2")
		for _, want := range []string{"put a=1", "put a=2"} {
			if got := text(next(t, w)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}

func TestG12_WatchEnds(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		closed := c.watch(0, "a")
		if err := closed.Close(); err != nil {
			t.Error(err)
		}
		if _, err := ending(closed); err != nil {
			t.Errorf("closed by its reader: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancelled, err := c.nodes[0].Watch(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := ending(cancelled); !errors.Is(err, context.Canceled) {
			t.Errorf("its context ended: %v", err)
		}
		read, unread := c.watch(1, "a"), c.watch(1, "a", coord.WithSnapshot())
		time.Sleep(5 * time.Second) // a batch waits for the reader of the second
		c.nodes[1].Close()
		for _, w := range []*coord.Watch{read, unread} {
			if _, err := ending(w); !errors.Is(err, coord.ErrClosed) {
				t.Errorf("its node was closed: %v", err)
			}
		}
		if _, err := c.nodes[1].Watch(t.Context(), "a"); !errors.Is(err, coord.ErrClosed) {
			t.Errorf("on a closed node: %v", err)
		}
	})
}

func TestWatch_All(t *testing.T) {
	inTunedCell(t, 1, shortHistory, func(t *testing.T, c *cell) {
		w := c.watch(0, "a", coord.WithSnapshot())
		c.mustPut(0, "a", "1")
		time.Sleep(5 * time.Second)
		var got []string
		for b, err := range w.All() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, text(b))
			if len(got) == 2 {
				break
			}
		}
		c.mustPut(0, "a", "2")
		for b, err := range w.All() {
			got = append(got, text(b))
			if err != nil {
				got = append(got, fmt.Sprint(errors.Is(err, coord.ErrClosed)))
				continue
			}
			c.nodes[0].Close()
		}
		if s := fmt.Sprintf("%q", got); s != `["snapshot: " "put a=1" "put a=2" "" "true"]` {
			t.Errorf("got %s", s)
		}
	})
}

// follower sees every change, whatever befalls the servers: it goes on from server to server.
type follower struct {
	c       *cell
	at      int // the server that it asks first
	last    coord.Revision
	seen    []string
	resumed int
	err     string // what must not be
}

func (f *follower) run(ctx context.Context) {
	for server := f.at; ctx.Err() == nil; server = (server + 1) % f.c.size {
		n := f.c.node(server)
		if n == nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		asking, cancel := context.WithTimeout(ctx, 2*time.Second)
		w, err := n.Watch(asking, "k/", coord.Prefix(), coord.FromRevision(f.last+1))
		if err != nil {
			cancel()
			continue
		}
		f.resumed++
		for b := range w.Batches() {
			if len(b.Events) > 0 && b.Revision <= f.last {
				f.err = fmt.Sprintf("revision %d after %d", b.Revision, f.last)
			}
			if len(b.Events) > 0 {
				f.last = b.Revision
				f.seen = append(f.seen, fmt.Sprintf("%d: %s", b.Revision, text(b)))
			}
		}
		w.Close()
		cancel()
	}
}

// Servers are cut off, killed and started again while keys change; whoever resumes at another server sees every change
// once and in order.
func TestG9_WatchResumesAnywhere(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx, stop := context.WithCancel(t.Context())
		followers := make([]*follower, 3)
		done := make(chan struct{})
		for i := range followers {
			followers[i] = &follower{c: c, at: i}
			go func() { followers[i].run(ctx); done <- struct{}{} }()
		}
		var acked []string
		put := func(i, k int) {
			rev := c.mustPut(i, fmt.Sprintf("k/%d", k%5), fmt.Sprint(k))
			acked = append(acked, fmt.Sprintf("%d: put k/%d=%d", rev, k%5, k))
		}
		for k := range 150 {
			victim := (k / 50) % 3
			switch k % 50 {
			case 10:
				c.isolate(victim)
			case 20:
				c.lab.HealAll()
				c.ready()
			case 30:
				c.kill(victim)
			case 40:
				c.start(victim)
				c.ready()
			}
			put((victim+1+k%2)%3, k)
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		stop()
		for range followers {
			<-done
		}
		for i, f := range followers {
			if f.err != "" {
				t.Errorf("follower %d: %s", i, f.err)
			}
			if len(f.seen) != len(acked) {
				t.Errorf("follower %d: %d changes, of %d", i, len(f.seen), len(acked))
			}
			for k := range min(len(f.seen), len(acked)) {
				if f.seen[k] != acked[k] {
					t.Fatalf("follower %d: change %d is %q, want %q", i, k, f.seen[k], acked[k])
				}
			}
			if f.resumed < 3 {
				t.Errorf("follower %d resumed only %d times", i, f.resumed)
			}
		}
	})
}
