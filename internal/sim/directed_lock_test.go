package sim_test

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A Lock call that was cancelled while it waited leaves nothing in the queue, though its session lives on: the next one
// is granted at once.
func TestG6_DirectedACancelledWaiterLeavesTheQueue(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leads()
		here, there := c.others(leader)[0], c.others(leader)[1]
		held := c.lock(c.session(leader, time.Minute), "x")
		waiter := c.session(here, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := waiter.Lock(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the wait ended with %v", err)
		}
		time.Sleep(time.Second)
		if err := held.Unlock(c.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.session(there, time.Minute).Lock(c.within(2*time.Second), "x"); err != nil {
			t.Errorf("the next one: %v", err)
		}
		if err := waiter.Err(); err != nil {
			t.Errorf("the waiter's session has ended, and this test proves nothing: %v", err)
		}
	})
}

// A new cell begins far above zero, so that what an earlier one of its name handed out is refused.
func TestG2_DirectedANewCellLiftsItsTokens(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		if l := c.lock(c.session(0, time.Minute), "x"); l.Token() < 1<<32 {
			t.Errorf("its first token is %d", l.Token())
		}
	})
}
