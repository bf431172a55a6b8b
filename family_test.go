package coord_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord"
)

// waits checks that a call waits.
func (c *cell) waits(what string, calls ...<-chan grant) {
	c.t.Helper()
	time.Sleep(ttl / 2)
	synctest.Wait()
	for _, got := range calls {
		select {
		case g := <-got:
			c.t.Errorf("%s: granted, or refused: %v", what, g.err)
		default:
		}
	}
}

// granted takes the grant of a call that has to be granted now.
func (c *cell) granted(got <-chan grant) *coord.Lock {
	c.t.Helper()
	g := <-got
	if g.err != nil {
		c.t.Fatal(g.err)
	}
	return g.lock
}

// queues is acquire, and returns when the call has its place in the queue.
func (c *cell) queues(ctx context.Context, s *coord.Session, name string, opts ...coord.LockOption) <-chan grant {
	got := c.acquire(ctx, s, name, opts...)
	time.Sleep(50 * time.Millisecond)
	return got
}

// acquireAll is queues for several names.
func (c *cell) acquireAll(ctx context.Context, s *coord.Session, names []string, opts ...coord.LockOption) <-chan grant {
	got := make(chan grant, 1)
	go func() {
		l, err := s.LockAll(ctx, names, opts...)
		got <- grant{l, err}
	}()
	time.Sleep(50 * time.Millisecond)
	return got
}

// Readers hold beside each other, nobody beside a writer; a writer that waits is not passed, and readers behind it are
// granted together.
func TestG1_G6_ReadersAndWriters(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		a, b, w := c.session(0, coord.WithTTL(20*ttl)), c.session(1, coord.WithTTL(20*ttl)), c.session(2, coord.WithTTL(20*ttl))
		ctx := c.within(time.Minute)
		first, second := c.lock(a, "x", coord.Shared()), c.lock(b, "x", coord.Shared())
		if first.Token() >= second.Token() {
			t.Errorf("tokens %v and %v", first.Token(), second.Token())
		}
		writer := c.queues(ctx, w, "x")
		third, fourth := c.queues(ctx, a, "x", coord.Shared()), c.queues(ctx, b, "x", coord.Shared())
		c.waits("a writer among readers, and readers behind it", writer, third, fourth)
		if _, err := a.TryLock(ctx, "x", coord.Shared()); !errors.Is(err, coord.ErrLocked) {
			t.Errorf("a reader passes a writer: %v", err)
		}
		info, err := c.node(0).Lookup(ctx, "x")
		if err != nil || len(info.Holders) != 2 || !info.Holders[0].Shared || len(info.Queue) != 3 || info.Queue[0].Shared || !info.Queue[1].Shared {
			t.Errorf("Lookup: %+v, %v", info, err)
		}
		c.unlock(first)
		c.waits("a writer beside the last reader", writer, third, fourth)
		c.unlock(second)
		held := c.granted(writer)
		c.waits("readers beside a writer", third, fourth)
		c.unlock(held)
		if x, y := c.granted(third), c.granted(fourth); x.Check() != nil || y.Check() != nil {
			t.Errorf("%v, %v", x.Check(), y.Check())
		}
	})
}

// A semaphore has as many holders as it has slots, each in one of its own, for as long as anybody uses it.
func TestG1_G2_Slots(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		a, b := c.session(0, coord.WithTTL(20*ttl)), c.session(1, coord.WithTTL(20*ttl))
		ctx := c.within(time.Minute)
		zero, one := c.lock(a, "x", coord.Slots(2)), c.lock(b, "x", coord.Slots(2))
		if zero.Slot() != 0 || one.Slot() != 1 || zero.Token() >= one.Token() {
			t.Errorf("slots %d and %d, tokens %v and %v", zero.Slot(), one.Slot(), zero.Token(), one.Token())
		}
		next := c.queues(ctx, b, "x", coord.Slots(2))
		alone := c.queues(ctx, a, "x")
		c.waits("a third in two slots", next, alone)
		_, err := a.TryLock(ctx, "x", coord.Slots(3))
		if !errors.Is(err, coord.ErrSlotsMismatch) || !strings.Contains(err.Error(), "3") || !strings.Contains(err.Error(), "2") {
			t.Errorf("another number of slots: %v", err)
		}
		c.unlock(zero)
		again := c.granted(next)
		if again.Slot() != 0 || again.Token() <= one.Token() {
			t.Errorf("slot %d, token %v", again.Slot(), again.Token())
		}
		c.waits("one alone among slots", alone)
		if info, err := c.node(2).Lookup(ctx, "x"); err != nil || info.Slots != 2 || len(info.Holders) != 2 || info.Holders[0].Slot != 1 {
			t.Errorf("Lookup: %+v, %v", info, err)
		}
		c.unlock(again)
		c.unlock(one)
		c.unlock(c.granted(alone))
		if l := c.lock(a, "x", coord.Slots(3)); l.Slot() != 0 {
			t.Errorf("slot %d of a lock that was free", l.Slot())
		}
	})
}

// LockAll holds all or none, waits holding none, is not starved, and does not wait for another LockAll in a circle.
func TestG1_G6_LockAll(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		a, b, d := c.session(0, coord.WithTTL(20*ttl)), c.session(1, coord.WithTTL(20*ttl)), c.session(2, coord.WithTTL(20*ttl))
		ctx := c.within(time.Minute)
		x := c.lock(a, "x")
		both := c.acquireAll(ctx, b, []string{"y", "x"})
		reverse := c.acquireAll(ctx, d, []string{"x", "y"})
		behind := c.queues(ctx, a, "y")
		c.waits("all, one of them held, and y, which is kept for it", both, reverse, behind)
		c.unlock(x)
		all := c.granted(both)
		if !slices.Equal(all.Names(), []string{"y", "x"}) || all.Name() != "y" {
			t.Errorf("names %q", all.Names())
		}
		for _, name := range all.Names() {
			if info, err := c.node(0).Lookup(ctx, name); err != nil || len(info.Holders) != 1 || info.Holders[0].Token != all.Token() {
				t.Errorf("Lookup of %q: %+v, %v", name, info, err)
			}
		}
		c.waits("behind all", reverse, behind)
		c.unlock(all)
		c.unlock(c.granted(reverse))
		c.unlock(c.granted(behind))
	})
}

func TestLocksThatCannotBe(t *testing.T) {
	inCell(t, 1, func(t *testing.T, c *cell) {
		s := c.session(0)
		many := make([]string, 65)
		for i := range many {
			many[i] = strings.Repeat("n", i+1)
		}
		for what, call := range map[string]func(ctx context.Context) (*coord.Lock, error){
			"no names":       func(ctx context.Context) (*coord.Lock, error) { return s.LockAll(ctx, nil) },
			"an empty name":  func(ctx context.Context) (*coord.Lock, error) { return s.LockAll(ctx, []string{"a", ""}) },
			"a name twice":   func(ctx context.Context) (*coord.Lock, error) { return s.LockAll(ctx, []string{"a", "b", "a"}) },
			"65 names":       func(ctx context.Context) (*coord.Lock, error) { return s.LockAll(ctx, many) },
			"no slots":       func(ctx context.Context) (*coord.Lock, error) { return s.Lock(ctx, "a", coord.Slots(0)) },
			"slots below 0":  func(ctx context.Context) (*coord.Lock, error) { return s.Lock(ctx, "a", coord.Slots(-1)) },
			"too many slots": func(ctx context.Context) (*coord.Lock, error) { return s.Lock(ctx, "a", coord.Slots(1<<16+1)) },
			"shared with slots": func(ctx context.Context) (*coord.Lock, error) {
				return s.Lock(ctx, "a", coord.Slots(2), coord.Shared())
			},
			"a shared election": func(ctx context.Context) (*coord.Lock, error) {
				_, err := s.Campaign(ctx, "a", nil, coord.Shared())
				return nil, err
			},
		} {
			if _, err := call(c.within(time.Minute)); !errors.Is(err, coord.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if st := c.node(0).Status(); st.Locks != 0 || st.Waiting != 0 {
			t.Errorf("something was changed: %+v", st)
		}
	})
}

// A circle of three sessions on three nodes is refused to the call that would close it, by name; and only to that.
func TestDeadlockIsRefused(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		label := []string{"first", "second", "third"}
		var held []*coord.Lock
		var sessions []*coord.Session
		for i := range 3 {
			sessions = append(sessions, c.session(i, coord.WithTTL(20*ttl), coord.WithLabel(label[i])))
			held = append(held, c.lock(sessions[i], label[i]))
		}
		// The first waits for what the second holds, the second for the third's.
		first := c.queues(held[0].Context(), sessions[0], label[1])
		second := c.queues(held[1].Context(), sessions[1], label[2])
		// Another goroutine of the third session, which says nothing, may wait for the first's: no circle is known.
		silent := c.queues(c.within(time.Minute), sessions[2], label[0])
		c.waits("no circle yet", first, second, silent)
		if _, err := sessions[2].TryLock(held[2].Context(), label[0]); !errors.Is(err, coord.ErrLocked) {
			t.Errorf("TryLock: %v", err)
		}
		_, err := sessions[2].Lock(held[2].Context(), label[0])
		var deadlock *coord.DeadlockError
		if !errors.Is(err, coord.ErrDeadlock) || !errors.As(err, &deadlock) {
			t.Fatalf("the third: %v", err)
		}
		if len(deadlock.Cycle) != 3 {
			t.Fatalf("cycle %+v", deadlock.Cycle)
		}
		for i, w := range deadlock.Cycle {
			of := []int{2, 0, 1}[i]
			if w.Session != sessions[of].ID() || w.Label != label[of] || w.Holds != label[of] || w.Token != held[of].Token() || w.WaitsFor != label[(of+1)%3] {
				t.Errorf("member %d: %+v", i, w)
			}
		}
		c.waits("the others still wait", first, second, silent)
		c.unlock(held[2])
		c.unlock(c.granted(second))
		c.unlock(held[1])
		c.unlock(c.granted(first))
	})
}

// What has been unlocked is not held, and a nested Do says what the outer one holds.
func TestDeadlockInsideDo(t *testing.T) {
	inCell(t, 1, func(t *testing.T, c *cell) {
		s := c.session(0)
		ctx := c.within(time.Minute)
		nested := errors.New("not reached")
		err := s.Do(ctx, "x", func(ctx context.Context, x *coord.Lock) error {
			nested = s.Do(ctx, "y", func(ctx context.Context, _ *coord.Lock) error {
				_, err := s.Lock(ctx, "x")
				return err
			})
			if err := x.Unlock(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			again, err := s.Lock(context.WithoutCancel(ctx), "x")
			if err != nil {
				return err
			}
			return again.Unlock(context.WithoutCancel(ctx))
		})
		if err != nil {
			t.Errorf("after the unlock: %v", err)
		}
		if !errors.Is(nested, coord.ErrDeadlock) {
			t.Errorf("x inside x: %v", nested)
		}
		_, err = s.Lock(c.lock(s, "z", coord.Shared()).Context(), "z")
		if !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("an upgrade: %v", err)
		}
	})
}

// Locks and Sessions show everything, in order, also when there is more than fits into one answer.
func TestLooking(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		s, other := c.session(0, coord.WithTTL(20*ttl), coord.WithLabel("holder")), c.session(1, coord.WithTTL(20*ttl))
		big := make([]byte, 60<<10)
		var want []string
		for i := range 40 { // more than fits into one answer
			name := "jobs/" + string(rune('A'+i))
			want = append(want, name)
			c.lock(s, name, coord.WithData(big))
		}
		c.lock(s, "other")
		waits := c.queues(ctx, other, "jobs/A")
		for i := range 3 {
			var names []string
			for info, err := range c.node(i).Locks(ctx, "jobs/") {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, info.Name)
				if len(info.Holders) != 1 || info.Holders[0].Label != "holder" || len(info.Holders[0].Data) != len(big) || len(info.Queue) != map[bool]int{true: 1}[info.Name == "jobs/A"] {
					t.Errorf("%v, %d holders", info, len(info.Holders))
				}
			}
			if !slices.Equal(names, want) {
				t.Errorf("locks %q", names)
			}
			sessions := make(map[coord.SessionID]coord.SessionInfo)
			for info, err := range c.node(i).Sessions(ctx) {
				if err != nil {
					t.Fatal(err)
				}
				sessions[info.ID] = info
			}
			if len(sessions) != 2 {
				t.Fatalf("sessions %+v", sessions)
			}
			if got := sessions[s.ID()]; got.Label != "holder" || got.Locks != 41 || got.Waiting != 0 || got.TTL != 20*ttl || got.Node != c.node(0).ID() {
				t.Errorf("the holder: %+v", got)
			}
			if got := sessions[other.ID()]; got.Waiting != 1 || got.Locks != 0 {
				t.Errorf("the waiter: %+v", got)
			}
		}
		c.waits("behind the holder", waits)
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		c.unlock(c.granted(waits))
	})
}
