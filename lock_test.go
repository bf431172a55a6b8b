package coord_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord"
)

func TestG1_OneHolder_WaitersInOrder(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		last := c.lock(c.session(0), "x")
		var queue []<-chan grant
		var sessions []*coord.Session
		for i := range 6 {
			s := c.session(i % 3)
			sessions = append(sessions, s)
			queue = append(queue, c.acquire(c.within(time.Minute), s, "x"))
			time.Sleep(100 * time.Millisecond) // they queue in this order
		}
		for i := range queue {
			if err := last.Unlock(c.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
			g := <-queue[i]
			if g.err != nil {
				t.Fatal(g.err)
			}
			info, err := c.nodes[i%3].Lookup(c.within(time.Minute), "x")
			if err != nil {
				t.Fatal(err)
			}
			if len(info.Holders) != 1 || info.Holders[0].Token != g.lock.Token() || len(info.Queue) != len(queue)-1-i {
				t.Errorf("after hand-over %d: %v", i, info)
			}
			if info.Holders[0].Session != sessions[i].ID() {
				t.Errorf("hand-over %d: out of order", i)
			}
			if g.lock.Token() <= last.Token() {
				t.Errorf("token %v after %v", g.lock.Token(), last.Token())
			}
			last = g.lock
		}
	})
}

func TestG1_G2_OneHolderAndRisingTokens(t *testing.T) {
	disturbances := map[string]func(c *cell){
		"transfers": func(c *cell) {
			for i := range 6 {
				if err := c.nodes[c.leader()].TransferLeadership(c.within(10*time.Second), c.nodes[i%3].ID()); err != nil && i%3 != c.leader() {
					c.t.Error(err)
				}
				time.Sleep(time.Second)
			}
		},
		"the leader is killed": func(c *cell) {
			for range 3 {
				leader := c.leader()
				c.kill(leader)
				time.Sleep(2 * time.Second)
				c.start(leader)
				time.Sleep(2 * time.Second)
			}
		},
		"the leader is cut off": func(c *cell) {
			for range 3 {
				c.isolate(c.leader())
				time.Sleep(3 * time.Second)
				c.lab.HealAll()
				time.Sleep(2 * time.Second)
			}
		},
		"all are killed": func(c *cell) {
			for range 2 {
				c.killAll()
				c.startAll()
				time.Sleep(5 * time.Second)
			}
		},
		"all come back elsewhere": func(c *cell) {
			for range 2 {
				c.killAll()
				c.move()
				c.startAll()
				time.Sleep(5 * time.Second)
			}
		},
	}
	for name, disturb := range disturbances {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, c *cell) {
				r := &referee{t: t}
				stop := c.contenders(r, "x", 2)
				time.Sleep(2 * time.Second)
				before := r.count()
				disturb(c)
				after := r.count()
				time.Sleep(5 * time.Second)
				stop()
				if before < 10 || r.count() < after+10 {
					t.Errorf("grants: %d before, %d until the end of the disturbance, %d in all: no progress", before, after, r.count())
				}
				r.verdict()
			})
		})
	}
}

// Whenever the end of ctx meets the grant: an error means that nothing is held, and the lock is free for the next.
func TestG6_CancelAgainstGrant(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		holder, other := c.session(c.leader()), c.session(0)
		handed, cancelled := 0, 0
		for i := range 120 {
			late := time.Duration(i%30) * 200 * time.Microsecond
			held := c.lock(holder, "x")
			var opts []coord.LockOption
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			waiter := c.session(i % 3)
			if i%2 == 0 {
				opts = append(opts, coord.WithMaxWait(100*time.Millisecond))
			} else {
				time.AfterFunc(100*time.Millisecond, cancel)
			}
			got := c.acquire(ctx, waiter, "x", opts...)
			time.Sleep(97*time.Millisecond + late)
			if err := held.Unlock(c.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
			g := <-got
			cancel()
			switch {
			case g.err == nil:
				handed++
				if err := g.lock.Check(); err != nil {
					t.Errorf("granted, but %v", err)
				}
				if err := g.lock.Unlock(c.within(time.Minute)); err != nil {
					t.Errorf("granted, but unlock: %v", err)
				}
			case i%2 == 0 && errors.Is(g.err, coord.ErrLocked), i%2 == 1 && errors.Is(g.err, context.Canceled):
				cancelled++
			default:
				t.Error(g.err)
			}
			next, err := other.Lock(c.within(500*time.Millisecond), "x")
			if err != nil {
				info, _ := c.nodes[0].Lookup(c.within(time.Second), "x")
				t.Fatalf("after %v late (%v): %v; %v", late, g.err, err, info)
			}
			if err := next.Unlock(c.within(time.Minute)); err != nil {
				t.Error(err)
			}
			if err := waiter.Close(c.within(time.Minute)); err != nil {
				t.Error(err)
			}
		}
		if handed == 0 || cancelled == 0 {
			t.Errorf("%d were handed on, %d cancelled: the race was not met", handed, cancelled)
		}
		synctest.Wait()
	})
}

// Of a queue over all servers one waiter gives up, one waits no longer than it said, and one dies with its server. The
// others are granted in the order in which they asked, and no ghost holds them up for longer than its TTL.
func TestG6_TheDeadAndTheCancelledAreSkipped(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		dead := c.others(c.leader())[0]
		a, b := c.others(dead)[0], c.others(dead)[1]
		held := c.lock(c.session(a), "x")
		wait := func(ctx context.Context, server int, opts ...coord.LockOption) <-chan grant {
			got := c.acquire(ctx, c.session(server, coord.WithTTL(3*ttl)), "x", opts...)
			time.Sleep(10 * time.Millisecond)
			return got
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := wait(t.Context(), b)
		cancelled := wait(ctx, a)
		killed := wait(t.Context(), dead)
		impatient := wait(t.Context(), b, coord.WithMaxWait(100*time.Millisecond))
		last := wait(t.Context(), a)
		cancel()
		if g := <-cancelled; !errors.Is(g.err, context.Canceled) {
			t.Errorf("cancelled: %v", g.err)
		}
		if g := <-impatient; !errors.Is(g.err, coord.ErrLocked) {
			t.Errorf("after its longest wait: %v", g.err)
		}
		c.kill(dead)
		if g := <-killed; !errors.Is(g.err, coord.ErrClosed) {
			t.Errorf("on a killed server: %v", g.err)
		}
		if err := held.Unlock(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		g := <-first
		if g.err != nil {
			t.Fatal(g.err)
		}
		freed := time.Now()
		if err := g.lock.Unlock(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if g := <-last; g.err != nil {
			t.Fatal(g.err)
		}
		if d := time.Since(freed); d > 3*ttl+time.Second {
			t.Errorf("the last one waited %v behind a dead one", d)
		}
		if info, err := c.nodes[a].Lookup(c.within(time.Minute), "x"); err != nil || len(info.Queue) != 0 {
			t.Errorf("%v, %v", info, err)
		}
	})
}

func TestTryLockNeverWaits(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		s, other := c.session(1), c.session(2)
		held, err := s.TryLock(c.within(time.Minute), "x")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*coord.Session{s, other} { // each call is an acquisition of its own
			began := time.Now()
			if _, err := s.TryLock(c.within(time.Minute), "x"); !errors.Is(err, coord.ErrLocked) {
				t.Errorf("%v", err)
			}
			if d := time.Since(began); d > 100*time.Millisecond {
				t.Errorf("it waited %v", d)
			}
		}
		if _, err := other.TryLock(c.within(time.Minute), "x", coord.WithMaxWait(time.Second)); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("with a longest wait: %v", err)
		}
		if err := held.Unlock(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := other.TryLock(c.within(time.Minute), "x"); err != nil {
			t.Error(err)
		}
	})
}

// The holder stops with the call of Unlock, not with its answer, and the release goes on when ctx has ended.
func TestUnlockStopsFirst(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		far := c.others(c.leader())[0]
		s := c.session(far, coord.WithTTL(time.Minute))
		held := c.lock(s, "x")
		c.isolate(far)
		if err := held.Unlock(c.within(300 * time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Unlock: %v", err)
		}
		lost(t, held, coord.ErrUnlocked)
		again := make(chan error)
		go func() { again <- held.Unlock(t.Context()) }()
		time.Sleep(time.Second)
		c.lab.HealAll()
		if err := <-again; err != nil {
			t.Errorf("a second Unlock: %v", err)
		}
		if _, err := c.session(c.leader()).TryLock(c.within(time.Minute), "x"); err != nil {
			t.Error(err)
		}
		if err := held.Unlock(c.within(time.Minute)); err != nil {
			t.Errorf("a third Unlock: %v", err)
		}
	})
}

func TestDo(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		far := c.others(c.leader())[0]
		s, other := c.session(far, coord.WithTTL(4*ttl)), c.session(c.leader(), coord.WithTTL(time.Minute))
		type key struct{}
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, 1))
		enough, wrong := errors.New("enough"), errors.New("wrong")
		busy := func() bool {
			l, err := other.TryLock(c.within(time.Minute), "x")
			if err == nil {
				l.Unlock(c.within(time.Minute))
			}
			return errors.Is(err, coord.ErrLocked)
		}
		err := s.Do(ctx, "x", func(ctx context.Context, l *coord.Lock) error {
			if ctx.Value(key{}) != 1 || ctx.Err() != nil || l.Check() != nil {
				t.Errorf("in Do: %v, %v, %v", ctx.Value(key{}), ctx.Err(), l.Check())
			}
			cancel(enough)
			<-ctx.Done()
			if context.Cause(ctx) != enough {
				t.Errorf("cause: %v", context.Cause(ctx))
			}
			time.Sleep(2 * ttl) // it takes its time
			if !busy() {
				t.Error("released while fn runs")
			}
			return wrong
		})
		if err != wrong {
			t.Errorf("Do: %v", err)
		}
		time.Sleep(50 * time.Millisecond) // ctx has ended: the release is not waited for
		if busy() {
			t.Error("held after fn has returned")
		}
		func() {
			defer func() {
				if p := recover(); p != "oops" {
					t.Errorf("recovered %v", p)
				}
			}()
			s.Do(t.Context(), "x", func(context.Context, *coord.Lock) error { panic("oops") })
		}()
		if busy() {
			t.Error("held after a panic")
		}
		err = s.Do(t.Context(), "x", func(ctx context.Context, l *coord.Lock) error {
			c.isolate(far)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), coord.ErrSessionExpired) {
				t.Errorf("cause: %v", context.Cause(ctx))
			}
			c.lab.HealAll()
			return nil
		})
		if !errors.Is(err, coord.ErrSessionExpired) {
			t.Errorf("lost meanwhile: %v", err)
		}
	})
}
