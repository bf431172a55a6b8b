package coord_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/lab"
)

// After the same entries every server has the same state, whatever happened while they were written.
func TestG10_ReplicasAgree(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		r := &referee{t: t}
		stop := c.contenders(r, "x", 2)
		for i := range 12 {
			time.Sleep(700 * time.Millisecond)
			leader := c.leader()
			if _, err := c.nodes[leader].Put(c.within(time.Minute), fmt.Sprint("k", i), []byte("v")); err != nil {
				t.Error(err)
			}
			switch i % 3 {
			case 0:
				c.kill(leader)
				c.start(leader)
			case 1:
				c.isolate(leader)
				time.Sleep(2 * ttl)
				c.lab.HealAll()
			default:
				c.lab.LoseReplies(c.addr(leader))
			}
		}
		stop()
		c.ready()
		time.Sleep(5 * ttl)
		index, hash := c.nodes[0].StateHash()
		for i, n := range c.nodes {
			if at, h := n.StateHash(); at != index || h != hash {
				t.Errorf("server %d: %x at entry %d; server 0: %x at entry %d", i, h, at, hash, index)
			}
		}
		r.verdict()
	})
}

// A server whose state has come to differ stops, whether it follows or leads; the others go on.
func TestG10_DamagedServerStops(t *testing.T) {
	often := func(_ int, cfg *coord.Config) { cfg.Transport.(*lab.Lab).SetCheckEvery(50) }
	for _, leads := range []bool{false, true} {
		t.Run(fmt.Sprintf("leader %v", leads), func(t *testing.T) {
			inTunedCell(t, 3, often, func(t *testing.T, c *cell) {
				damaged := c.leader()
				if !leads {
					damaged = c.others(damaged)[0]
				}
				well := c.others(damaged)
				write := func() {
					for i := range 120 {
						if _, err := c.nodes[well[i%2]].Put(c.within(time.Minute), fmt.Sprint(i), nil); err != nil {
							t.Fatal(err)
						}
					}
				}
				write()
				time.Sleep(10 * time.Second)
				for i, n := range c.nodes {
					if n.Err() != nil {
						t.Fatalf("server %d, before: %v", i, n.Err())
					}
				}
				synctest.Wait()
				c.nodes[damaged].Damage()
				write()
				select {
				case <-c.nodes[damaged].Done():
				case <-time.After(10 * time.Second):
					t.Fatal("it goes on")
				}
				if err := c.nodes[damaged].Err(); err == nil || !strings.Contains(err.Error(), "differs") {
					t.Errorf("it stopped: %v", err)
				}
				c.nodes[damaged] = nil
				write()
				for _, i := range well {
					if err := c.nodes[i].Err(); err != nil {
						t.Errorf("server %d: %v", i, err)
					}
				}
			})
		})
	}
}
