package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// suspendable is a lease of 10 s with a minute of grace, and a hold.
func suspendable(t *testing.T, c *clock) (*Lease, *Hold) {
	t.Helper()
	l := New(10*time.Second, time.Minute, c.now, c.now())
	t.Cleanup(func() { l.End(errReleased) })
	h, err := l.Hold(context.WithValue(t.Context(), clock{}, "value"))
	if err != nil {
		t.Fatal(err)
	}
	return l, h
}

func TestG3_SuspendedMayNotAct(t *testing.T) {
	for name, jump := range map[string]bool{"by the timer": false, "by the call after a sleep": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClock(1)
				l, h := suspendable(t, c)
				before, whole := h.Context(), l.Context()
				if jump {
					c.jump(9900 * time.Millisecond)
				} else {
					time.Sleep(9900 * time.Millisecond)
					synctest.Wait()
					if !errors.Is(context.Cause(before), ErrSuspended) || !errors.Is(context.Cause(whole), ErrSuspended) {
						t.Errorf("the contexts' causes are %v and %v", context.Cause(before), context.Cause(whole))
					}
				}
				if err := h.Check(); !errors.Is(err, ErrSuspended) {
					t.Errorf("Check: %v", err)
				}
				if l.Alive() || l.State() != Suspended || l.Remaining() > 0 || h.Remaining() > 0 {
					t.Errorf("alive %v, state %v, remaining %v and %v", l.Alive(), l.State(), l.Remaining(), h.Remaining())
				}
				if l.Err() != nil || h.Err() != nil || closed(l.Done()) || closed(h.Done()) {
					t.Errorf("it has ended: %v, %v", l.Err(), h.Err())
				}
				for _, ctx := range []context.Context{before, whole, h.Context(), l.Context()} {
					if !errors.Is(context.Cause(ctx), ErrSuspended) {
						t.Errorf("the context's cause is %v", context.Cause(ctx))
					}
				}
				if _, err := l.Hold(t.Context()); !errors.Is(err, ErrSuspended) {
					t.Errorf("a grant was handed out: %v", err)
				}
			})
		})
	}
}

func TestG3_RevivalIsTheSameHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(1)
		l, h := suspendable(t, c)
		before, lost := h.Context(), h.Done()
		for range 3 {
			time.Sleep(30 * time.Second)
			late := l.Resumed()
			if l.Renewed(c.now()-9900*time.Millisecond) || l.Alive() {
				t.Fatal("an acknowledgement whose lease is over revived it")
			}
			if closed(late) {
				t.Fatal("Resumed was closed")
			}
			if !l.Renewed(c.now()-5*time.Second) || h.Check() != nil || l.State() != Live {
				t.Fatalf("not revived: %v", h.Check())
			}
			if !closed(late) || !closed(l.Resumed()) {
				t.Error("Resumed is open")
			}
			if left := h.Remaining(); left != 4900*time.Millisecond {
				t.Errorf("%v left, want 4.9s", left)
			}
			if before.Err() == nil || h.Context().Err() != nil || l.Context().Err() != nil || h.Context().Value(clock{}) != "value" {
				t.Errorf("contexts: before %v, now %v", before.Err(), h.Context().Err())
			}
			if closed(lost) {
				t.Error("Lost is closed")
			}
			before = h.Context()
			// The timer was set to the end of the grace period.
			time.Sleep(4900 * time.Millisecond)
			synctest.Wait()
			if before.Err() == nil {
				t.Error("a lease that was revived did not stop at its deadline")
			}
		}
	})
}

func TestG3_GraceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(1)
		l, h := suspendable(t, c)
		lost, resumed := h.Done(), make(chan struct{})
		time.Sleep(20 * time.Second)
		l.Renewed(5 * time.Second) // moves D to 14.9 s: too late to revive, but the grace period counts from it
		go func() { <-l.Resumed(); close(resumed) }()
		time.Sleep(54900*time.Millisecond - 1)
		synctest.Wait()
		if closed(l.Done()) || closed(lost) || closed(resumed) {
			t.Fatal("over before its time")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !closed(l.Done()) || !closed(lost) || !closed(resumed) || !errors.Is(l.Err(), ErrExpired) || !errors.Is(h.Err(), ErrExpired) || !errors.Is(h.Check(), ErrExpired) {
			t.Errorf("not over: %v, %v", l.Err(), h.Check())
		}
		if l.Renewed(c.now()) || l.State() != Ended {
			t.Error("revived after its grace period")
		}
	})
}

func TestG3_NoGraceForASessionThatNeverLived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(1)
		time.Sleep(10 * time.Second)
		if l := New(10*time.Second, time.Hour, c.now, 0); l.State() != Ended || !closed(l.Done()) {
			t.Errorf("state %v", l.State())
		}
	})
}

func TestChangesTellTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(1)
		l, _ := suspendable(t, c)
		changes := l.Changes()
		next := func() State {
			select {
			case s, ok := <-changes:
				if ok {
					return s
				}
			default:
			}
			return 0
		}
		if next() != 0 {
			t.Error("a change that was none")
		}
		c.jump(11 * time.Second)
		l.Tick()
		if s := next(); s != Suspended || next() != 0 {
			t.Errorf("%v, want Suspended, once", s)
		}
		l.Renewed(c.now())
		c.jump(11 * time.Second)
		l.Tick()
		l.Renewed(c.now())
		if s := next(); s != Live || next() != 0 {
			t.Errorf("%v, want Live, the latest", s)
		}
		l.End(errReleased)
		if s := next(); s != Ended {
			t.Errorf("%v, want Ended", s)
		}
		if _, open := <-changes; open || l.Changes() != changes {
			t.Error("open after the end, or another one")
		}
		late := New(time.Second, 0, c.now, c.now())
		late.End(errReleased)
		if s := <-late.Changes(); s != Ended {
			t.Errorf("%v, want Ended of one that had ended before it was asked", s)
		}
		if _, open := <-late.Changes(); open {
			t.Error("open after the end")
		}
	})
}

func TestG3_LeaseOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(1)
		l := New(10*time.Second, 0, c.now, 0)
		h, err := l.HoldFor(t.Context(), 2*time.Second, c.now())
		if err != nil {
			t.Fatal(err)
		}
		if left := h.Remaining(); left != 1980*time.Millisecond {
			t.Errorf("%v left, want 1.98s", left)
		}
		time.Sleep(time.Second)
		if !h.Refreshed(c.now()) || !h.Refreshed(0) { // the second was overtaken, and shortens nothing
			t.Fatal("a refresh in time was refused")
		}
		if left := h.Remaining(); left != 1980*time.Millisecond {
			t.Errorf("%v left after the refresh, want 1.98s", left)
		}
		lost := h.Done()
		time.Sleep(1980*time.Millisecond - 1)
		synctest.Wait()
		if closed(lost) || h.Check() != nil {
			t.Fatal("lost before its time")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !closed(lost) || !errors.Is(h.Check(), ErrLockExpired) || !errors.Is(context.Cause(h.Context()), ErrLockExpired) {
			t.Errorf("not lost by its timer: %v", h.Check())
		}
		if h.Refreshed(c.now()) || h.Check() == nil {
			t.Error("a refresh revived it")
		}
		if l.Err() != nil || len(l.leased) != 0 || l.holds != nil {
			t.Errorf("the session: %v, %d kept", l.Err(), len(l.leased))
		}
		if _, err := l.HoldFor(t.Context(), time.Second, c.now()-990*time.Millisecond); !errors.Is(err, ErrLockExpired) {
			t.Errorf("a grant that came too late was handed out: %v", err)
		}
		l.End(errReleased)
	})
}

// After a sleep of the machine the first call, or a tick, finds that the hold's own lease is over; and the earlier of
// the two leases counts.
func TestG3_TheEarlierLeaseCounts(t *testing.T) {
	for name, call := range map[string]func(*Lease, *Hold){
		"tick":      func(l *Lease, _ *Hold) { l.Tick() },
		"check":     func(_ *Lease, h *Hold) { _ = h.Check() },
		"err":       func(_ *Lease, h *Hold) { _ = h.Err() },
		"context":   func(_ *Lease, h *Hold) { _ = h.Context() },
		"remaining": func(_ *Lease, h *Hold) { h.Remaining() },
		"refreshed": func(_ *Lease, h *Hold) { h.Refreshed(0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClock(1)
				l, h := suspendable(t, c)
				leased, err := l.HoldFor(t.Context(), 5*time.Second, 0)
				if err != nil {
					t.Fatal(err)
				}
				lost := leased.Done()
				c.jump(5 * time.Second)
				call(l, leased)
				if !closed(lost) || h.Check() != nil {
					t.Errorf("its own lease is over: lost %v; the other: %v", closed(lost), h.Check())
				}
				if other, err := l.HoldFor(t.Context(), 9*time.Second, c.now()); err != nil {
					t.Error(err)
				} else if c.jump(5 * time.Second); !errors.Is(other.Check(), ErrSuspended) {
					t.Errorf("the session's lease is over: %v", other.Check())
				} else if c.jump(4 * time.Second); !errors.Is(other.Check(), ErrLockExpired) {
					t.Errorf("a lock's own lease has no grace: %v", other.Check())
				}
			})
		})
	}
}
