package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/fsm"
)

// cell answers the messages of a Renewer and remembers them.
type cell struct {
	now    func() time.Duration
	answer func(ctx context.Context, number uint64, ids []fsm.SessionID) (Reply, error)

	mu      sync.Mutex
	numbers []uint64
	at      []time.Duration
	ids     [][]fsm.SessionID
	flying  int
	most    int
}

func (c *cell) send(ctx context.Context, number uint64, ids []fsm.SessionID) (Reply, error) {
	c.mu.Lock()
	c.numbers = append(c.numbers, number)
	c.at = append(c.at, c.now())
	slices.Sort(ids)
	c.ids = append(c.ids, ids)
	c.flying++
	c.most = max(c.most, c.flying)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.flying--
		c.mu.Unlock()
	}()
	if c.answer == nil {
		return Reply{}, nil
	}
	return c.answer(ctx, number, ids)
}

func (c *cell) messages() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.numbers)
}

// renewing runs test beside a running Renewer, in a bubble that ends only when every goroutine has.
func renewing(t *testing.T, answer func(ctx context.Context, number uint64, ids []fsm.SessionID) (Reply, error),
	test func(t *testing.T, c *cell, r *Renewer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cell{now: newClock(1).now, answer: answer}
		r := NewRenewer(c.now, c.send)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		defer func() { // also after a t.Fatal
			cancel()
			<-ended
			for _, s := range r.sessions {
				s.lease.End(errReleased)
			}
		}()
		test(t, c, r)
		cancel()
		<-ended
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.flying != 0 {
			t.Errorf("Run returned with %d sends under way", c.flying)
		}
		if !slices.IsSorted(c.numbers) || len(slices.Compact(slices.Clone(c.numbers))) != len(c.numbers) {
			t.Errorf("numbers do not rise: %v", c.numbers)
		}
	})
}

// pass lets time pass, and all that happens in it happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func add(r *Renewer, id fsm.SessionID, ttl time.Duration) *Lease {
	l := New(ttl, 0, r.now, r.now())
	r.Add(id, l)
	return l
}

func TestRenewerSendsOneMessageAnInterval(t *testing.T) {
	renewing(t, nil, func(t *testing.T, c *cell, r *Renewer) {
		const sessions, ttl = 100, 10 * time.Second
		for id := range fsm.SessionID(sessions) {
			add(r, id, ttl)
			time.Sleep(31 * time.Millisecond)
		}
		pass(ttl) // to find together
		before := c.messages()
		pass(10 * ttl)
		if got := c.messages() - before; got < 30 || got > 34 {
			t.Errorf("%d messages in ten TTLs, want 30 to 34", got)
		}
		if last := c.ids[len(c.ids)-1]; len(last) != sessions {
			t.Errorf("%d sessions in a message, want %d", len(last), sessions)
		}
	})
}

func TestRenewerServesShortAndLongTTLs(t *testing.T) {
	renewing(t, nil, func(t *testing.T, c *cell, r *Renewer) {
		short, long := add(r, 1, time.Second), add(r, 2, time.Hour)
		pass(2 * time.Hour)
		if !short.Alive() || !long.Alive() {
			t.Errorf("short %v, long %v", short.Err(), long.Err())
		}
		carried := 0
		for _, ids := range c.ids {
			if slices.Contains(ids, 2) {
				carried++
			}
		}
		if carried < 6 || carried > 7 {
			t.Errorf("the session of an hour travelled %d times in two hours", carried)
		}
	})
}

// What counts is the moment before the message left, so a slow answer must not lengthen the life.
func TestG3_RenewalCountsFromItsSend(t *testing.T) {
	slow := func(ctx context.Context, _ uint64, _ []fsm.SessionID) (Reply, error) {
		time.Sleep(700 * time.Millisecond)
		return Reply{}, ctx.Err()
	}
	renewing(t, slow, func(t *testing.T, c *cell, r *Renewer) {
		l := add(r, 1, 10*time.Second)
		pass(4300 * time.Millisecond)
		if c.messages() != 1 {
			t.Fatalf("%d messages, want 1", c.messages())
		}
		if want := c.at[0] + 9900*time.Millisecond - c.now(); l.Remaining() != want {
			t.Errorf("%v left, want %v", l.Remaining(), want)
		}
	})
}

// A renewer that sleeps until a long session is due wakes up for a short one that is added meanwhile.
func TestRenewerWakesForAShorterSession(t *testing.T) {
	renewing(t, nil, func(t *testing.T, c *cell, r *Renewer) {
		long := add(r, 1, time.Minute)
		pass(time.Second) // its timer is set
		short := add(r, 2, time.Second)
		pass(5 * time.Second)
		if !short.Alive() || !long.Alive() {
			t.Errorf("short %v, long %v", short.Err(), long.Err())
		}
	})
}

func TestRenewerRetriesFailuresSoon(t *testing.T) {
	failing := func(_ context.Context, number uint64, _ []fsm.SessionID) (Reply, error) {
		if number == 1 || number > 3 {
			return Reply{}, errors.New("no leader")
		}
		return Reply{}, nil
	}
	renewing(t, failing, func(t *testing.T, c *cell, r *Renewer) {
		l := add(r, 1, 10*time.Second)
		pass(3500 * time.Millisecond)
		if c.messages() != 2 || c.at[1]-c.at[0] > minRetry {
			t.Fatalf("%d messages at %v, want the second within %v", c.messages(), c.at, minRetry)
		}
		pass(20 * time.Second) // never answered again
		if !errors.Is(l.Err(), ErrExpired) {
			t.Fatalf("the lease ended with %v", l.Err())
		}
		if n := c.messages(); n < 10 || n > 25 {
			t.Errorf("%d messages in a life without answers: the tries must become rarer, and go on", n)
		}
		n := c.messages()
		pass(time.Minute)
		if c.messages() != n {
			t.Error("an ended lease is still renewed")
		}
	})
}

func TestRenewerIsNotHeldUpByAStuckSend(t *testing.T) {
	stuck := func(ctx context.Context, number uint64, _ []fsm.SessionID) (Reply, error) {
		if number%3 != 0 {
			<-ctx.Done()
			return Reply{}, ctx.Err()
		}
		return Reply{}, nil
	}
	renewing(t, stuck, func(t *testing.T, c *cell, r *Renewer) {
		short, long := add(r, 1, time.Second), add(r, 2, 10*time.Second)
		pass(time.Minute)
		if !short.Alive() || !long.Alive() {
			t.Errorf("short %v, long %v", short.Err(), long.Err())
		}
		if c.most != maxInFlight {
			t.Errorf("%d messages in flight, want %d at most", c.most, maxInFlight)
		}
	})
}

func TestRenewerAppliesTheAnswer(t *testing.T) {
	partly := func(_ context.Context, _ uint64, ids []fsm.SessionID) (Reply, error) {
		return Reply{Dead: []fsm.SessionID{2}, Again: []fsm.SessionID{3}}, nil
	}
	renewing(t, partly, func(t *testing.T, c *cell, r *Renewer) {
		live, dead, silent := add(r, 1, 10*time.Second), add(r, 2, 10*time.Second), add(r, 3, 10*time.Second)
		pass(3400 * time.Millisecond)
		if !live.Alive() || !errors.Is(dead.Err(), ErrExpired) || !silent.Alive() {
			t.Errorf("live %v, dead %v, silent %v", live.Err(), dead.Err(), silent.Err())
		}
		pass(6500 * time.Millisecond)
		if !live.Alive() || silent.Alive() {
			t.Errorf("after a TTL: live %v, silent %v", live.Err(), silent.Err())
		}
		r.Remove(1)
		n := c.messages()
		pass(time.Minute)
		if c.messages() != n || live.Alive() {
			t.Errorf("a removed session was renewed")
		}
	})
}

// A machine that sleeps wakes with its timers set to long after the lease's end.
func TestRenewerWakesWithTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := newClock(1)
		c := &cell{now: clk.now}
		r := NewRenewer(clk.now, c.send)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		l, lost := add(r, 1, time.Minute), add(r, 2, 10*time.Second)
		synctest.Wait()
		clk.jump(30 * time.Second)
		r.Tick()
		synctest.Wait()
		if c.messages() != 1 || l.Remaining() != time.Minute-Margin(time.Minute) {
			t.Errorf("%d messages, %v left", c.messages(), l.Remaining())
		}
		if !closed(lost.Done()) {
			t.Error("a tick left a lease whose time is up")
		}
		cancel()
		<-ended
		l.End(errReleased)
	})
}
