package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

var errReleased = errors.New("released")

// clock is a lease clock that ticks at a rate of its own, and jumps when told to.
type clock struct {
	start  time.Time
	rate   float64
	jumped atomic.Int64
}

func newClock(rate float64) *clock { return &clock{start: time.Now(), rate: rate} }

func (c *clock) now() time.Duration {
	return time.Duration(float64(time.Since(c.start))*c.rate) + time.Duration(c.jumped.Load())
}

func (c *clock) jump(d time.Duration) { c.jumped.Add(int64(d)) }

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// The leader counts one TTL from the moment a renewal reached it, at best the moment at which it was sent.
func TestG3_HolderStopsBeforeTheLeaderExpires(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 10 * time.Second, 24 * time.Hour} {
		for _, holder := range []float64{0.999, 1, 1.001} {
			for _, leader := range []float64{0.999, 1, 1.001} {
				t.Run(fmt.Sprintf("%v/holder%v/leader%v", ttl, holder, leader), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						hc, lc := newClock(holder), newClock(leader)
						l := New(ttl, 0, hc.now, hc.now())
						for range 3 {
							time.Sleep(ttl / 3)
							sent := hc.now()
							time.Sleep(time.Millisecond)
							if !l.Renewed(sent) {
								t.Fatal("a renewal in time was refused")
							}
						}
						sent, arrived := hc.now(), lc.now()
						l.Renewed(sent)
						for lc.now() < arrived+ttl {
							time.Sleep(max(time.Nanosecond, (arrived+ttl-lc.now())/2))
						}
						if l.Alive() {
							t.Errorf("the leader's time is up, the holder still has %v", l.Remaining())
						}
						if !closed(l.Done()) {
							t.Error("Done is open")
						}
						if naked := sent + ttl - hc.now(); holder < leader && naked <= 0 {
							t.Errorf("the margin bears nothing here: %v would be left without", naked)
						}
					})
				})
			}
		}
	}
}

func TestG3_MarginBearsTheClockError(t *testing.T) {
	const rho = 0.001
	for ttl := time.Second; ttl <= 24*time.Hour; ttl += 977 * time.Millisecond {
		if need := time.Duration(2 * rho / (1 + rho) * float64(ttl)); Margin(ttl) < need {
			t.Fatalf("Margin(%v) = %v, needed %v", ttl, Margin(ttl), need)
		}
	}
}

func TestG3_LateAcknowledgementRevivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(1)
		l := New(10*time.Second, 0, c.now, 0)
		c.jump(9900 * time.Millisecond) // the deadline itself; the timer knows nothing of it
		if l.Renewed(9 * time.Second) {
			t.Error("an acknowledgement at the deadline revived the lease")
		}
		if l.Alive() || !closed(l.Done()) || !errors.Is(l.Err(), ErrExpired) {
			t.Errorf("alive %v, done %v, err %v", l.Alive(), closed(l.Done()), l.Err())
		}
		if l.Renewed(c.now()) {
			t.Error("a later acknowledgement revived the lease")
		}
	})
}

func TestG3_FirstAttemptCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(1)
		first := c.now()
		time.Sleep(4 * time.Second) // the attempts that were not answered
		l := New(10*time.Second, 0, c.now, first)
		if left := l.Remaining(); left != 5900*time.Millisecond {
			t.Errorf("%v left, want 5.9s", left)
		}
		time.Sleep(6 * time.Second)
		if late := New(10*time.Second, 0, c.now, first); late.Alive() || !closed(late.Done()) {
			t.Error("a session whose creation took a TTL is alive")
		}
	})
}

func TestG3_AcknowledgementsNeverShorten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(1)
		l := New(10*time.Second, 0, c.now, 0)
		time.Sleep(6 * time.Second)
		l.Renewed(5 * time.Second)
		l.Renewed(3 * time.Second) // overtaken on its way
		if left := l.Remaining(); left != 8900*time.Millisecond {
			t.Errorf("%v left, want 8.9s", left)
		}
		l.End(errReleased)
	})
}

func TestG3_LostCloses(t *testing.T) {
	tests := map[string]struct {
		rate  float64
		sleep time.Duration // by the timer's clock
		jump  time.Duration // of the lease clock alone: the machine slept
		call  func(*Lease, *Hold)
	}{
		"by the timer":               {1, 9900 * time.Millisecond, 0, nil},
		"by the timer, slow clock":   {0.999, 9911 * time.Millisecond, 0, nil},
		"by a tick after a sleep":    {1, time.Second, time.Hour, func(l *Lease, _ *Hold) { l.Tick() }},
		"by a reply after a sleep":   {1, time.Second, time.Hour, func(l *Lease, _ *Hold) { l.Renewed(0) }},
		"by Check after a sleep":     {1, time.Second, time.Hour, func(_ *Lease, h *Hold) { _ = h.Check() }},
		"by Context after a sleep":   {1, time.Second, time.Hour, func(_ *Lease, h *Hold) { h.Context() }},
		"by Remaining after a sleep": {1, time.Second, time.Hour, func(_ *Lease, h *Hold) { h.Remaining() }},
		"by a new hold after it":     {1, time.Second, time.Hour, func(l *Lease, _ *Hold) { _, _ = l.Hold(context.Background()) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClock(test.rate)
				l := New(10*time.Second, 0, c.now, 0)
				h, err := l.Hold(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				lost := h.Done()
				time.Sleep(test.sleep - time.Millisecond)
				if closed(l.Done()) || closed(lost) {
					t.Fatal("lost before its time")
				}
				time.Sleep(time.Millisecond)
				c.jump(test.jump)
				if test.call != nil {
					test.call(l, h)
				}
				synctest.Wait()
				if !closed(l.Done()) || !closed(lost) {
					t.Error("not closed")
				}
				if cause := context.Cause(h.Context()); !errors.Is(cause, ErrExpired) {
					t.Errorf("the context's cause is %v", cause)
				}
			})
		})
	}
}

func TestTimerFollowsRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(1)
		l := New(time.Second, 0, c.now, 0)
		for range 100 {
			time.Sleep(300 * time.Millisecond)
			l.Renewed(c.now())
		}
		time.Sleep(990*time.Millisecond - 1)
		synctest.Wait()
		if closed(l.Done()) {
			t.Fatal("closed before its time")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !closed(l.Done()) {
			t.Fatal("not closed in time")
		}
	})
}

func TestEndReachesEveryHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(10*time.Second, 0, newClock(1).now, 0)
		var holds []*Hold
		for range 1000 {
			h, err := l.Hold(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, h)
		}
		watched, released := holds[500], holds[501]
		lost := watched.Done()
		if !released.End(errReleased) || released.End(errReleased) {
			t.Error("End does not tell whether it ended the hold")
		}
		cause := errors.New("the node was closed")
		if !l.End(cause) || l.End(errReleased) || released.End(cause) {
			t.Error("End does not tell whether it ended the lease")
		}
		if !closed(lost) || context.Cause(l.Context()) != cause {
			t.Error("End returned before everybody was told")
		}
		for i, h := range holds {
			want := cause
			if h == released {
				want = errReleased
			}
			if err := h.Check(); err != want || context.Cause(h.Context()) != want || !closed(h.Done()) || h.Remaining() != 0 {
				t.Fatalf("hold %d: %v, cause %v", i, err, context.Cause(h.Context()))
			}
		}
		if _, err := l.Hold(t.Context()); err != cause {
			t.Errorf("a hold of an ended lease: %v", err)
		}
		if l.holds != nil {
			t.Error("the lease still keeps its holds")
		}
	})
}

func TestHoldContextHasValuesAndNotTheCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(10*time.Second, 0, newClock(1).now, 0)
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		h, err := l.Hold(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if h.Context().Err() != nil || h.Context().Value(key{}) != "value" {
			t.Errorf("err %v, value %v", h.Context().Err(), h.Context().Value(key{}))
		}
		h.End(errReleased)
		if context.Cause(h.Context()) != errReleased || l.Err() != nil {
			t.Errorf("cause %v, lease %v", context.Cause(h.Context()), l.Err())
		}
		l.End(errReleased)
	})
}

// Everything at once: one cause, seen by all; run with -race.
func TestOneCauseUnderRaces(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			c := newClock(1)
			l := New(10*time.Second, 0, c.now, 0)
			h, err := l.Hold(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			causes := []error{errors.New("first"), errors.New("second"), ErrExpired}
			var won atomic.Int32
			var all sync.WaitGroup
			for _, cause := range causes[:2] {
				all.Go(func() {
					if l.End(cause) {
						won.Add(1)
					}
				})
				all.Go(func() { _ = h.Check(); l.Renewed(0); _ = h.Context() })
			}
			all.Go(func() { c.jump(time.Minute); l.Tick() })
			all.Go(func() {
				<-h.Done()
				if h.Check() == nil || h.Check() != context.Cause(h.Context()) {
					t.Errorf("check %v, cause %v", h.Check(), context.Cause(h.Context()))
				}
			})
			all.Wait()
			if won.Load() > 1 || h.Err() != l.Err() || l.Err() != context.Cause(l.Context()) {
				t.Errorf("%d won; hold %v, lease %v, context %v", won.Load(), h.Err(), l.Err(), context.Cause(l.Context()))
			}
		})
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	l, h := held(t)
	if n := testing.AllocsPerRun(1000, func() {
		if h.Check() != nil || !l.Alive() {
			t.Error("not alive")
		}
	}); n != 0 {
		t.Errorf("%v allocations a Check", n)
	}
}

func TestHoldIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Hold{}); size > 64 {
		t.Errorf("a Hold takes %d bytes, want 64 at most", size)
	}
}

func held(t testing.TB) (*Lease, *Hold) {
	start := time.Now()
	l := New(time.Hour, 0, func() time.Duration { return time.Since(start) }, 0)
	t.Cleanup(func() { l.End(errReleased) })
	h, err := l.Hold(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return l, h
}

func BenchmarkCheck(b *testing.B) {
	_, h := held(b)
	b.ReportAllocs()
	for b.Loop() {
		if h.Check() != nil {
			b.Fatal("lost")
		}
	}
}

func BenchmarkHoldAndEnd(b *testing.B) {
	l, _ := held(b)
	b.ReportAllocs()
	for b.Loop() {
		h, err := l.Hold(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		h.End(errReleased)
	}
}
