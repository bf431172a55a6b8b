package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord"
)

func (c *cell) elect(s *coord.Session, election, value string) *coord.Leadership {
	c.t.Helper()
	l, err := s.Campaign(c.within(time.Minute), election, []byte(value))
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// leaderIs checks what every server says of an election.
func (c *cell) leaderIs(election, value string, epoch coord.Token) {
	c.t.Helper()
	for i, n := range c.nodes {
		l, err := n.Leader(c.within(time.Minute), election)
		if err != nil || l.Held != (epoch != 0) || l.Epoch != epoch || string(l.Value) != value {
			c.t.Errorf("server %d says %+v, %v; want %q, epoch %v", i, l, err, value, epoch)
		}
	}
}

func TestElection(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		c.leaderIs("boss", "", 0)
		first := c.elect(c.session(0, coord.WithLabel("a")), "boss", "one")
		c.leaderIs("boss", "one", first.Epoch())
		if l, err := c.nodes[1].Leader(c.within(time.Minute), "boss"); err != nil || l.Label != "a" || l.Session != first.Lock().Session().ID() {
			t.Errorf("%+v, %v", l, err)
		}
		if err := first.Proclaim(c.within(time.Minute), []byte("two")); err != nil {
			t.Fatal(err)
		}
		c.leaderIs("boss", "two", first.Epoch())
		second := make(chan *coord.Leadership)
		s := c.session(1)
		go func() { second <- c.elect(s, "boss", "three") }()
		time.Sleep(time.Second)
		c.leaderIs("boss", "two", first.Epoch())
		if err := first.Resign(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		lost(t, first.Lock(), coord.ErrUnlocked)
		if err := first.Proclaim(c.within(time.Minute), []byte("four")); !errors.Is(err, coord.ErrUnlocked) {
			t.Errorf("proclaim after the end: %v", err)
		}
		l := <-second
		if l.Epoch() <= first.Epoch() || l.Check() != nil || l.Err() != nil || l.Context().Err() != nil {
			t.Errorf("epoch %v after %v, %v", l.Epoch(), first.Epoch(), l.Check())
		}
		c.leaderIs("boss", "three", l.Epoch())
		if err := s.Close(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		<-l.Lost()
		c.leaderIs("boss", "", 0)
	})
}

// An Observer sees nobody, each leader and each value, on whatever server it is.
func TestObserve(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx, cancel := context.WithCancel(t.Context())
		var observers []*coord.Observer
		for _, n := range c.nodes {
			o, err := n.Observe(ctx, "boss")
			if err != nil {
				t.Fatal(err)
			}
			observers = append(observers, o)
		}
		see := func(value string, epoch coord.Token) {
			t.Helper()
			for i, o := range observers {
				l, open := <-o.Changes()
				if !open || l.Held != (epoch != 0) || l.Epoch != epoch || string(l.Value) != value {
					t.Errorf("observer %d sees %+v (open %v, %v), want %q, epoch %v", i, l, open, o.Err(), value, epoch)
				}
			}
		}
		see("", 0)
		s := c.session(0)
		first := c.elect(s, "boss", "one")
		see("one", first.Epoch())
		if err := first.Proclaim(c.within(time.Minute), []byte("two")); err != nil {
			t.Fatal(err)
		}
		see("two", first.Epoch())
		if err := first.Resign(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		see("", 0)
		for i := range 10 { // nobody looks meanwhile: only the latest counts
			s.Close(c.within(time.Minute))
			s = c.session(i % 3)
			first = c.elect(s, "boss", fmt.Sprint(i))
		}
		time.Sleep(time.Second)
		see("9", first.Epoch())
		if err := observers[0].Close(); err != nil || observers[0].Err() != nil {
			t.Errorf("Close: %v, %v", err, observers[0].Err())
		}
		cancel()
		for i, o := range observers[1:] {
			if _, open := <-o.Changes(); open || !errors.Is(o.Err(), context.Canceled) {
				t.Errorf("observer %d after ctx: %v", i+1, o.Err())
			}
		}
	})
}

// Losing an election and campaigning again, many times, each time with a higher epoch, and nothing is left behind.
func TestG12_CampaignAgainAndAgain(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		var last coord.Token
		for i := range 50 {
			at := i % 3
			s := c.session(at)
			l := c.elect(s, "boss", fmt.Sprint(i))
			if l.Epoch() <= last {
				t.Errorf("epoch %v after %v", l.Epoch(), last)
			}
			last = l.Epoch()
			switch i % 3 {
			case 0:
				if err := l.Resign(c.within(time.Minute)); err != nil {
					t.Error(err)
				}
			case 1:
				if err := s.Close(c.within(time.Minute)); err != nil {
					t.Error(err)
				}
			default:
				c.isolate(at)
				<-l.Lost()
				time.Sleep(2 * ttl)
				c.lab.HealAll()
				c.ready()
			}
		}
		c.leaderIs("boss", "", 0)
		time.Sleep(5 * ttl)
		if st := c.nodes[0].Status(); st.Locks != 0 || st.Waiting != 0 {
			t.Errorf("%d locks, %d waiting", st.Locks, st.Waiting)
		}
	})
}

// What a cancelled Lock left in the cell is withdrawn, and a node that is closed answers everybody who waits.
func TestG12_NothingIsLeftOfWaiters(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		held := c.lock(c.session(0), "x")
		s := c.session(1)
		ctx, cancel := context.WithCancel(t.Context())
		var waiting []<-chan grant
		for range 10 {
			waiting = append(waiting, c.acquire(ctx, s, "x"))
		}
		closing := c.acquire(t.Context(), c.session(2), "x")
		time.Sleep(time.Second)
		if n := c.nodes[0].Status().Waiting; n != 11 {
			t.Errorf("%d are waiting", n)
		}
		cancel()
		for _, w := range waiting {
			if g := <-w; !errors.Is(g.err, context.Canceled) {
				t.Errorf("cancelled: %v", g.err)
			}
		}
		time.Sleep(100 * time.Millisecond)
		if info, err := c.nodes[1].Lookup(c.within(time.Minute), "x"); err != nil || len(info.Queue) != 1 {
			t.Errorf("after the cancellation: %v, %v", info, err)
		}
		c.nodes[2].Close()
		if g := <-closing; !errors.Is(g.err, coord.ErrClosed) {
			t.Errorf("closed: %v", g.err)
		}
		if _, err := c.nodes[2].NewSession(c.within(time.Minute)); !errors.Is(err, coord.ErrClosed) {
			t.Errorf("a session of a closed node: %v", err)
		}
		c.nodes[2] = nil
		time.Sleep(ttl + time.Second)
		if info, err := c.nodes[1].Lookup(c.within(time.Minute), "x"); err != nil || len(info.Queue) != 0 {
			t.Errorf("after the other's end: %v, %v", info, err)
		}
		if err := held.Unlock(c.within(time.Minute)); err != nil {
			t.Error(err)
		}
	})
}

// Shutdown frees what the process holds at once, whether it leads or not; Close leaves it to expire.
func TestShutdownFreesAtOnce(t *testing.T) {
	inCell(t, 5, func(t *testing.T, c *cell) {
		s := c.session(c.others(c.leader())[0], coord.WithTTL(time.Minute))
		for _, leads := range []bool{false, true} {
			at := c.leader()
			if !leads {
				at = slices.DeleteFunc(c.others(at), func(i int) bool { return i == c.others(c.leader())[0] })[0]
			}
			held := c.lock(c.session(at, coord.WithTTL(time.Minute)), "x")
			began := time.Now()
			if err := c.nodes[at].Shutdown(c.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
			lost(t, held, coord.ErrClosed)
			if err := c.nodes[at].Err(); !errors.Is(err, coord.ErrClosed) {
				t.Errorf("Err: %v", err)
			}
			c.nodes[at] = nil
			next := c.lock(s, "x")
			if d := time.Since(began); d > time.Second {
				t.Errorf("free after %v", d)
			}
			if err := next.Unlock(c.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
	})
}
