package coord_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// A mark outlives leader changes: a holder that is cut off has a TTL from the beginning of the last leader's term, and
// one that comes back meanwhile is told by that leader.
func TestG3_MarksOutliveLeaderChanges(t *testing.T) {
	for name, back := range map[string]bool{"the holder stays away": false, "the holder comes back": true} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, c *cell) {
				ctx := c.within(time.Minute)
				const long = 8 * ttl
				leader := c.leader()
				holder, heir := c.others(leader)[0], c.others(leader)[1]
				s := c.session(holder, coord.WithTTL(long), coord.WithGrace(time.Minute))
				held := c.lock(s, "x")
				next := c.queues(ctx, c.session(heir, coord.WithTTL(20*ttl)), "x")
				c.lab.Cut(c.addr(holder), c.addr(leader))
				time.Sleep(ttl)
				if err := c.node(heir).Revoke(ctx, "x", held.Token()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(ttl)
				if err := c.node(leader).TransferLeadership(ctx, c.node(heir).ID()); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if !back {
					c.isolate(holder)
				}
				select {
				case <-held.Context().Done():
				case <-next:
					t.Fatal("granted to the next while the holder may act")
				}
				got := c.granted(next)
				if held.Check() == nil {
					t.Error("the former holder may act when the next one holds")
				}
				d := time.Since(began)
				if back && (d > long/2 || !errors.Is(held.Err(), coord.ErrRevoked)) {
					t.Errorf("handed on after %v; the holder's error: %v", d, held.Err())
				}
				if !back && d > long+2*ttl {
					t.Errorf("handed on %v after the new leader began", d)
				}
				c.lab.HealAll()
				time.Sleep(3 * ttl)
				if held.Check() == nil || got.Check() != nil {
					t.Errorf("once it is back: Check %v, and the next one's %v", held.Check(), got.Check())
				}
			})
		})
	}
}

// A majority that was stopped has its marks again.
func TestG3_MarksOutliveARestart(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		holder := c.others(c.leader())[0]
		other := c.others(c.leader())[1]
		s := c.session(holder, coord.WithTTL(4*ttl), coord.WithGrace(time.Hour))
		held := c.lock(s, "x")
		client := c.client(0)
		defer client.Close()
		far, err := client.NewSession(c.within(time.Minute), coord.WithTTL(20*ttl))
		if err != nil {
			t.Fatal(err)
		}
		next := c.queues(c.within(time.Minute), far, "x")
		c.isolate(holder)
		if err := c.node(other).Revoke(c.within(time.Minute), "x", held.Token()); err != nil {
			t.Fatal(err)
		}
		rest := c.others(holder)
		for _, i := range rest {
			c.kill(i)
		}
		time.Sleep(ttl)
		for _, i := range rest {
			c.start(i)
		}
		c.granted(next)
		if held.Check() == nil {
			t.Error("the former holder may act when the next one holds")
		}
	})
}

// Whom a client node holds for stops when the leader says so, by way of the server.
func TestG3_RevokedAtAClientNode(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		n := c.client(0)
		defer n.Close()
		s, err := n.NewSession(ctx, coord.WithTTL(20*ttl))
		if err != nil {
			t.Fatal(err)
		}
		held := c.lock(s, "x", coord.WithLockTTL(4*ttl))
		if err := held.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		next := c.queues(ctx, c.session(0, coord.WithTTL(20*ttl)), "x")
		if err := n.Revoke(ctx, "x", held.Token()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := held.Refresh(ctx); !errors.Is(err, coord.ErrRevoked) { // its answer carries the mark
			t.Errorf("refresh of a marked grant: %v", err)
		}
		c.granted(next)
		if d := time.Since(began); d > ttl || held.Check() == nil {
			t.Errorf("handed on after %v; Check %v", d, held.Check())
		}
	})
}

// The delay of a lost lock begins anew with a new leader.
func TestLockDelayBeginsAnewWithTheLeader(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(2 * time.Minute)
		const delay = 6 * ttl
		holder := c.others(c.leader())[0]
		other := c.session(c.others(c.leader())[1], coord.WithTTL(20*ttl))
		lost := c.lock(c.session(holder), "x", coord.WithLockDelay(delay))
		next := c.queues(ctx, other, "x")
		c.isolate(holder)
		<-lost.Lost()
		for range 2 {
			time.Sleep(delay / 2)
			leader := c.leader()
			c.lab.HealAll()
			time.Sleep(ttl)
			if err := c.node(leader).TransferLeadership(ctx, c.node(c.others(leader)[0]).ID()); err != nil {
				t.Fatal(err)
			}
			c.waits("during the delay", next)
		}
		began := time.Now()
		c.granted(next)
		if d := time.Since(began); d < delay-ttl/2 || d > delay+ttl {
			t.Errorf("kept back for %v under the last leader, want %v", d, delay)
		}
	})
}

// Locks with leases of their own that are refreshed or not, revoked or not, by sessions that are suspended or not, never
// have two holders, whatever happens to leaders and networks.
func TestG3_LockLeasesAndMarksUnderFaults(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		r := &referee{t: t}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 9 {
			all.Go(func() { c.lease(ctx, r, i) })
		}
		all.Go(func() { c.revokes(ctx, r) })
		for range 30 {
			time.Sleep(ttl + rand.N(2*ttl))
			switch i := rand.N(3); rand.N(4) {
			case 0:
				c.isolate(i)
			case 1:
				c.lab.CutOneWay(c.addr(i), c.addr((i+1)%3))
			case 2:
				leader := c.leader()
				_ = c.node(leader).TransferLeadership(c.within(time.Second), c.node((leader+1)%3).ID())
			default:
				c.lab.HealAll()
			}
			if rand.N(2) == 0 {
				time.Sleep(rand.N(6 * ttl))
				c.lab.HealAll()
				time.Sleep(ttl)
			}
			c.lab.HealAll()
		}
		stop()
		all.Wait()
		r.verdict()
		if n := r.count(); n < 30 {
			t.Errorf("%d grants: this test proves little", n)
		}
	})
}

// lease locks a name with a lease of its own, or without one, again and again until ctx ends, and holds it for a while.
func (c *cell) lease(ctx context.Context, r *referee, i int) {
	var s *coord.Session
	for ctx.Err() == nil {
		if s == nil || s.Err() != nil {
			var err error
			if s, err = c.node(i%3).NewSession(ctx, coord.WithTTL(4*ttl), coord.WithGrace(time.Duration(i%2)*time.Minute)); err != nil {
				c.expected(ctx, err)
				time.Sleep(ttl / 10)
				continue
			}
		}
		var opts []coord.LockOption
		if i%3 != 0 {
			opts = append(opts, coord.WithLockTTL(2*ttl))
		}
		l, err := s.Lock(ctx, "x", opts...)
		if err != nil {
			if !errors.Is(err, coord.ErrRevoked) && !errors.Is(err, coord.ErrLockExpired) {
				c.expected(ctx, err)
			}
			continue
		}
		r.granted(l)
		for range rand.N(8) {
			time.Sleep(rand.N(ttl))
			if i%3 == 1 {
				_ = l.Refresh(ctx)
			}
		}
		if i%2 == 0 || i%3 == 0 {
			_ = l.Unlock(ctx)
		} else {
			<-l.Lost()
		}
	}
}

// revokes takes grants from their holders now and then.
func (c *cell) revokes(ctx context.Context, r *referee) {
	for ctx.Err() == nil {
		time.Sleep(rand.N(8 * ttl))
		r.mu.Lock()
		var token coord.Token
		if n := len(r.grants); n > 0 {
			token = r.grants[n-1].Token()
		}
		r.mu.Unlock()
		if token != 0 {
			bounded, done := context.WithTimeout(ctx, 2*ttl)
			_ = c.node(rand.N(3)).Revoke(bounded, "x", token)
			done()
		}
	}
}
