//go:build !linux

package transport

import "time"

// clock is the time since the endpoint's start by Go's monotonic clock. On some systems that clock stands still
// while the machine sleeps; a node there must not be put to sleep while it holds anything.
type clock struct{ start time.Time }

func newClock() *clock { return &clock{start: time.Now()} }

func (c *clock) now() time.Duration { return time.Since(c.start) }
