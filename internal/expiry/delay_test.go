package expiry

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/fsm"
)

// What nobody renews ends once, a TTL after it was opened; under a new leader a TTL after the term began, and not before:
// what the former one had counted is not known to it.
func TestADelayBeginsAnewWithTheTerm(t *testing.T) {
	type grant struct {
		name  string
		token uint64
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		since := func() time.Duration { return time.Since(start) }
		ended := make(map[grant]time.Duration)
		var table *Table[grant]
		table = New(Config[grant]{
			Now:      since,
			Compare:  func(a, b grant) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.token, b.token)) },
			Evidence: func(context.Context, uint64) error { return nil },
			Propose: func(_ context.Context, _ uint64, grants []grant) error {
				for _, g := range grants {
					if _, twice := ended[g]; twice {
						t.Errorf("%v ended twice", g)
					}
					ended[g] = since()
					table.Ended(g)
				}
				return nil
			},
		})
		defer table.Close()
		old, young := grant{"a", 1}, grant{"a", 2}
		table.Start(1, func(func(grant, time.Duration) bool) {})
		table.Opened(old, 3*time.Second)
		pass(2 * time.Second)
		table.Start(2, func(yield func(grant, time.Duration) bool) { yield(old, 3*time.Second) })
		table.Opened(young, time.Second)
		pass(4 * time.Second)
		for g, want := range map[grant]time.Duration{old: 5 * time.Second, young: 3 * time.Second} {
			if at := ended[g]; at < want || at > want+200*time.Millisecond {
				t.Errorf("%v ended after %v, want %v", g, at, want)
			}
		}
	})
}

// What is hastened ends with the next round, by the same rules: with evidence, and once.
func TestHasten(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		table.Start(1, numbered(3, time.Hour))
		pass(time.Second)
		back := c.loseQuorum()
		table.Hasten(1)
		table.Hasten(1)
		table.Hasten(99)
		pass(5 * time.Second)
		if table.Expiring(1) || c.proposed != 0 {
			t.Error("hastened without evidence")
		}
		back()
		pass(time.Second)
		if _, ended := c.endOf(1); !ended || len(c.ended) != 1 {
			t.Errorf("ended: %v", c.ended)
		}
		table.Hasten(2)
		table.Ended(2)
		pass(time.Second)
		if len(c.ended) != 1 {
			t.Errorf("what had ended meanwhile was proposed: %v", c.ended)
		}
	})
}
