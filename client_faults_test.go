package coord_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// attachedTo is the server that client n is attached to.
func (c *cell) attachedTo(n *coord.Node) int {
	c.t.Helper()
	for i := range c.size {
		if node := c.node(i); node != nil && node.ID() == coord.AttachedTo(n) {
			return i
		}
	}
	c.t.Fatalf("the client is attached to %q, which does not run", coord.AttachedTo(n))
	return -1
}

// cutClient cuts client i off from servers.
func (c *cell) cutClient(i int, servers ...int) {
	for _, s := range servers {
		c.lab.Cut(clientHost(i), c.addr(s))
	}
}

// faults are what may happen to the server that a client is attached to. Each returns when the fault is there.
func clientFaults() map[string]func(c *cell, at int) {
	return map[string]func(c *cell, at int){
		"killed":          func(c *cell, at int) { c.kill(at) },
		"cut off from it": func(c *cell, at int) { c.cutClient(0, at) },
		"cut off":         func(c *cell, at int) { c.isolate(at); c.cutClient(0, at) },
		"in the minority": func(c *cell, at int) { c.isolate(at) },
		"paused":          func(c *cell, at int) { c.lab.Pause(c.addr(at)) },
		"shut down": func(c *cell, at int) {
			n := c.node(at)
			c.mu.Lock()
			c.nodes[at] = nil
			c.mu.Unlock()
			if err := n.Shutdown(c.within(time.Minute)); err != nil {
				c.t.Error(err)
			}
		},
	}
}

// A client holds a lock, waits for another, and watches, while something happens to its server, follower or leader. It
// keeps what it holds and its place in the queue, and misses nothing.
func TestG3G6G9_ClientMovesToAnotherServer(t *testing.T) {
	for name, fault := range clientFaults() {
		for _, leading := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, leading %v", name, leading), func(t *testing.T) {
				inCell(t, 3, func(t *testing.T, c *cell) { clientMoves(t, c, leading, fault) })
			})
		}
	}
}

func clientMoves(t *testing.T, c *cell, leading bool, fault func(c *cell, at int)) {
	n := c.client(0)
	defer n.Close()
	if err := n.WaitReady(c.within(time.Minute)); err != nil {
		t.Fatal(err)
	}
	ctx := c.within(10 * time.Minute)
	at := c.attachedTo(n)
	c.lead(at, leading)
	other := c.nodes[c.others(at)[0]]
	s, err := n.NewSession(ctx, coord.WithTTL(8*election))
	if err != nil {
		t.Fatal(err)
	}
	held := c.lock(s, "held")
	blocker, err := other.NewSession(ctx, coord.WithTTL(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	before := c.lock(blocker, "queue")
	waits, behind := c.lockLater(s, "queue"), c.lockLater(blocker, "queue")
	w, err := n.Watch(ctx, "k/", coord.Prefix())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range 6 {
		if i == 3 {
			fault(c, at)
		}
		if _, err := other.Put(ctx, fmt.Sprint("k/", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(8 * election)
	if now := c.attachedTo(n); now == at {
		t.Errorf("it is still attached to server %d", at)
	}
	if err := held.Check(); err != nil {
		t.Errorf("the lock that was held: %v", err)
	}
	if got, err := n.List(ctx, "k/"); err != nil || len(got.Keys) != 6 {
		t.Errorf("%d keys, %v", len(got.Keys), err)
	}
	sawAll(t, w, 6)
	if err := before.Unlock(ctx); err != nil {
		t.Error(err)
	}
	servedFirst(t, ctx, before, waits, behind)
	c.lab.HealAll()
	c.lab.Resume(c.addr(at))
}

// lead has server at lead, or another one.
func (c *cell) lead(at int, leading bool) {
	c.t.Helper()
	if leading == (c.leader() == at) {
		return
	}
	to := c.nodes[at]
	if !leading {
		to = c.nodes[c.others(at)[0]]
	}
	if err := c.nodes[at].TransferLeadership(c.within(time.Minute), to.ID()); err != nil {
		c.t.Fatal(err)
	}
	time.Sleep(election)
}

// lockLater waits for a lock, behind everybody who waits already.
func (c *cell) lockLater(s *coord.Session, name string) <-chan *coord.Lock {
	granted := make(chan *coord.Lock, 1)
	go func() {
		l, err := s.Lock(c.t.Context(), name)
		if err != nil {
			c.t.Errorf("waiting for %q: %v", name, err)
		}
		granted <- l
	}()
	time.Sleep(election)
	return granted
}

// sawAll checks that a watch of k/ yields k/0, k/1 and so on, each once.
func sawAll(t *testing.T, w *coord.Watch, n int) {
	t.Helper()
	seen := 0
	for b := range w.Batches() {
		for _, e := range b.Events {
			if e.Key != fmt.Sprint("k/", seen) {
				t.Errorf("event %d is of %q", seen, e.Key)
			}
			seen++
		}
		if seen >= n {
			return
		}
	}
	t.Errorf("%d events of %d, %v", seen, n, w.Err())
}

// servedFirst checks that one waiter is served after before, and only then the other.
func servedFirst(t *testing.T, ctx context.Context, before *coord.Lock, first, second <-chan *coord.Lock) {
	t.Helper()
	l := <-first
	if l == nil {
		return
	}
	if err := l.Check(); err != nil || l.Token() <= before.Token() {
		t.Errorf("token %v after %v, %v", l.Token(), before.Token(), err)
	}
	select {
	case <-second:
		t.Error("who came later was served first")
	default:
	}
	if err := l.Unlock(ctx); err != nil {
		t.Error(err)
	}
	<-second
}

// A client that reaches nobody stops in time: before its locks can be another's.
func TestG3_ClientCutOffFromEverything(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *cell, n *coord.Node) {
		ctx := c.within(time.Hour)
		l := c.lock(c.sessionOn(n), "name")
		next := make(chan time.Time, 1)
		other := c.session(c.leader())
		go func() {
			if _, err := other.Lock(ctx, "name"); err != nil {
				t.Error(err)
			}
			next <- time.Now()
		}()
		time.Sleep(ttl)
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		c.cutClient(0, 0, 1, 2)
		cut := time.Now()
		<-l.Lost()
		lost := time.Now()
		if err := l.Check(); !errors.Is(err, coord.ErrSessionExpired) {
			t.Errorf("Check: %v", err)
		}
		if lost.Sub(cut) > ttl {
			t.Errorf("it stopped %v after it was cut off, with a TTL of %v", lost.Sub(cut), ttl)
		}
		if granted := <-next; !granted.After(lost) {
			t.Errorf("the next one held %v before it stopped", lost.Sub(granted))
		}
		c.lab.HealAll()
		c.lock(c.sessionOn(n), "another")
	})
}

// A server that reaches no other one acknowledges nothing to its clients: they stop before the cell hands on what they held.
func TestG3_ClientOfAServerThatIsCutOff(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *cell, n *coord.Node) {
		ctx := c.within(time.Hour)
		at := c.attachedTo(n)
		c.lead(at, false)
		l := c.lock(c.sessionOn(n), "name")
		others := c.others(at)
		next := c.lockLater(c.session(others[0]), "name")
		c.cutClient(0, others...)
		c.isolate(at)
		other := <-next
		if other == nil {
			return
		}
		if err := l.Check(); !errors.Is(err, coord.ErrSessionExpired) {
			t.Errorf("two hold it: %v", err)
		}
		c.lab.HealAll()
		if err := other.Unlock(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A change whose answer was lost between the leader and the client's server, or between that and the client, is made once.
func TestG7_ClientsChangesAreMadeOnce(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *cell, n *coord.Node) {
		ctx := c.within(10 * time.Minute)
		if _, err := n.Put(ctx, "n", []byte{0}); err != nil {
			t.Fatal(err)
		}
		done := make(chan int, 1)
		go func() {
			made := 0
			for range 200 {
				kv, err := n.Get(ctx, "n")
				if err != nil {
					t.Error(err)
					break
				}
				_, err = n.Put(ctx, "n", []byte{kv.Value[0] + 1}, coord.IfRevision(kv.Changed))
				if err != nil {
					t.Errorf("nobody else writes it, and yet: %v", err)
					break
				}
				made++
			}
			done <- made
		}()
		for range 12 {
			at := c.attachedTo(n)
			c.lab.LoseReplies(c.addr(at))
			time.Sleep(election / 2)
			c.lab.HealAll()
			time.Sleep(election)
			c.cutClient(0, at)
			time.Sleep(2 * election)
			c.lab.HealAll()
			time.Sleep(4 * election)
		}
		made := <-done
		if kv, err := n.Get(ctx, "n"); err != nil || int(kv.Value[0]) != made {
			t.Errorf("%d changes have made %d, %v", made, kv.Value[0], err)
		}
	})
}

// A server that is cut off from the others does not answer for them: its clients read what is new, elsewhere.
func TestG5_ClientOfAServerInTheMinority(t *testing.T) {
	withClient(t, 3, func(t *testing.T, c *cell, n *coord.Node) {
		ctx := c.within(time.Minute)
		at := c.attachedTo(n)
		c.isolate(at)
		if _, err := c.nodes[c.others(at)[0]].Put(ctx, "k", []byte("new")); err != nil {
			t.Fatal(err)
		}
		if kv, err := n.Get(ctx, "k"); err != nil || string(kv.Value) != "new" {
			t.Errorf("%q, %v", kv.Value, err)
		}
		c.lab.HealAll()
	})
}

func TestG12_ClientLeavesNothing(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		for range 5 {
			n := c.client(0)
			ctx := c.within(time.Minute)
			s, err := n.NewSession(ctx)
			if err != nil {
				t.Fatal(err)
			}
			c.lock(s, "name")
			if _, err := n.Watch(ctx, "", coord.Prefix()); err != nil {
				t.Fatal(err)
			}
			if _, err := n.Observe(ctx, "name"); err != nil {
				t.Fatal(err)
			}
			waiting := make(chan error, 1)
			go func() {
				_, err := s.Lock(context.Background(), "name")
				waiting <- err
			}()
			time.Sleep(election)
			if err := n.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			if err := <-waiting; !errors.Is(err, coord.ErrClosed) {
				t.Errorf("who waits is told %v", err)
			}
		}
		if st := c.nodes[c.leader()].Status(); st.Locks != 0 || st.Sessions != 0 {
			t.Errorf("left are %d locks and %d sessions", st.Locks, st.Sessions)
		}
	})
}
