package sim_test

import (
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// A deposed leader that does not know it yet acknowledges the refresh of a lock's own lease. The new leader, which has
// begun to count, knows nothing of it.
func TestG3_DirectedDeposedLeaderAcknowledgesARefresh(t *testing.T) {
	const election, ttl = time.Second, 4 * time.Second
	inCellOf(t, 3, election, func(t *testing.T, c *cell) {
		old := c.leads()
		heir, third := c.others(old)[0], c.others(old)[1]
		held, err := c.session(old, time.Minute).Lock(c.within(time.Minute), "x", coord.WithLockTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		stopped := c.granted(c.session(heir, time.Minute), "x", held)
		time.Sleep(ttl / 2)
		go func() { _ = c.nodes[old].TransferLeadership(c.within(time.Minute), c.nodes[heir].ID()) }()
		time.Sleep(100 * time.Microsecond) // it has asked the heir to stand for election
		for _, i := range []int{heir, third} {
			c.lab.SetDelay(addr(i), addr(old), 4*election/5)
		}
		time.Sleep(election / 2)
		if !c.nodes[heir].Status().IsLeader || !c.nodes[old].Status().IsLeader {
			t.Error("there is no new leader yet, or the old one knows of it: this test proves nothing")
		}
		ctx := c.within(election / 10)
		_ = held.Refresh(ctx)
		c.isolate(old)
		if err := <-stopped; err == nil {
			t.Error("the former holder may act when the next one holds")
		}
	})
}
