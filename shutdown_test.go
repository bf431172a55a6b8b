package coord_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// What a node still has to tell the cell when it shuts down is told first, also where that has to wait for a new leader:
// a second Shutdown does not cut the first one short, nor does the first cut short a Close that goes on in the background.
func TestShutdown_TellsTheCellFirst(t *testing.T) {
	for name, leave := range map[string]func(c *cell, n *coord.Node, s *coord.Session){
		"Shutdown, twice": func(c *cell, n *coord.Node, s *coord.Session) {
			var calls sync.WaitGroup
			defer calls.Wait()
			for range 2 {
				calls.Go(func() {
					if err := n.Shutdown(c.within(time.Minute)); err != nil {
						c.t.Error(err)
					}
				})
				time.Sleep(time.Millisecond)
			}
		},
		"Close in the background, Shutdown": func(c *cell, n *coord.Node, s *coord.Session) {
			ended, cancel := context.WithCancel(c.t.Context())
			cancel()
			if err := s.Close(ended); !errors.Is(err, context.Canceled) {
				c.t.Errorf("Close: %v", err)
			}
			time.Sleep(time.Millisecond)
			if err := n.Shutdown(c.within(time.Minute)); err != nil {
				c.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, c *cell) {
				leader := c.leader()
				leaves, waits := c.others(leader)[0], c.others(leader)[1]
				s := c.session(leaves, coord.WithTTL(time.Minute))
				c.lock(s, "x")
				got := c.acquire(c.within(30*time.Second), c.session(waits, coord.WithTTL(time.Minute)), "x")
				time.Sleep(time.Second)
				n := c.node(leaves)
				c.kill(leader)
				leave(c, n, s)
				c.nodes[leaves] = nil
				c.start(leader)
				if g := <-got; g.err != nil {
					t.Errorf("what the session held is not free: %v", g.err)
				}
			})
		})
	}
}

// Shutdown and Close by many at once, all of whom wait until the node has stopped.
func TestShutdown_ByManyAtOnce(t *testing.T) {
	inCell(t, 1, func(t *testing.T, c *cell) {
		n := c.node(0)
		c.session(0)
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				if i%2 == 0 {
					_ = n.Shutdown(c.within(time.Minute))
				} else {
					time.Sleep(time.Millisecond)
					_ = n.Close()
				}
				if err := n.Err(); !errors.Is(err, coord.ErrClosed) {
					t.Errorf("Err: %v", err)
				}
			})
		}
		calls.Wait()
	})
}
