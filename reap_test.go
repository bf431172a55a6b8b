package coord_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// What an ended session held is handed on 1,000 things at a time, so that others have their turn in between. If the
// leader dies on the way, the next one goes on from there.
func TestG6_TheNextLeaderHandsOnWhatIsLeft(t *testing.T) {
	for name, end := range map[string]func(c *cell, s *coord.Session, server int){
		"closed":  func(c *cell, s *coord.Session, _ int) { go s.Close(c.within(time.Minute)) },
		"expired": func(c *cell, _ *coord.Session, server int) { c.isolate(server) },
	} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, c *cell) {
				leader := c.leader()
				here, elsewhere := c.others(leader)[0], c.others(leader)[1]
				n := c.nodes[leader]
				s := c.session(here, coord.WithTTL(5*ttl))
				total := c.holdMuch(s)
				next := c.acquire(c.within(time.Hour), c.session(elsewhere, coord.WithTTL(time.Minute)), "lock 0")
				time.Sleep(ttl)

				end(c, s, here)
				for held(n) == total {
					time.Sleep(100 * time.Microsecond)
				}
				if left := held(n); left < total/2 {
					t.Fatalf("%d of %d things are left when the leader is killed: this test proves nothing", left, total)
				}
				c.kill(leader)
				c.lab.HealAll()
				killed := time.Now()
				if g := <-next; g.err != nil {
					t.Error(g.err)
				}
				for held(c.nodes[elsewhere]) > 1 { // the lock that has just been handed on
					if time.Since(killed) > 20*election {
						t.Fatalf("%d of %d things are still held", held(c.nodes[elsewhere]), total)
					}
					time.Sleep(election / 10)
				}
				c.lock(c.session(elsewhere), "lock 1")
			})
		})
	}
}

// held counts what the sessions hold in a cell without plain keys, as far as the server knows.
func held(n *coord.Node) int { return n.Status().Keys + n.Status().Locks }

// holdMuch gives a session thousands of keys and locks, and returns how many.
func (c *cell) holdMuch(s *coord.Session) int {
	const keys, perTxn, locks = 3000, 100, 3000
	for i := 0; i < keys; i += perTxn {
		var txn coord.Txn
		for j := range perTxn {
			txn.Then = append(txn.Then, coord.OpPut(fmt.Sprint("key ", i+j), nil))
		}
		if _, err := s.Txn(c.within(time.Minute), txn); err != nil {
			c.t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for i := range locks {
		all.Go(func() {
			if _, err := s.TryLock(c.within(time.Minute), fmt.Sprint("lock ", i)); err != nil {
				c.t.Error(err)
			}
		})
	}
	all.Wait()
	return keys + locks
}
