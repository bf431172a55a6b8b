package sim_test

import (
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// The holder's release arrives, and its answer is slow. In between the lock is the next one's, and the former holder
// must have stopped: before its release left, and not when it was answered.
func TestG3_DirectedHolderStopsBeforeItsReleaseLeaves(t *testing.T) {
	for name, release := range map[string]func(c *cell, s *coord.Session, l *coord.Lock){
		"Unlock":        func(c *cell, _ *coord.Session, l *coord.Lock) { _ = l.Unlock(c.within(time.Minute)) },
		"Session.Close": func(c *cell, s *coord.Session, _ *coord.Lock) { _ = s.Close(c.within(time.Minute)) },
	} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, c *cell) {
				leader := c.leads()
				holder, next := c.others(leader)[0], c.others(leader)[1]
				s := c.session(holder, time.Minute)
				held := c.lock(s, "x")
				stopped := c.granted(c.session(next, time.Minute), "x", held)
				time.Sleep(time.Second)
				c.lab.SetDelay(addr(leader), addr(holder), 100*time.Millisecond) // answers only, and no heartbeat is missed
				time.Sleep(time.Second)
				released := make(chan struct{})
				go func() {
					defer close(released)
					release(c, s, held)
				}()
				if err := <-stopped; err == nil {
					t.Error("the former holder may act when the next one holds")
				}
				<-released
			})
		})
	}
}

// The first attempt to open a session arrives, and its answer is lost. The leader counts from it; so must the session,
// although a later attempt is answered.
func TestG3_DirectedRetriedCreationCountsFromTheFirstAttempt(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		const ttl = 4 * time.Second
		leader := c.leads()
		far, next := c.others(leader)[0], c.others(leader)[1]
		waiter := c.session(next, time.Minute)
		before := c.nodes[leader].Status().Sessions
		c.lab.CutOneWay(addr(leader), addr(far))
		opened := make(chan *coord.Session, 1)
		began := time.Now()
		ctx := c.within(time.Minute)
		go func() {
			s, err := c.nodes[far].NewSession(ctx, coord.WithTTL(ttl))
			if err != nil {
				t.Error(err)
			}
			opened <- s
		}()
		time.Sleep(100 * time.Millisecond)
		if n := c.nodes[leader].Status().Sessions; n != before+1 {
			t.Fatalf("%d sessions after %d: the first attempt has not arrived, and this test proves nothing", n, before)
		}
		time.Sleep(3*ttl/4 - time.Since(began))
		c.lab.HealAll()
		s := <-opened
		if took := time.Since(began); s == nil || took < ttl/2 || took > ttl {
			t.Fatalf("it was opened after %v: this test proves nothing", took)
		}
		if n := c.nodes[leader].Status().Sessions; n != before+1 {
			t.Errorf("%d sessions after %d: the creation was made twice", n, before)
		}
		if left := s.Remaining(); left > ttl-time.Since(began) {
			t.Errorf("it lasts %v more, %v after the first attempt", left, time.Since(began))
		}
		held := c.lock(s, "x")
		stopped := c.granted(waiter, "x", held)
		c.isolate(far)
		if err := <-stopped; err == nil {
			t.Error("the former holder may act when the next one holds")
		}
	})
}

// A leader is deposed and does not hear of it for a while: what the others say to it is slow, and raft's lease has not
// run out. What it acknowledges meanwhile, the new leader, which has begun to count, knows nothing of.
func TestG3_DirectedDeposedLeaderAcknowledges(t *testing.T) {
	const election, ttl = time.Second, 4 * time.Second
	inCellOf(t, 3, election, func(t *testing.T, c *cell) {
		old := c.leads()
		heir, third := c.others(old)[0], c.others(old)[1]
		held := c.lock(c.session(old, ttl), "x")
		stopped := c.granted(c.session(heir, time.Minute), "x", held)
		time.Sleep(3 * ttl)
		for held.Remaining() < ttl-election/10 { // it has just been renewed, and will be in a good 5/4 s
			time.Sleep(election / 100)
		}
		time.Sleep(3 * election / 4)
		go func() { _ = c.nodes[old].TransferLeadership(c.within(time.Minute), c.nodes[heir].ID()) }()
		time.Sleep(100 * time.Microsecond) // it has asked the heir to stand for election
		for _, i := range []int{heir, third} {
			c.lab.SetDelay(addr(i), addr(old), 4*election/5)
		}
		time.Sleep(election / 10)
		if !c.nodes[heir].Status().IsLeader || !c.nodes[old].Status().IsLeader {
			t.Error("there is no new leader yet, or the old one knows of it: this test proves nothing")
		}
		time.Sleep(3 * election / 5)
		c.isolate(old)
		if err := <-stopped; err == nil {
			t.Error("the former holder may act when the next one holds")
		}
	})
}
