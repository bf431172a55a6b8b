package main

import (
	"context"
	"time"
)

// Clock is the jobs' clock: a minute of it takes a second. Every process derives it from the same two instants, so all
// agree on the minute as far as their wall clocks do. Nothing but the time of a run depends on that: who may run a job is
// the cell's to say.
type Clock struct {
	Start time.Time // the real instant at which the jobs' clock stands at First
	First time.Time
}

const speed = 60 // minutes of the jobs' clock in a real one

// Now is the present minute.
func (c Clock) Now() time.Time {
	return c.First.Add(time.Since(c.Start) * speed).Truncate(time.Minute)
}

// Wait returns when minute has come, or with ctx's cause.
func (c Clock) Wait(ctx context.Context, minute time.Time) error {
	timer := time.NewTimer(time.Until(c.Start.Add(minute.Sub(c.First) / speed)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hhmm is how a minute is shown.
func hhmm(minute time.Time) string { return minute.Format("15:04") }
