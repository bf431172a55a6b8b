package transport

import (
	"testing"
	"time"
)

func TestG3_ClockCountsTheSleepOfTheMachine(t *testing.T) {
	const up = 1000 * time.Hour // before the clock was made
	var awake, asleep, set time.Duration
	asked := 0
	c := &clock{
		read: func() (int64, time.Duration) { return int64(up + awake + asleep + set), awake },
		boot: func() time.Duration { asked++; return up + awake + asleep },
	}
	c.ask()
	for _, step := range []struct {
		name  string
		of    *time.Duration
		by    time.Duration
		asked bool
	}{
		{"an hour passes", &awake, time.Hour, false},
		{"the machine sleeps", &asleep, 10 * time.Second, true},
		{"time passes", &awake, time.Second, false},
		{"it sleeps for a moment", &asleep, 2 * time.Millisecond, true},
		{"the wall clock is set back", &set, -24 * time.Hour, true},
		{"time passes", &awake, time.Second, false},
		{"the wall clock is set forward", &set, 100 * time.Hour, true},
		{"the machine sleeps long", &asleep, 1000 * time.Hour, true},
	} {
		*step.of += step.by
		asked = 0
		if got, want := c.now(), up+awake+asleep; got != want {
			t.Errorf("%s: the clock shows %v, want %v", step.name, got, want)
		}
		if (asked > 0) != step.asked {
			t.Errorf("%s: the kernel was asked %d times", step.name, asked)
		}
	}
}

func TestG3_ClockNeverGoesBack(t *testing.T) {
	c := newClock()
	c.boot = func() time.Duration { return bootTime() - time.Second } // worse than any noise
	before := c.now()
	c.ask()
	if now := c.now(); now < before {
		t.Errorf("the clock went from %v to %v", before, now)
	}
}

func TestClockIsBootTime(t *testing.T) {
	c := newClock()
	before, now, after := bootTime(), c.now(), bootTime()
	if now < before-time.Microsecond || now > after+time.Second {
		t.Errorf("the clock shows %v, CLOCK_BOOTTIME %v to %v", now, before, after)
	}
}

func BenchmarkClock(b *testing.B) {
	c := newClock()
	b.ReportAllocs()
	for b.Loop() {
		c.now()
	}
}

func BenchmarkBootTime(b *testing.B) {
	for b.Loop() {
		bootTime()
	}
}
