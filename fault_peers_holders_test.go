package coord_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/fence"
)

// What users of other systems ran into, two holders first. docs/FAULTS.md has the table, with links.

// holder is the token of the grant that server i says is held; 0 if there is none.
func (c *cell) holder(i int, name string) coord.Token {
	c.t.Helper()
	info, err := c.nodes[i].Lookup(c.within(time.Minute), name)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(info.Holders) == 0 {
		return 0
	}
	return info.Holders[0].Token
}

// queued is how many wait for a lock, as server i says.
func (c *cell) queued(i int, name string) int {
	c.t.Helper()
	info, err := c.nodes[i].Lookup(c.within(time.Minute), name)
	if err != nil {
		c.t.Fatal(err)
	}
	return len(info.Queue)
}

func (c *cell) unlock(l *coord.Lock) {
	c.t.Helper()
	if err := l.Unlock(c.within(time.Minute)); err != nil {
		c.t.Error(err)
	}
}

// Saw: Lock returned after a long wait, and the lease it rested on was gone by then (a Jepsen finding).
// Here: a waiter whose session has ended is never granted, and the next one is.
func TestFault_etcd11456_GrantToADeadWaiter(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		dead := c.others(leader)[0]
		held := c.lock(c.session(leader, coord.WithTTL(time.Minute)), "x")
		first := c.acquire(c.within(time.Hour), c.session(dead), "x")
		time.Sleep(100 * time.Millisecond)
		second := c.acquire(c.within(time.Hour), c.session(leader, coord.WithTTL(time.Minute)), "x")
		time.Sleep(ttl)
		c.isolate(dead)
		time.Sleep(ttl + time.Second)
		if n := c.queued(leader, "x"); n != 1 {
			t.Errorf("%d are waiting after one has died", n)
		}
		c.unlock(held)
		next := <-second
		if g := <-first; !errors.Is(g.err, coord.ErrSessionExpired) {
			t.Errorf("the dead one: %v, %v", g.lock, g.err)
		}
		c.lab.HealAll()
		time.Sleep(ttl)
		if got := c.holder(dead, "x"); next.err != nil || got != next.lock.Token() {
			t.Errorf("held with token %v; the living one: %v", got, next.err)
		}
	})
}

// Saw: read, modify and write under the lock, and updates get lost all the same.
// Here: each grant has a token, and what checks it refuses the holder that was frozen between its Check and its write.
func TestFault_etcd11457_WriteOfAFrozenHolder(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		far := c.others(c.leader())[0]
		guard, value := fence.NewMemory(), 0
		add := func(l *coord.Lock, read int) error {
			return guard.Do(t.Context(), "value", l.Token(), func(context.Context) error { value = read + 1; return nil })
		}
		frozen := c.lock(c.session(far), "x")
		read := value
		if err := frozen.Check(); err != nil {
			t.Fatal(err)
		}
		c.lab.Pause(c.addr(far))
		next := c.lock(c.session(c.leader()), "x")
		if err := add(next, value); err != nil {
			t.Errorf("the holder: %v", err)
		}
		c.lab.Resume(c.addr(far))
		if err := add(frozen, read); !errors.Is(err, fence.ErrStale) {
			t.Errorf("the frozen one wrote: %v", err)
		}
		if err := add(next, value); err != nil || value != 2 {
			t.Errorf("%d after two updates: %v", value, err)
		}
	})
}

// Saw: a waiter went on waiting for the one ahead of it, long after its own session had died.
// Here: Lock ends with the session, however long the holder holds.
func TestFault_etcd19597_WaitingOnWithoutASession(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		far := c.others(c.leader())[0]
		c.lock(c.session(c.leader(), coord.WithTTL(time.Hour)), "x")
		got := c.acquire(context.Background(), c.session(far), "x")
		time.Sleep(5 * ttl)
		c.isolate(far)
		cut := time.Now()
		if g := <-got; !errors.Is(g.err, coord.ErrSessionExpired) {
			t.Errorf("%v, %v", g.lock, g.err)
		}
		if d := time.Since(cut); d > ttl {
			t.Errorf("it waited %v more", d)
		}
	})
}

// Saw: the reply to an Unlock was lost; its retry came when the same session had locked again, and freed that.
// Here: a release names its grant, and is done once.
func TestFault_etcd22082_StaleUnlockRetry(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		s := c.session(c.others(c.leader())[0], coord.WithTTL(10*time.Second))
		other := c.session(c.leader(), coord.WithTTL(10*time.Second))
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range 40 {
			first := c.lock(s, "x")
			leader := c.leader()
			c.lab.LoseReplies(c.addr(leader))
			if err := first.Unlock(impatient); !errors.Is(err, context.Canceled) {
				t.Errorf("the reply was not lost: %v", err)
			}
			time.Sleep(time.Duration(i%20) * 400 * time.Microsecond) // before the reply is lost, or before the retry
			second := c.lock(s, "x")
			time.Sleep(500 * time.Millisecond) // the retry has arrived
			if got := c.holder(leader, "x"); got != second.Token() || second.Check() != nil {
				t.Fatalf("round %d: held with token %v, want %v: %v", i, got, second.Token(), second.Check())
			}
			if _, err := other.TryLock(c.within(time.Minute), "x"); !errors.Is(err, coord.ErrLocked) {
				t.Fatalf("round %d: another got it: %v", i, err)
			}
			if err := first.Unlock(c.within(time.Minute)); err != nil {
				t.Errorf("round %d: %v", i, err)
			}
			c.unlock(second)
		}
	})
}

// Saw: of three writers in a queue the one in the middle loses its lease, and is given the lock all the same.
// Here: whenever its session ends, before, at or after the hand-over, it holds nothing and the third one does.
func TestFault_etcd16221_RevokedInTheQueue(t *testing.T) {
	ended := make(map[string]bool) // the hooks of a node are called one after the other
	tune := func(i int, cfg *coord.Config) {
		if i != 0 {
			return
		}
		cfg.Hooks.SessionEnded = func(s coord.SessionEndInfo) { ended[s.Label] = true }
		cfg.Hooks.Granted = func(g coord.GrantInfo) {
			if ended[g.Label] {
				t.Errorf("granted to %s, whose session had ended", g.Label)
			}
		}
	}
	inTunedCell(t, 3, tune, func(t *testing.T, c *cell) {
		a, z := c.session(0, coord.WithTTL(time.Minute)), c.session(2, coord.WithTTL(time.Minute))
		granted := 0
		for i := range 30 {
			held := c.lock(a, "x")
			s := c.session(1, coord.WithLabel(fmt.Sprint("the middle one of round ", i)))
			middle := c.acquire(c.within(time.Minute), s, "x")
			time.Sleep(50 * time.Millisecond)
			last := c.acquire(c.within(time.Minute), z, "x")
			time.Sleep(50 * time.Millisecond)
			time.AfterFunc(time.Duration(i)*400*time.Microsecond, func() { _ = s.Close(context.Background()) })
			time.AfterFunc(5*time.Millisecond, func() { _ = held.Unlock(context.Background()) })
			g, m := <-last, <-middle
			if g.err != nil || g.lock.Check() != nil {
				t.Fatalf("round %d: the last one: %v", i, g.err)
			}
			switch {
			case m.err == nil:
				granted++
				lost(t, m.lock, coord.ErrSessionClosed)
			case !errors.Is(m.err, coord.ErrSessionClosed):
				t.Errorf("round %d: %v", i, m.err)
			}
			c.unlock(g.lock)
		}
		if granted == 0 || granted == 30 {
			t.Errorf("granted in %d of 30 rounds: the race was not met", granted)
		}
	})
}

// Saw: a client reconnects as itself, finds the entry of its old session that is about to vanish, and takes it for a
// grant; when it vanishes, the next one is granted too.
// Here: a grant belongs to one session. Whoever waits comes first, the new session of the old client behind.
func TestFault_curator1121_ReconnectAsTheOldClient(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		far := c.others(leader)[0]
		old := c.session(far, coord.WithLabel("worker"))
		held := c.lock(old, "x")
		waiting := c.acquire(c.within(time.Minute), c.session(leader, coord.WithTTL(time.Minute)), "x")
		time.Sleep(ttl)
		c.isolate(far)
		<-old.Done()
		c.lab.HealAll() // the cell has not expired it yet
		again := c.session(far, coord.WithLabel("worker"))
		if got := c.holder(leader, "x"); got != held.Token() {
			t.Errorf("held with token %v: the old session is gone already: this test proves nothing", got)
		}
		if _, err := again.TryLock(c.within(time.Minute), "x"); !errors.Is(err, coord.ErrLocked) {
			t.Errorf("the new session got what the old one held: %v", err)
		}
		behind := c.acquire(c.within(time.Minute), again, "x")
		first := <-waiting
		if first.err != nil {
			t.Fatal(first.err)
		}
		time.Sleep(2 * ttl)
		if got := c.holder(far, "x"); got != first.lock.Token() || c.queued(far, "x") != 1 {
			t.Errorf("held with token %v, want that of the one that waited", got)
		}
		c.unlock(first.lock)
		if g := <-behind; g.err != nil || g.lock.Token() <= first.lock.Token() {
			t.Errorf("the new session: %v", g.err)
		}
		lost(t, held, coord.ErrSessionExpired)
	})
}

// campaigns are elections that candidates on every server win and give up again and again, most of them soon, some not
// before they are told that they have lost, whatever happens, until stop is called, which returns when they have ended.
func (c *cell) campaigns(r *referee, perServer int) (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var all sync.WaitGroup
	for i := range c.size * perServer {
		all.Go(func() { c.campaignOn(ctx, r, i%c.size) })
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func (c *cell) campaignOn(ctx context.Context, r *referee, server int) {
	var s *coord.Session
	for ctx.Err() == nil {
		if s == nil || s.Err() != nil {
			var err error
			if s, err = c.node(server).NewSession(ctx, coord.WithTTL(ttl)); err != nil {
				c.expected(ctx, err)
				continue
			}
		}
		l, err := s.Campaign(ctx, "boss", []byte(fmt.Sprint(server)))
		if err != nil {
			c.expected(ctx, err)
			continue
		}
		r.granted(l.Lock())
		term := rand.N(100 * time.Millisecond)
		if rand.IntN(4) == 0 {
			term = rand.N(4 * ttl)
		}
		select {
		case <-l.Lost():
		case <-time.After(term):
		}
		if err := l.Resign(ctx); err != nil && !errors.Is(err, coord.ErrNotHeld) {
			c.expected(ctx, err)
		}
	}
}

// Saw: connections flap, each reconnect deletes and creates entries anew, and two processes believe to be coordinator.
// Here: who leads is one record of the log. Links flap, also those of the cell's leader; there is never a second one.
func TestFault_curator398_FlappingLinks(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		r := &referee{t: t}
		stop := c.campaigns(r, 2)
		for i := range 60 {
			a := i % 3
			c.lab.Cut(c.addr(a), c.addr((a+1)%3))
			time.Sleep(rand.N(2 * election))
			if i%4 == 0 {
				c.lab.Cut(c.addr(a), c.addr((a+2)%3))
				time.Sleep(ttl)
			}
			c.lab.HealAll()
			time.Sleep(rand.N(2 * election))
		}
		time.Sleep(3 * ttl)
		stop()
		if n := r.count(); n < 40 {
			t.Errorf("%d leaderships: no progress", n)
		}
		r.verdict()
	})
}

// Saw: renewals failed, now with this error, now with that one, and the leader was never told that it had lost.
// Here: the deadline counts from the last renewal that was acknowledged, whatever comes after it.
func TestFault_kubernetes23731_RenewalsFailInManyWays(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		far := c.others(c.leader())[0]
		l, err := c.session(far).Campaign(c.within(time.Minute), "boss", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl)
		next := c.acquire(c.within(time.Minute), c.session(c.leader()), "boss")
		began := time.Now()
		for _, fail := range []func(from, to string){
			func(from, to string) { c.lab.SetDrop(from, to, 1) }, // resets
			func(from, to string) { c.lab.SetDrop(from, to, 0); c.lab.CutOneWay(from, to) },
			func(from, to string) { c.lab.Cut(from, to) },
			func(from, to string) { c.lab.SetDelay(from, to, 3*ttl); c.lab.Heal(from, to) },
		} {
			for _, i := range c.others(far) {
				fail(c.addr(far), c.addr(i))
			}
			time.Sleep(ttl / 5)
		}
		select {
		case <-l.Lost():
		case g := <-next:
			t.Fatalf("granted to another first: %v", g.err)
		}
		if d := time.Since(began); d > ttl {
			t.Errorf("told after %v", d)
		}
		if g := <-next; g.err != nil || l.Check() == nil {
			t.Errorf("the next: %v; the former: %v", g.err, l.Check())
		}
	})
}

// Saw: with very many candidates, terms of two leaders overlapped.
// Here: 200 candidates under random cuts, and no two hold at any moment.
func TestFault_kubernetes67651_ManyCandidates(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		r := &referee{t: t}
		stop := c.campaigns(r, 67)
		for range 20 {
			time.Sleep(rand.N(time.Second))
			a := rand.IntN(3)
			if rand.IntN(2) == 0 {
				c.isolate(a)
			} else {
				c.lab.CutOneWay(c.addr(a), c.addr((a+1)%3))
			}
			time.Sleep(rand.N(2 * ttl))
			c.lab.HealAll()
		}
		time.Sleep(3 * ttl)
		stop()
		if n := r.count(); n < 20 {
			t.Errorf("%d terms: no progress", n)
		}
		r.verdict()
	})
}

// Saw: what renews the lock died quietly after an error; the lock ran out under its holder, who worked on.
// Here: after an interruption of any length the lock is held on, for the cell too, or the holder has been told.
func TestFault_redisson5698_RenewalAfterAnInterruption(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		far := c.others(leader)[0]
		kept, told := 0, 0
		for i := 1; i <= 12; i++ {
			l := c.lock(c.session(far), "x")
			time.Sleep(ttl)
			c.isolate(far)
			time.Sleep(time.Duration(i) * ttl / 6)
			c.lab.HealAll()
			c.ready()
			for range 10 {
				time.Sleep(ttl / 2)
				held := c.holder(leader, "x") == l.Token()
				if err := l.Check(); err == nil && !held {
					t.Fatalf("cut off for %d/6 of the TTL: it believes to hold what it does not", i)
				}
			}
			if l.Check() == nil {
				kept++
				c.unlock(l)
				continue
			}
			told++
			lost(t, l, coord.ErrSessionExpired)
		}
		if kept < 3 || told < 5 {
			t.Errorf("kept %d times, lost %d times: not all interruptions were met", kept, told)
		}
	})
}

// Saw: the first attempt to take the lock ended in an error of the connection and had succeeded, a second one took it
// for another: two holders.
// Here: replies get lost on each way, that of the cell to the caller and that of the voters to the leader, and each call
// is one acquisition.
func TestFault_libkv186_ReplyOfTheAcquisitionLost(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		one, two := c.others(leader)[0], c.others(leader)[1]
		a, b := c.session(one, coord.WithTTL(10*time.Second)), c.session(two, coord.WithTTL(10*time.Second))
		for i := range 15 {
			lossy := [][]string{c.addrs(leader), c.addrs(one, two), c.addrs(0, 1, 2)}[i%3]
			gotA, gotB := c.acquire(c.within(time.Minute), a, "x"), c.acquire(c.within(time.Minute), b, "x")
			time.Sleep(time.Duration(i/3) * 500 * time.Microsecond)
			c.lab.LoseReplies(lossy...)
			var first, second grant
			select {
			case first = <-gotA:
				gotA = gotB
			case first = <-gotB:
			}
			if first.err != nil {
				t.Fatal(first.err)
			}
			time.Sleep(300 * time.Millisecond)
			if len(gotA) != 0 || c.holder(one, "x") != first.lock.Token() || c.queued(one, "x") != 1 {
				t.Fatalf("round %d: both got it, or one of them twice", i)
			}
			c.unlock(first.lock)
			if second = <-gotA; second.err != nil || second.lock.Token() <= first.lock.Token() {
				t.Fatalf("round %d: the second: %v", i, second.err)
			}
			c.unlock(second.lock)
			if c.holder(two, "x") != 0 {
				t.Fatalf("round %d: something is left", i)
			}
		}
	})
}

// Saw: keys with a TTL vanished on one replica sooner than on another, and reads that hit the wrong one blocked the
// election.
// Here: an expiry is an entry of the log: once any server has said that a key is gone, none says otherwise.
func TestFault_nats3653_ExpiryDiffersByReplica(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		dead := c.others(c.leader())[0]
		rest := c.others(dead)
		for range 3 {
			s := c.session(dead)
			if _, err := s.Put(c.within(time.Minute), "leader", []byte("me")); err != nil {
				t.Fatal(err)
			}
			c.isolate(dead)
			gone := false
			for i := range 4000 {
				_, err := c.nodes[rest[i%2]].Get(c.within(time.Minute), "leader")
				switch {
				case err == nil && gone:
					t.Fatal("gone on one server, and there again on the next")
				case errors.Is(err, coord.ErrKeyNotFound):
					gone = true
				case err != nil:
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond / 2)
			}
			if !gone {
				t.Error("it has not expired")
			}
			if _, err := c.nodes[rest[1]].Put(c.within(time.Minute), "leader", []byte("you"), coord.IfAbsent()); err != nil {
				t.Errorf("the next one: %v", err)
			}
			c.lab.HealAll()
			c.ready()
			if _, err := c.nodes[dead].Delete(c.within(time.Minute), "leader"); err != nil {
				t.Error(err)
			}
		}
	})
}
