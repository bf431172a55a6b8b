package transport

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock is CLOCK_BOOTTIME: monotonic, and it goes on while the machine sleeps.
type clock struct{}

func newClock() clock { return clock{} }

func (clock) now() time.Duration {
	var ts unix.Timespec
	// It fails only for a clock that does not exist, and this one is older than any kernel that Go runs on.
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}
