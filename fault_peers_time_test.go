package coord_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// What users of other systems ran into: TTLs, clocks, and what becomes of sessions when the leader changes.
// docs/FAULTS.md has the table, with links. That no decision rests on the time of day is checked in internal/lint.

// hold gives each of some servers as many sessions of its own, each with a lock.
func (c *cell) hold(perServer int, ttl time.Duration, servers ...int) (held []*coord.Lock) {
	c.t.Helper()
	for _, i := range servers {
		for n := range perServer {
			held = append(held, c.lock(c.session(i, coord.WithTTL(ttl)), fmt.Sprintf("lock %d of server %d", n, i)))
		}
	}
	return held
}

// allHeld checks that the holders and the cell agree that nothing was lost.
func (c *cell) allHeld(at int, held []*coord.Lock) {
	c.t.Helper()
	for _, l := range held {
		if err := l.Check(); err != nil {
			c.t.Errorf("%s: %v", l.Name(), err)
		}
		if got := c.holder(at, l.Name()); got != l.Token() {
			c.t.Errorf("%s: held with token %v, want %v", l.Name(), got, l.Token())
		}
	}
}

// Saw: the leader's disk hung, another one was elected, and when the disk went on the old one, by whose clock all leases
// had run out meanwhile, revoked them all by way of the new one.
// Here: an end counts only in the term in which it was decided, and only with a majority behind it.
func TestFault_etcd15247_OldLeaderWakesUp(t *testing.T) {
	inEmptyCell(t, 3, nil, func(t *testing.T, c *cell) {
		disks := make([]badDisk, 3)
		for i := range disks {
			disks[i].hung = make(chan struct{})
			c.lab.SetFaults(c.addr(i), disks[i].faults())
			c.start(i)
		}
		c.ready()
		old := c.leader()
		held := c.hold(5, 2*ttl, c.others(old)...)
		disks[old].set(func() error { <-disks[old].hung; return nil }, nil)
		written := make(chan error, 1)
		go func() {
			_, err := c.nodes[c.others(old)[0]].Put(c.within(time.Minute), "k", nil)
			written <- err
		}()
		time.Sleep(ttl)
		c.isolate(old)
		time.Sleep(6 * ttl) // by the old leader's table everybody's time is up
		disks[old].set(nil, nil)
		close(disks[old].hung)
		c.lab.HealAll()
		time.Sleep(3 * ttl)
		if err := <-written; err != nil {
			t.Error(err)
		}
		c.ready()
		for i := range 3 {
			c.allHeld(i, held)
		}
	})
}

// Saw: a renewal that met an election gave up, and every election cost sessions.
// Here: renewals are tried again until the session's own deadline; a time without any leader that is shorter costs none.
func TestFault_consul912_RenewalMeetsAnElection(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		held := c.hold(3, 6*time.Second, 0, 1, 2)
		for range 5 {
			time.Sleep(3 * time.Second)
			c.lab.Partition(c.addrs(0), c.addrs(1), c.addrs(2))
			time.Sleep(2500 * time.Millisecond)
			c.lab.HealAll()
			c.ready()
		}
		for i := range 3 {
			c.allHeld(i, held)
		}
	})
}

// Saw: sessions ended after anything between one and two TTLs, and the manual could be read either way.
// Here: what a dead process held is another's within TTL and one second of its last renewal, and not before the TTL.
func TestFault_consul1172_WhenAfterTheTTL(t *testing.T) {
	for _, long := range []time.Duration{time.Second, 2500 * time.Millisecond, 10 * time.Second, 30 * time.Second} {
		t.Run(long.String(), func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, c *cell) {
				dead := c.others(c.leader())[0]
				held := c.lock(c.session(dead, coord.WithTTL(long)), "x")
				next := c.acquire(c.within(time.Hour), c.session(c.others(dead)[0], coord.WithTTL(time.Minute)), "x")
				time.Sleep(2*long + long/7)
				renewed := time.Now().Add(held.Remaining() - long + max(long/100, 2*long/1000+5*time.Millisecond)) // less the margin
				c.isolate(dead)
				if g := <-next; g.err != nil {
					t.Fatal(g.err)
				}
				if d := time.Since(renewed); d < long || d > long+time.Second {
					t.Errorf("handed on %v after the last renewal", d)
				}
			})
		})
	}
}

// Saw: after a restart an election waited for a whole lease, although the one that led before had gone in order.
// Here: going in order frees what was held; the same process is leader again at once.
func TestFault_clientgo448_RestartOfTheLeader(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		var last coord.Token
		for i := range 3 {
			l := c.elect(c.session(i, coord.WithTTL(time.Hour)), "boss", fmt.Sprint(i))
			time.Sleep(ttl)
			began := time.Now()
			if err := c.nodes[i].Shutdown(c.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
			c.start(i)
			c.ready()
			again := c.elect(c.session(i, coord.WithTTL(time.Hour)), "boss", "again")
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("leader again after %v", d)
			}
			if l.Epoch() <= last || again.Epoch() <= l.Epoch() {
				t.Errorf("epochs %v, %v, %v", last, l.Epoch(), again.Epoch())
			}
			last = again.Epoch()
			if err := again.Resign(c.within(time.Minute)); err != nil {
				t.Error(err)
			}
		}
	})
}

// Saw: the renewer was given another TTL than the session had.
// Here: sessions of one process are each renewed and ended by their own.
func TestFault_consulSessionTTL_EachItsOwn(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		far := c.others(c.leader())[0]
		short, middle, long := c.session(far), c.session(far, coord.WithTTL(5*ttl)), c.session(far, coord.WithTTL(20*ttl))
		time.Sleep(time.Minute)
		for _, s := range []*coord.Session{short, middle, long} {
			if left := s.Remaining(); left < s.TTL()*6/10 || left > s.TTL() {
				t.Errorf("TTL %v: %v remaining", s.TTL(), left)
			}
		}
		c.isolate(far)
		time.Sleep(2 * ttl)
		c.lab.HealAll()
		c.ready()
		time.Sleep(20 * ttl)
		if short.Err() == nil || middle.Err() != nil || long.Err() != nil {
			t.Errorf("after an interruption of %v: TTL %v: %v, TTL %v: %v, TTL %v: %v", 2*ttl,
				short.TTL(), short.Err(), middle.TTL(), middle.Err(), long.TTL(), long.Err())
		}
	})
}

// Saw: lease durations were cut down to whole seconds, those below one second to nothing.
// Here: a TTL counts to the nanosecond, and one that is too short is refused.
func TestFault_clientgoLeaseSeconds_NotTruncated(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		const long = 1999 * time.Millisecond
		far := c.others(c.leader())[0]
		l := c.lock(c.session(far, coord.WithTTL(long)), "x")
		for l.Remaining() < long-50*time.Millisecond { // just renewed
			time.Sleep(time.Millisecond)
		}
		c.isolate(far)
		time.Sleep(1600 * time.Millisecond)
		if got := c.holder(c.others(far)[0], "x"); l.Check() != nil || got != l.Token() || l.Session().TTL() != long {
			t.Errorf("after 1.6 s of %v: %v, held with token %v", l.Session().TTL(), l.Check(), got)
		}
		c.lab.HealAll()
		c.ready()
		if _, err := c.nodes[0].NewSession(c.within(time.Second), coord.WithTTL(999*time.Millisecond)); err == nil {
			t.Error("999 ms are accepted")
		}
	})
}

// Saw: users write their own loop to renew a lock, or touch a key, and write to the store each time.
// Here: what a session holds is kept by the library for as long as the process lives, and nothing is written for it.
func TestFault_redsync153_RenewedByTheLibrary(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		held := c.hold(2, ttl, 0, 1, 2)
		if _, err := held[0].Session().Put(c.within(time.Second), "me", []byte("alive")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		before := c.nodes[0].Status().Committed
		time.Sleep(2 * time.Minute)
		if after := c.nodes[0].Status().Committed; after != before {
			t.Errorf("%d entries for nothing", after-before)
		}
		c.allHeld(0, held)
		if _, err := c.nodes[2].Get(c.within(time.Second), "me"); err != nil {
			t.Error(err)
		}
	})
}
