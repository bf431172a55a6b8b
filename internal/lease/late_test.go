package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

// A session whose creation took a whole TTL has ended by the time anybody sees it, without being asked.
func TestG3_LateFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(1)
		first := c.now()
		time.Sleep(10 * time.Second)
		l := New(10*time.Second, 0, c.now, first)
		if !closed(l.Done()) || l.Context().Err() == nil {
			t.Error("whoever waits for its end is not told")
		}
		if h, err := l.Hold(t.Context()); err == nil {
			t.Errorf("it holds: %v", h.Check())
		}
	})
}
