package coord_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

func context2s(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), 2*time.Second)
}

// journal writes down what the hooks of one server are told.
type journal struct {
	mu      sync.Mutex
	lines   []string
	leaders []coord.LeaderInfo
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) hooks() coord.Hooks {
	return coord.Hooks{
		Granted: func(g coord.GrantInfo) {
			j.add("granted %s to %s, token %v, waited %v", g.Lock, g.Label, g.Token, g.Waited.Round(time.Second))
		},
		Released: func(r coord.ReleaseInfo) {
			j.add("released %s by %s, token %v, held %v: %v", r.Lock, r.Label, r.Token, r.Held.Round(time.Second), r.Reason)
		},
		SessionEnded: func(s coord.SessionEndInfo) { j.add("ended %s: %v", s.Label, s.Reason) },
		LeaderChanged: func(l coord.LeaderInfo) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.leaders = append(j.leaders, l)
		},
	}
}

func TestHooks_InOrderOnEveryServer(t *testing.T) {
	journals := []*journal{{}, {}, {}}
	tune := func(i int, cfg *coord.Config) { cfg.Hooks = journals[i].hooks() }
	inTunedCell(t, 3, tune, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		a, b := c.session(0, coord.WithLabel("a")), c.session(1, coord.WithLabel("b"))
		first := c.lock(a, "x")
		waiting := c.acquire(ctx, b, "x")
		time.Sleep(2 * time.Second)
		if err := first.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		second := (<-waiting).lock
		time.Sleep(time.Second)
		if err := b.Close(ctx); err != nil {
			t.Fatal(err)
		}
		dying := c.session(2, coord.WithLabel("dying"))
		third := c.lock(dying, "x")
		time.Sleep(time.Second)
		c.kill(2)
		time.Sleep(ttl + 2*time.Second)
		want := []string{
			fmt.Sprintf("granted x to a, token %v, waited 0s", first.Token()),
			fmt.Sprintf("released x by a, token %v, held 2s: %v", first.Token(), coord.ErrUnlocked),
			fmt.Sprintf("granted x to b, token %v, waited 2s", second.Token()),
			fmt.Sprintf("released x by b, token %v, held 1s: %v", second.Token(), coord.ErrSessionClosed),
			fmt.Sprintf("ended b: %v", coord.ErrSessionClosed),
			fmt.Sprintf("granted x to dying, token %v, waited 0s", third.Token()),
		}
		for i, j := range journals {
			j.mu.Lock()
			got := j.lines
			if i != 2 {
				want := fmt.Sprintf("ended dying: %v", coord.ErrSessionExpired)
				if last := got[len(got)-1]; last != want && got[len(got)-2] != want {
					t.Errorf("server %d: got %q, want %q", i, last, want)
				}
			}
			for k, line := range want {
				if k >= len(got) || got[k] != line {
					t.Errorf("server %d: line %d of %q, want %q", i, k, got, line)
					break
				}
			}
			j.mu.Unlock()
		}
	})
}

func TestHooks_LeaderChanged(t *testing.T) {
	journals := []*journal{{}, {}, {}}
	tune := func(i int, cfg *coord.Config) { cfg.Hooks = journals[i].hooks() }
	inTunedCell(t, 3, tune, func(t *testing.T, c *cell) {
		old := c.leader()
		to := c.others(old)[0]
		if err := c.nodes[old].TransferLeadership(c.within(10*time.Second), c.nodes[to].ID()); err != nil {
			t.Fatal(err)
		}
		c.ready()
		time.Sleep(time.Second)
		for i, j := range journals {
			j.mu.Lock()
			term := uint64(0)
			for _, l := range j.leaders {
				if l.Term < term {
					t.Errorf("server %d: term %d after %d", i, l.Term, term)
				}
				term = l.Term
			}
			last, s := j.leaders[len(j.leaders)-1], c.nodes[i].Status()
			if last.Leader != c.nodes[to].ID() || s.Leader != last.Leader || s.Term != last.Term || s.IsLeader != (i == to) {
				t.Errorf("server %d: was told of %+v, and says %+v", i, last, s)
			}
			j.mu.Unlock()
		}
	})
}

// A hook that never returns while the cell is busy costs the hooks what does not fit into their queue, and nobody else
// anything.
func TestHooks_SlowOnesAreCounted(t *testing.T) {
	release := make(chan struct{})
	var mu sync.Mutex
	var got []coord.GrantInfo
	tune := func(_ int, cfg *coord.Config) {
		cfg.Limits.Locks = 10_000
		cfg.Hooks.Granted = func(g coord.GrantInfo) {
			<-release
			mu.Lock()
			defer mu.Unlock()
			got = append(got, g)
		}
	}
	inTunedCell(t, 1, tune, func(t *testing.T, c *cell) {
		release = make(chan struct{}) // of this bubble
		s := c.session(0)
		const grants = 4096 + 50
		for range grants {
			l := c.lock(s, "x")
			if err := l.Unlock(c.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		close(release)
		time.Sleep(time.Second)
		c.lock(s, "x")
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		last := got[len(got)-1]
		if last.Dropped == 0 || uint64(len(got))+last.Dropped != grants+1 {
			t.Errorf("%d calls, the last one told of %d dropped, of %d", len(got), last.Dropped, grants+1)
		}
		for i := 1; i < len(got); i++ {
			if got[i].Token <= got[i-1].Token {
				t.Fatalf("call %d: token %v after %v", i, got[i].Token, got[i-1].Token)
			}
		}
	})
}

func TestStatus(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		s := c.session(0)
		c.lock(s, "x")
		other := c.session(1)
		waiting := c.acquire(c.within(3*time.Second), other, "x")
		c.mustPut(0, "a", "1")
		last, err := s.Put(c.within(time.Minute), "b", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		leader := c.leader()
		for i, n := range c.nodes {
			s := n.Status()
			if s.ID != n.ID() || len(s.ID) != 32 || s.Name != n.Name() || s.Name != fmt.Sprint("server", i) || s.Cell != coord.DefaultCell || len(s.CellID) != 32 {
				t.Errorf("server %d: %+v", i, s)
			}
			if !s.Voter || s.IsLeader != (i == leader) || s.Leader != c.nodes[leader].ID() || s.Term == 0 || s.Evidence > election {
				t.Errorf("server %d: %+v", i, s)
			}
			if s.Locks != 1 || s.Keys != 2 || s.Waiting != 1 || s.Revision < last || s.Applied == 0 || s.Committed < s.Applied {
				t.Errorf("server %d: %+v", i, s)
			}
			if n.Addr() != c.addr(i) {
				t.Errorf("server %d listens on %s", i, n.Addr())
			}
		}
		if g := <-waiting; !errors.Is(g.err, context.DeadlineExceeded) {
			t.Error(g.err)
		}
	})
}

func TestTransferLeadership(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		for from := range 3 {
			old := c.leader()
			to := c.others(old)[from%2]
			name := c.nodes[to].ID()
			if from == 1 {
				name = c.nodes[to].Name()
			}
			if err := c.nodes[from].TransferLeadership(ctx, name); err != nil {
				t.Fatal(err)
			}
			if got := c.leader(); got != to {
				t.Errorf("server %d leads, want %d", got, to)
			}
			c.ready()
		}
		old := c.leader()
		if err := c.nodes[old].TransferLeadership(ctx, c.nodes[old].ID()); err != nil || c.leader() != old {
			t.Errorf("to the leader itself: %v", err)
		}
		if err := c.nodes[0].TransferLeadership(ctx, ""); err != nil || c.leader() == old {
			t.Errorf("to whichever: %v", err)
		}
		want(t, "to nobody", c.nodes[0].TransferLeadership(ctx, "server7"), coord.ErrInvalid, `"server7"`)
		c.mustPut(0, "a", "1")
		c.isolate(0)
		time.Sleep(5 * time.Second)
		err := c.nodes[0].TransferLeadership(c.within(time.Second), "server1")
		if !errors.Is(err, coord.ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a leader: %v", err)
		}
	})
}
