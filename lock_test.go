package coord_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

func TestG1_OneHolder_WaitersInOrder(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		first := c.lock(c.session(0), "x")
		got := make(chan *coord.Lock)
		for i := range 3 {
			s := c.session(i)
			go func() {
				l, err := s.Lock(c.within(time.Minute), "x")
				if err != nil {
					t.Error(err)
				}
				got <- l
			}()
			time.Sleep(100 * time.Millisecond) // they queue in this order
		}
		last := first
		for i := range 3 {
			if err := last.Unlock(c.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
			l := <-got
			if l.Token() <= last.Token() {
				t.Errorf("token %v after %v", l.Token(), last.Token())
			}
			info, err := c.nodes[i].Lookup(c.within(time.Minute), "x")
			if err != nil {
				t.Fatal(err)
			}
			if len(info.Holders) != 1 || info.Holders[0].Token != l.Token() || len(info.Queue) != 2-i {
				t.Errorf("after hand-over %d: %v", i, info)
			}
			if info.Holders[0].Session != l.Session().ID() {
				t.Errorf("hand-over %d: out of order", i)
			}
			last = l
		}
	})
}

// The leader that has acknowledged a session is cut off together with its holder. The holder must have stopped before
// the others are given the lock.
func TestG3_StopBeforeTheNextStarts_IsolatedLeader(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		held := c.lock(c.session(leader), "x")
		other := c.others(leader)[0]
		waiting := c.session(other)
		got := make(chan *coord.Lock)
		go func() { got <- c.lock(waiting, "x") }()
		time.Sleep(time.Second)
		cut := time.Now()
		c.isolate(leader)
		select {
		case <-held.Lost():
		case <-got:
			t.Fatal("granted while the former holder may act")
		}
		if err := held.Check(); !errors.Is(err, coord.ErrSessionExpired) {
			t.Errorf("Check: %v", err)
		}
		next := <-got
		if err := next.Check(); err != nil {
			t.Error(err)
		}
		if d := time.Since(cut); d > 15*time.Second {
			t.Errorf("a dead holder was replaced after %v", d)
		}
		if next.Token() <= held.Token() {
			t.Errorf("token %v after %v", next.Token(), held.Token())
		}
	})
}
