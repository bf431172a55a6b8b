package coordcell

import (
	"sync/atomic"
	"time"

	"github.com/coordcell/coord"
)

// counter counts renewals: those of a node travel together, and nobody but its sessions notices them. A session that
// may act for longer than a moment ago has been renewed in between.
type counter struct {
	seen   atomic.Int64
	done   chan struct{}
	ended  chan struct{}
	before []time.Duration
}

// count looks often enough to miss none: a session is renewed every third of its TTL, of at least a second.
func count(sessions []*coord.Session) *counter {
	const often = 100 * time.Millisecond
	c := &counter{done: make(chan struct{}), ended: make(chan struct{}), before: make([]time.Duration, len(sessions))}
	c.look(sessions)
	c.seen.Store(0) // they were not renewed just now
	go func() {
		defer close(c.ended)
		tick := time.NewTicker(often)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.look(sessions)
			case <-c.done:
				return
			}
		}
	}()
	return c
}

func (c *counter) look(sessions []*coord.Session) {
	for i, s := range sessions {
		now := s.Remaining()
		if now > c.before[i] {
			c.seen.Add(1)
		}
		c.before[i] = now
	}
}

func (c *counter) stop() {
	close(c.done)
	<-c.ended
}
