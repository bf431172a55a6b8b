package coord_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord"
)

// What users of other systems ran into: waiters, sessions, locks and goroutines that stay behind. docs/FAULTS.md has the
// table, with links.

// Saw: Lock was cancelled and returned no error, and its caller believed to hold.
// Here: whenever ctx ends, before, during or after the grant: an error means not held, none means held.
func TestFault_etcd10111_CancelledAtEveryInstant(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		s, other := c.session(c.others(c.leader())[0], coord.WithTTL(time.Minute)), c.session(c.leader(), coord.WithTTL(time.Minute))
		held := 0
		for i := range 60 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
			l, err := s.Lock(ctx, "x")
			cancel()
			switch {
			case err == nil && l.Check() == nil && c.holder(0, "x") == l.Token():
				held++
				c.unlock(l)
			case err == nil || !errors.Is(err, context.DeadlineExceeded) || l != nil:
				t.Fatalf("after %d × 100µs: %v, %v", i, l, err)
			}
			next, err := other.Lock(c.within(500*time.Millisecond), "x")
			if err != nil {
				t.Fatalf("after %d × 100µs: something is left: %v", i, err)
			}
			c.unlock(next)
		}
		if held == 0 || held == 60 {
			t.Errorf("held %d times: the race was not met", held)
		}
	})
}

// Saw: the reply to a waiter's entry is lost; the client makes another one, and the first, which nobody knows, gets the
// lock in the end and keeps it for as long as the session lives.
// Here: the request has a number, and is one entry of the queue however often it is sent.
func TestFault_gozookeeper229_OrphanInTheQueue(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		held := c.lock(c.session(leader, coord.WithTTL(time.Minute)), "x")
		s := c.session(c.others(leader)[0], coord.WithTTL(time.Minute))
		for i := range 12 {
			ctx, cancel := context.WithCancel(t.Context())
			got := c.acquire(ctx, s, "x")
			for range 4 { // each attempt is made, and lost
				time.Sleep(time.Duration(i) * 300 * time.Microsecond)
				c.lab.LoseReplies(c.addr(leader))
			}
			time.Sleep(time.Second)
			if n := c.queued(leader, "x"); n != 1 {
				t.Errorf("round %d: %d entries of one request", i, n)
			}
			cancel()
			if g := <-got; !errors.Is(g.err, context.Canceled) {
				t.Errorf("round %d: %v", i, g.err)
			}
			time.Sleep(200 * time.Millisecond)
			if n := c.queued(leader, "x"); n != 0 {
				t.Errorf("round %d: %d entries of nobody", i, n)
			}
		}
		c.unlock(held)
		if _, err := c.session(leader).TryLock(c.within(time.Minute), "x"); err != nil {
			t.Errorf("an orphan has it: %v", err)
		}
	})
}

// Saw: a lock call that failed kept its session in use for ever.
// Here: however a call fails, nothing of it is left in the cell, and its session can be closed.
func TestFault_hazelcast17697_FailedCallsHoldNothing(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		far := c.others(leader)[0]
		taken := c.lock(c.session(leader, coord.WithTTL(time.Minute)), "taken")
		s := c.session(far, coord.WithTTL(time.Minute))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		big := coord.WithData(make([]byte, 1<<20))
		for what, want := range map[string]error{
			"invalid": coord.ErrInvalid, "too large": coord.ErrTooLarge, "waited": coord.ErrLocked, "tried": coord.ErrLocked,
			"ended": context.Canceled, "timed out": context.DeadlineExceeded, "no leader": coord.ErrNoLeader,
		} {
			var err error
			switch what {
			case "invalid":
				_, err = s.Lock(t.Context(), "")
			case "too large":
				_, err = s.Lock(t.Context(), "taken", big)
			case "waited":
				_, err = s.Lock(t.Context(), "taken", coord.WithMaxWait(50*time.Millisecond))
			case "tried":
				_, err = s.TryLock(t.Context(), "taken")
			case "ended":
				_, err = s.Lock(ended, "taken")
			case "timed out":
				_, err = s.Lock(c.within(50*time.Millisecond), "taken")
			case "no leader":
				c.isolate(far)
				time.Sleep(10 * election)
				_, err = s.Lock(c.within(50*time.Millisecond), "free")
				c.lab.HealAll()
				c.ready()
			}
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		time.Sleep(time.Second)
		if st := c.nodes[c.leader()].Status(); st.Waiting != 0 || st.Locks != 1 || st.Sessions != 2 {
			t.Errorf("left are %d waiters, %d locks, %d sessions", st.Waiting, st.Locks, st.Sessions)
		}
		if err := errors.Join(s.Close(c.within(time.Second)), taken.Session().Close(c.within(time.Second))); err != nil {
			t.Error(err)
		}
		if st := c.nodes[c.leader()].Status(); st.Locks != 0 || st.Sessions != 0 {
			t.Errorf("after their end: %d locks, %d sessions", st.Locks, st.Sessions)
		}
	})
}

// Saw: the part of the program that used the lock died, the session was renewed on by the library, and nobody got it.
// Here: Do releases when its function is over, in whatever way; and closing a session twice is no error.
func TestFault_etcd17470_TheWorkerDies(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		s := c.session(0, coord.WithTTL(time.Minute))
		for _, die := range []func(){runtime.Goexit, func() { panic("it dies") }} {
			dead := make(chan struct{})
			go func() {
				defer close(dead)
				defer func() { _ = recover() }()
				_ = s.Do(t.Context(), "x", func(context.Context, *coord.Lock) error { die(); return nil })
			}()
			<-dead
			l, err := c.session(1).TryLock(c.within(time.Second), "x")
			if err != nil {
				t.Fatalf("still held: %v", err)
			}
			c.unlock(l)
		}
		for range 2 {
			if err := s.Close(c.within(time.Second)); err != nil {
				t.Error(err)
			}
		}
	})
}

// labelled counts the goroutines of one test: they inherit the label of the one that started the servers.
func labelled(label string) int {
	var out bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&out, 1)
	n := 0
	_, records, _ := strings.Cut(out.String(), "\n") // after a heading
	for record := range strings.SplitSeq(records, "\n\n") {
		var count int
		if strings.Contains(record, label) {
			_, _ = fmt.Sscanf(record, "%d @", &count)
			n += count
		}
	}
	return n
}

// Saw: each election that was run and ended left something behind, in a process that lives for months.
// Here: after hundreds of sessions, locks, campaigns, watches and observers, lost, closed and cancelled, a node has as
// many goroutines as before.
func TestFault_kubernetes109554_NothingGathers(t *testing.T) {
	inEmptyCell(t, 3, nil, func(t *testing.T, c *cell) {
		pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels("fault", "kubernetes109554")))
		for i := range 3 {
			c.start(i)
		}
		c.ready()
		round := func() {
			for i := range 30 {
				ctx, cancel := context.WithCancel(t.Context())
				s := c.session(i % 3)
				l := c.elect(s, "boss", "")
				waiting := c.acquire(ctx, s, "boss")
				w, err := c.nodes[i%3].Watch(ctx, "k")
				o, err2 := c.nodes[i%3].Observe(ctx, "boss")
				if err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
				time.Sleep(10 * time.Millisecond)
				switch i % 3 {
				case 0:
					cancel()
				case 1:
					_, _ = w.Close(), o.Close()
				}
				_, _ = l.Resign(c.within(time.Second)), s.Close(c.within(time.Second))
				cancel()
				<-waiting
			}
			c.isolate(c.others(c.leader())[0])
			time.Sleep(2 * ttl)
			c.lab.HealAll()
			c.ready()
			time.Sleep(time.Minute) // idle connections are closed
			synctest.Wait()
		}
		round()
		before := labelled("kubernetes109554")
		for range 3 {
			round()
		}
		after := labelled("kubernetes109554")
		if before < 50 {
			t.Errorf("%d goroutines: they are not counted", before)
		}
		if after > before+10 {
			t.Errorf("%d goroutines, there were %d", after, before)
		}
	})
}

// Saw: a fair queue kept the dead, gave them time that they did not use, and dropped living ones that waited for long.
// Here: of 500 waiters half die; the others are all served, in order, at once.
func TestFault_redisson1104_HalfOfTheQueueDies(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		const waiters, long = 500, 20 * time.Second
		dead := c.others(c.leader())[0]
		alive := c.others(dead)[0]
		held := c.lock(c.session(alive, coord.WithTTL(time.Minute)), "x")
		mine := c.session(alive, coord.WithTTL(time.Minute))
		var sessions []*coord.Session // of the dead: each waiter is its own
		order := make(chan int, waiters)
		var all sync.WaitGroup
		defer all.Wait()
		for i := range waiters {
			s := mine
			if i%2 == 0 {
				s = c.session(dead, coord.WithTTL(long))
				sessions = append(sessions, s)
			}
			got := c.acquire(context.Background(), s, "x")
			all.Go(func() {
				g := <-got
				if (g.err == nil) != (i%2 == 1) {
					t.Errorf("waiter %d: %v", i, g.err)
				}
				if g.err == nil {
					order <- i
					c.unlock(g.lock)
				}
			})
			time.Sleep(3 * time.Millisecond)
		}
		time.Sleep(6 * time.Minute) // nobody is dropped for waiting
		if n := c.queued(alive, "x"); n != waiters {
			t.Fatalf("%d are waiting", n)
		}
		for _, s := range sessions[:len(sessions)/2] {
			_ = s.Close(c.within(time.Second))
		}
		c.kill(dead)
		time.Sleep(long + time.Second)
		if n := c.queued(alive, "x"); n != waiters/2 {
			t.Errorf("%d are waiting, %d live", n, waiters/2)
		}
		began := time.Now()
		c.unlock(held)
		var served []int
		for range waiters / 2 {
			served = append(served, <-order)
		}
		if !slices.IsSorted(served) {
			t.Errorf("served in the order %v", served)
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("it took %v: they waited for the dead", d)
		}
	})
}

// Saw: a lock call could not be cancelled, and Close blocked behind it.
// Here: Close lets everybody go who waits, at once, also when nobody leads the cell.
func TestFault_dynamolock106_CloseWhileTheyWait(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		far := c.others(c.leader())[0]
		c.lock(c.session(c.leader(), coord.WithTTL(time.Minute)), "x")
		for _, cut := range []bool{false, true} {
			s := c.session(far, coord.WithTTL(20*time.Second))
			var waiting []<-chan grant
			for range 20 {
				waiting = append(waiting, c.acquire(context.Background(), s, "x"))
			}
			time.Sleep(time.Second)
			if cut {
				c.isolate(far)
				time.Sleep(10 * election)
			}
			began := time.Now()
			err := s.Close(c.within(100 * time.Millisecond))
			if d := time.Since(began); d > 100*time.Millisecond || (err != nil) != cut {
				t.Errorf("Close took %v: %v", d, err)
			}
			for _, w := range waiting {
				if g := <-w; !errors.Is(g.err, coord.ErrSessionClosed) {
					t.Errorf("%v", g.err)
				}
			}
			if d := time.Since(began); d > 150*time.Millisecond {
				t.Errorf("they waited %v more", d)
			}
		}
	})
}

// Saw: a try that lost cleaned up with its caller's context; when that had ended, its entry stayed in the queue, and
// later became the owner without anybody knowing.
// Here: TryLock never queues, whatever becomes of its context.
func TestFault_etcdTryLock_CleanUpAfterTheContext(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		s := c.session(c.others(leader)[0], coord.WithTTL(time.Minute))
		holder := c.session(leader, coord.WithTTL(time.Minute))
		refused := 0
		for i := range 40 {
			held := c.lock(holder, "x")
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*250*time.Microsecond)
			switch _, err := s.TryLock(ctx, "x"); {
			case errors.Is(err, coord.ErrLocked):
				refused++
			case !errors.Is(err, context.DeadlineExceeded):
				t.Error(err)
			}
			cancel()
			c.unlock(held)
			time.Sleep(50 * time.Millisecond)
			if got, n := c.holder(leader, "x"), c.queued(leader, "x"); got != 0 || n != 0 {
				t.Fatalf("after %d × 250µs: held with token %v, %d are waiting", i, got, n)
			}
		}
		if refused == 0 || refused == 40 {
			t.Errorf("refused %d times: the race was not met", refused)
		}
	})
}

// Saw: the release after a failed attempt used a context that had ended; keys stayed until they expired.
// Here: what a cancelled call may have taken is given back in the background, once the cell can be reached, long before
// the session ends.
func TestFault_redsyncCleanUp_CancelledWhileCutOff(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		far := c.others(leader)[0]
		s := c.session(far, coord.WithTTL(time.Minute))
		for i := range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			got := c.acquire(ctx, s, "x")
			time.Sleep(time.Duration(i) * 200 * time.Microsecond)
			c.lab.CutOneWay(c.addr(leader), c.addr(far)) // the request arrives, and its answer does not
			time.Sleep(100 * time.Millisecond)
			cancel()
			g := <-got
			if g.err == nil { // the answer was quicker
				c.lab.HealAll()
				c.unlock(g.lock)
				continue
			}
			time.Sleep(100 * time.Millisecond)
			c.lab.HealAll()
			healed := time.Now()
			l := c.lock(c.session(leader), "x")
			if d := time.Since(healed); d > 5*time.Second {
				t.Errorf("round %d: free after %v", i, d)
			}
			c.unlock(l)
		}
	})
}

// Saw: the protected function is not waited for, and the release runs with a context that has ended, so it fails.
// Here: Do waits for the function, and the lock is free soon after, with ctx long over.
func TestFault_nomadLockLeaser_ReleaseAfterTheContext(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		s, other := c.session(0, coord.WithTTL(time.Minute)), c.session(1, coord.WithTTL(time.Minute))
		done := false
		err := s.Do(c.within(ttl), "x", func(ctx context.Context, l *coord.Lock) error {
			<-ctx.Done()
			time.Sleep(ttl)
			if _, err := other.TryLock(c.within(time.Second), "x"); !errors.Is(err, coord.ErrLocked) || l.Check() != nil {
				t.Errorf("released while it runs: %v, %v", err, l.Check())
			}
			done = true
			return ctx.Err()
		})
		if !done || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do has not waited: %v", err)
		}
		began := time.Now()
		c.lock(other, "x")
		if d := time.Since(began); d > 500*time.Millisecond {
			t.Errorf("free after %v", d)
		}
	})
}

// Saw: Unlock of a key deletes that key, whosever it is.
// Here: a grant that is over frees nothing, and a key of the lock's name is something else.
func TestFault_etcdV3Lock_UnlockOfAnothersGrant(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		far := c.others(c.leader())[0]
		old := c.lock(c.session(far), "x")
		c.isolate(far)
		next := c.lock(c.session(c.leader(), coord.WithTTL(time.Minute)), "x")
		c.lab.HealAll()
		c.ready()
		if err := old.Unlock(c.within(time.Minute)); !errors.Is(err, coord.ErrNotHeld) {
			t.Errorf("the former holder: %v", err)
		}
		c.mustPut(far, "x", "a key")
		if _, err := c.nodes[far].Delete(c.within(time.Minute), "x"); err != nil {
			t.Error(err)
		}
		if got := c.holder(far, "x"); got != next.Token() || next.Check() != nil {
			t.Errorf("held with token %v, want %v: %v", got, next.Token(), next.Check())
		}
	})
}
