package expiry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/fsm"
)

// cell stands for the rest of the leader: it writes what the table proposes, and can be made to refuse.
type cell struct {
	table  *Table[fsm.SessionID]
	start  time.Time
	jumped atomic.Int64 // how far the lease clock is ahead of the timers: pauses of the process

	mu       sync.Mutex
	ended    map[fsm.SessionID]time.Duration // when
	entries  []int                           // sessions in each
	proposed int
	flying   int
	most     int
	quorum   chan struct{} // closed while there is one
	asked    int           // for evidence
	refuse   error
	propose  func(ctx context.Context, term uint64, ids []fsm.SessionID)
}

// leading runs test in a bubble, with a table and the cell it writes to.
func leading(t *testing.T, test func(t *testing.T, c *cell, table *Table[fsm.SessionID])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cell{start: time.Now(), ended: make(map[fsm.SessionID]time.Duration), quorum: make(chan struct{})}
		close(c.quorum)
		c.table = New(Config[fsm.SessionID]{Now: c.now, Compare: cmp.Compare[fsm.SessionID], Evidence: c.evidence, Propose: c.write})
		defer c.table.Close()
		test(t, c, c.table)
	})
}

func (c *cell) now() time.Duration { return time.Since(c.start) + time.Duration(c.jumped.Load()) }

// pause is a pause of the process: the lease clock goes on, and nobody looks.
func (c *cell) pause(d time.Duration) { c.jumped.Add(int64(d)) }

func (c *cell) evidence(ctx context.Context, _ uint64) error {
	c.mu.Lock()
	quorum := c.quorum
	c.asked++
	c.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
	select {
	case <-quorum:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *cell) write(ctx context.Context, term uint64, ids []fsm.SessionID) error {
	c.mu.Lock()
	c.proposed++
	c.flying++
	c.most = max(c.most, c.flying)
	refuse, propose := c.refuse, c.propose
	c.mu.Unlock()
	if propose != nil {
		propose(ctx, term, ids)
	}
	time.Sleep(20 * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flying--
	if refuse != nil {
		return refuse
	}
	c.entries = append(c.entries, len(ids))
	for _, id := range ids {
		c.ended[id] = c.now()
		c.table.Ended(id)
	}
	return ctx.Err()
}

// endOf is when a session was ended; false if it was not.
func (c *cell) endOf(id fsm.SessionID) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.ended[id]
	return at, ok
}

func (c *cell) refuseWith(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = err
}

func (c *cell) countAsked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *cell) loseQuorum() (back func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	quorum := make(chan struct{})
	c.quorum = quorum
	return func() { close(quorum) }
}

// wantEnd checks that the session ends after from + TTL, and within a second of it.
func (c *cell) wantEnd(t *testing.T, id fsm.SessionID, from, ttl time.Duration) {
	t.Helper()
	if wait := from + ttl - c.now(); wait > 0 {
		time.Sleep(wait)
	}
	if at, ended := c.endOf(id); ended && at < from+ttl {
		t.Errorf("session %d ended %v after it was due to live for %v", id, at-from, ttl)
	}
	time.Sleep(from + ttl + time.Second - c.now())
	if _, ended := c.endOf(id); !ended {
		t.Errorf("session %d has not ended a second after its TTL", id)
	}
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// numbered are the sessions 1 … n, all with the same TTL.
func numbered(n int, ttl time.Duration) iter.Seq2[fsm.SessionID, time.Duration] {
	return func(yield func(fsm.SessionID, time.Duration) bool) {
		for id := range n {
			if !yield(fsm.SessionID(id+1), ttl) {
				return
			}
		}
	}
}

func TestG8_ExpiresATTLAfterTheTermStart(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 10 * time.Second, time.Hour} {
		leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
			time.Sleep(1234 * time.Millisecond)
			table.Start(1, numbered(1, ttl))
			time.Sleep(ttl - time.Millisecond)
			again := c.now()
			table.Start(2, numbered(1, ttl))
			c.wantEnd(t, 1, again, ttl)
		})
	}
}

func TestG8_ExpiresATTLAfterTheLastRenewal(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		const ttl = 10 * time.Second
		table.Start(1, numbered(0, 0))
		time.Sleep(777 * time.Millisecond)
		table.Opened(1, ttl)
		table.Opened(2, ttl)
		opened, last := c.now(), time.Duration(0)
		for number := range uint64(20) {
			time.Sleep(3333 * time.Millisecond)
			last = c.now()
			if !table.Renew(1, number+1) {
				t.Fatal("a renewal in time was refused")
			}
			if last-opened > ttl+time.Second {
				if at, ended := c.endOf(2); !ended || at < opened+ttl || at > opened+ttl+time.Second {
					t.Fatalf("the session that was not renewed: ended %v, %v after it was opened", ended, at-opened)
				}
			}
		}
		c.wantEnd(t, 1, last, ttl)
	})
}

func TestG8_RenewedInTimeNeverExpires(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		table.Start(1, numbered(0, 0))
		stop := make(chan struct{})
		var clients sync.WaitGroup
		for i := range 40 {
			id, ttl := fsm.SessionID(i+1), []time.Duration{time.Second, 3 * time.Second, 20 * time.Second}[i%3]
			table.Opened(id, ttl)
			clients.Go(func() {
				for number := uint64(1); ; number++ {
					select {
					case <-stop:
						return
					case <-time.After(ttl/5 + rand.N(ttl/2)):
					}
					if !table.Renew(id, number) {
						t.Errorf("session %d expired at %v", id, c.now())
						return
					}
				}
			})
		}
		for range 60 { // with pauses of 0 to 2 s, in which the renewals wait
			time.Sleep(time.Second + rand.N(3*time.Second))
			c.pause(rand.N(2 * time.Second))
		}
		close(stop)
		clients.Wait()
	})
}

func TestG8_MarkedBeforeProposedAndNeverAcknowledgedAgain(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		c.propose = func(_ context.Context, _ uint64, ids []fsm.SessionID) {
			for _, id := range ids {
				if !table.Expiring(id) {
					t.Errorf("session %d is proposed, not marked", id)
				}
				if table.Renew(id, 1) {
					t.Errorf("session %d is acknowledged while its end is under way", id)
				}
			}
		}
		c.refuse = errors.New("the disk is slow")
		table.Start(7, numbered(1, time.Second))
		pass(20 * time.Second)
		if !table.Expiring(1) || table.Renew(1, 2) {
			t.Error("a proposal that failed took the mark away")
		}
		c.mu.Lock()
		tries := c.proposed
		c.mu.Unlock()
		if tries < 20 || tries > 100 {
			t.Errorf("%d proposals in 19 s, want about four a second", tries)
		}
		c.refuseWith(nil)
		pass(time.Second)
		if _, ended := c.endOf(1); !ended || table.Expiring(1) || table.Renew(1, 3) {
			t.Error("the proposal was not repeated")
		}
		if !t.Failed() {
			table.Start(8, numbered(1, time.Second)) // the end was not in the log after all
			if table.Expiring(1) || !table.Renew(1, 1) {
				t.Error("a later term must begin anew")
			}
		}
	})
}

func TestG8_NobodyExpiresWithoutAQuorum(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		back := c.loseQuorum()
		const ttl = 2 * time.Second
		table.Start(1, numbered(2, ttl))
		pass(5 * time.Second)
		if table.Expiring(1) || c.proposed != 0 {
			t.Fatal("a leader without a quorum expires")
		}
		if !table.Renew(2, 1) {
			t.Fatal("a session nobody could have ended is refused")
		}
		renewed := c.now()
		back()
		pass(time.Second)
		if _, ended := c.endOf(1); !ended {
			t.Error("not expired within a second of the quorum's return")
		}
		c.wantEnd(t, 2, renewed, ttl)
	})
}

// A pause takes nothing from what a session had left, and evidence from before it does not count.
func TestG8_APauseOfTheLeaderCountsForNobody(t *testing.T) {
	const ttl = 10 * time.Second
	for _, length := range []time.Duration{time.Second + time.Millisecond, 5 * time.Second, ttl, 3 * ttl, time.Hour} {
		t.Run(length.String(), func(t *testing.T) {
			leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
				table.Start(1, numbered(2, ttl))
				pass(ttl - 20*time.Millisecond)
				c.pause(length)
				ended := c.now()
				pass(min(length, ttl) - 50*time.Millisecond) // what waits in the sockets is read meanwhile
				if !table.Renew(1, 1) {
					t.Fatal("expired by a pause")
				}
				c.wantEnd(t, 1, c.now(), ttl)
				if at, ok := c.endOf(2); !ok || at > ended+ttl+time.Second {
					t.Errorf("the dead session: ended %v, %v after the pause", ok, at-ended)
				}
			})
		})
	}
}

func TestG8_EvidenceFromBeforeAPauseDoesNotCount(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		back := c.loseQuorum()
		table.Start(1, numbered(1, time.Second))
		pass(1200 * time.Millisecond)
		if c.countAsked() != 1 {
			t.Fatalf("asked %d times for evidence, want 1", c.countAsked())
		}
		c.pause(time.Minute)
		pass(1500 * time.Millisecond) // more than what the pause gives
		back()                        // the answer was there when the process stood still
		synctest.Wait()
		if table.Expiring(1) {
			t.Error("expired on evidence from before the pause")
		}
		pass(100 * time.Millisecond)
		if _, ended := c.endOf(1); !ended || c.countAsked() != 2 {
			t.Errorf("ended %v, asked %d times", ended, c.countAsked())
		}
	})
}

func TestG8_ALeaderThatPausesAllTheTimeDoesNotKeepTheDead(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		const ttl = 10 * time.Second
		table.Start(1, numbered(1, ttl))
		for _, length := range []float64{9, 9, 2, 1.1, 1.1} {
			pass(500 * time.Millisecond)
			c.pause(time.Duration(length * float64(time.Second)))
		}
		// The second pause ended at 19 s. The small ones after it must not add up to more.
		pass(19*time.Second + ttl - c.now())
		if _, ended := c.endOf(1); !ended {
			t.Errorf("not ended at %v", c.now())
		}
	})
}

func TestEndedWhileItsTimeWasUp(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		back := c.loseQuorum()
		table.Start(1, numbered(1, time.Second))
		pass(2 * time.Second)
		table.Ended(1) // it was closed
		back()
		pass(time.Second)
		if table.Expiring(1) || c.proposed != 0 {
			t.Error("the end of an ended session is proposed")
		}
	})
}

func TestEndedSessionsAreForgotten(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		table.Start(1, numbered(0, 0))
		for id := range fsm.SessionID(1000) {
			table.Opened(id, 24*time.Hour)
			table.Ended(id)
			time.Sleep(10 * time.Millisecond)
		}
		pass(slots * slotWidth)
		table.mu.Lock()
		defer table.mu.Unlock()
		if n := filed(&table.wheel); n != 0 {
			t.Errorf("%d ended sessions are still in the wheel after a turn", n)
		}
	})
}

func filed(w *wheel[fsm.SessionID]) (n int) {
	for _, s := range w.slot {
		for ; s != nil; s = s.next {
			n++
		}
	}
	return n
}

func TestRenewalNumbersRise(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		const ttl = 10 * time.Second
		if table.Renew(1, 1) {
			t.Error("acknowledged before any term")
		}
		table.Start(1, numbered(1, ttl))
		pass(time.Second)
		renewed := c.now()
		if !table.Renew(1, 5) {
			t.Error("number 5 refused")
		}
		pass(time.Second)
		for _, number := range []uint64{0, 4, 5} {
			if table.Renew(1, number) {
				t.Errorf("number %d acknowledged after 5", number)
			}
		}
		if table.Renew(2, 1) {
			t.Error("an unknown session acknowledged")
		}
		c.wantEnd(t, 1, renewed, ttl)
	})
}

func TestAZoneVanishes(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		const sessions, ttl = 40_000, 10 * time.Second
		table.Start(1, numbered(sessions+10, ttl))
		pass(5 * time.Second)
		for id := range 10 {
			table.Renew(fsm.SessionID(sessions+id+1), 1)
		}
		pass(6 * time.Second)
		if len(c.ended) != sessions {
			t.Errorf("%d sessions ended within a second, want %d", len(c.ended), sessions)
		}
		if n := len(c.entries); n > sessions/maxBatch+2 {
			t.Errorf("%d entries", n)
		}
		for _, n := range c.entries {
			if n > maxBatch {
				t.Errorf("%d sessions in one entry", n)
			}
		}
		if c.most > maxProposals {
			t.Errorf("%d entries under way at once", c.most)
		}
	})
}

func TestSessionsComeAndGo(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		table.Opened(1, time.Second) // a follower's log tells of sessions too
		table.Start(1, numbered(3, time.Second))
		table.Ended(1)
		if table.Renew(1, 1) {
			t.Error("an ended session is acknowledged")
		}
		pass(1500 * time.Millisecond)
		if _, proposed := c.endOf(1); proposed || len(c.ended) != 2 {
			t.Errorf("ended: %v", c.ended)
		}
		table.Opened(4, time.Second)
		table.Stop()
		table.Stop()
		if table.Renew(4, 1) || table.Expiring(4) {
			t.Error("acknowledged after the term")
		}
		pass(5 * time.Second)
		if len(c.ended) != 2 {
			t.Errorf("expired after the term: %v", c.ended)
		}
		table.Close()
		table.Start(2, numbered(1, time.Second))
		if table.Renew(1, 1) {
			t.Error("a closed table was started")
		}
	})
}

// What an old term has under way when a new one starts must not touch the new one's sessions.
func TestAnOldRoundDoesNotMarkInANewTerm(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		back := c.loseQuorum()
		table.Start(1, numbered(1, time.Second))
		pass(2 * time.Second)
		table.Start(2, numbered(1, time.Second))
		back()
		pass(500 * time.Millisecond)
		if !table.Renew(1, 1) || c.proposed != 0 {
			t.Error("the old term expires in the new one")
		}
	})
}

func TestASessionTakesLittleMemory(t *testing.T) {
	for _, sessions := range []int{60_000, 120_000} {
		if size := bytesPerSession(sessions); size > 100 {
			t.Errorf("%.0f bytes a session with %d sessions, want 100 at most", size, sessions)
		}
	}
}

func bytesPerSession(sessions int) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table := New(Config[fsm.SessionID]{Now: func() time.Duration { return 0 }})
	table.Start(1, numbered(sessions, time.Hour))
	runtime.GC()
	runtime.ReadMemStats(&after)
	table.Close()
	return float64(after.HeapAlloc-before.HeapAlloc) / float64(sessions)
}

func BenchmarkRenew(b *testing.B) {
	for _, sessions := range []int{1_000, 120_000} {
		b.Run(fmt.Sprint(sessions), func(b *testing.B) {
			start := time.Now()
			table := New(Config[fsm.SessionID]{Now: func() time.Duration { return time.Since(start) }})
			table.Start(1, numbered(sessions, time.Hour))
			defer table.Close()
			b.ReportAllocs()
			number := uint64(0)
			for b.Loop() {
				number++
				if !table.Renew(fsm.SessionID(number*7919%uint64(sessions)+1), number) {
					b.Fatal("refused")
				}
			}
			b.ReportMetric(bytesPerSession(sessions), "B/session")
		})
	}
}
