package transport

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// wallStep is how far the wall clock must have moved against the monotonic one before the kernel is asked. Reading
// both is not one step, so that a few microseconds mean nothing.
const wallStep = int64(time.Millisecond)

// clock is CLOCK_BOOTTIME: monotonic, and it goes on while the machine sleeps.
//
// Asking the kernel for it takes a system call, several times as long as the rest of checking a lease. Go reads the
// wall clock and CLOCK_MONOTONIC without one. A sleep of the machine moves the wall clock and CLOCK_BOOTTIME by its
// length, in one step, and leaves CLOCK_MONOTONIC alone; nothing else sets the latter two apart. So a clock
// remembers by how much they differ, and asks again when the wall clock has moved against CLOCK_MONOTONIC. If
// somebody has only set the wall clock, that was one system call for nothing. What the wall clock shows is never used.
type clock struct {
	read    func() (wall int64, monotonic time.Duration) // nanoseconds since 1970; time since the clock was made
	boot    func() time.Duration                         // CLOCK_BOOTTIME
	mu      sync.Mutex                                   // held while asking
	current atomic.Pointer[clockOffsets]
}

// clockOffsets are differences to monotonic.
type clockOffsets struct {
	wall int64
	boot time.Duration // never shrinks
}

func newClock() *clock {
	start := time.Now()
	read := func() (int64, time.Duration) {
		now := time.Now()
		return now.UnixNano(), now.Sub(start)
	}
	c := &clock{read: read, boot: bootTime}
	c.ask()
	return c
}

func (c *clock) now() time.Duration {
	wall, monotonic := c.read()
	offsets := c.current.Load()
	if step := wall - int64(monotonic) - offsets.wall; step > wallStep || step < -wallStep {
		offsets = c.ask()
	}
	return monotonic + offsets.boot
}

// ask measures the offsets anew. It may be interrupted between two readings, which makes the offset of
// CLOCK_BOOTTIME too large, so it keeps the smallest of a few; and never less than before, for the clock must not go
// back.
func (c *clock) ask() *clockOffsets {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next clockOffsets
	for i := range 3 {
		wall, monotonic := c.read()
		if boot := c.boot() - monotonic; i == 0 || boot < next.boot {
			next = clockOffsets{wall: wall - int64(monotonic), boot: boot}
		}
	}
	if last := c.current.Load(); last != nil {
		next.boot = max(next.boot, last.boot)
	}
	c.current.Store(&next)
	return &next
}

func bootTime() time.Duration {
	var ts unix.Timespec
	// It fails only for a clock that does not exist, and this one is older than any kernel that Go runs on.
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}
