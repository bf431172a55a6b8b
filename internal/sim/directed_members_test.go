package sim_test

import (
	"testing"
	"time"
)

// A server joins while another one is away, whom it so never meets. When all whom it knows have gone, and the one that
// was away comes back with a list of addresses that is out of date, only the cell's state has told it where to look.
func TestG8_DirectedAMemberThatWasNeverMetIsFound(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		time.Sleep(5 * time.Second) // the addresses are on the disks
		away := c.others(c.leads())[0]
		first, second := c.others(away)[0], c.others(away)[1]
		id := c.nodes[away].ID()
		c.kill(away)
		time.Sleep(time.Minute) // nobody gossips about it any more
		cfg := c.config(3)
		cfg.Join, cfg.Expect = []string{addr(first), addr(second)}, 0
		c.start(3, cfg)
		c.ready()
		time.Sleep(5 * time.Second)
		c.kill(first)
		c.kill(second)
		cfg = c.config(away)
		cfg.Join = []string{"nowhere:1"}
		c.start(away, cfg)
		for range 120 {
			for _, m := range c.nodes[3].Members() {
				if m.ID == id && m.Alive {
					return
				}
			}
			time.Sleep(time.Second)
		}
		t.Errorf("it was not found in two minutes: %+v", c.nodes[3].Members())
	})
}
