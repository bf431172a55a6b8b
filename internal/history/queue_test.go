package history

import "testing"

// queued is a history in which 1 holds, 2 and 3 were seen to wait, and both are granted.
func queued(second, third uint64) *script {
	s := &script{}
	return s.do(0, 1, lock(1, 5)).do(2, 60, lock(2, second)).do(3, 80, lock(3, third)).do(10, 12, lookup(1, 5, 2, 3))
}

func TestQueue_GoodHistories(t *testing.T) {
	queued(8, 9).do(13, 90, lock(4, 12)).good(t)
	// Who asked while the Lookup was under way may have been first.
	queued(8, 9).do(11, 50, lock(4, 7)).good(t)
	// Who was seen to wait gave up, and asked again.
	s := &script{}
	s.do(0, 1, lock(1, 5)).fail(2, 20, lock(2, 0), Unknown, "context canceled").do(10, 12, lookup(1, 5, 2)).
		do(30, 90, lock(3, 8)).do(31, 95, lock(2, 9)).good(t)
	// One session waits twice: which of its calls is which is not known.
	s = &script{}
	s.do(0, 1, lock(1, 5)).do(2, 60, lock(2, 7)).do(9, 60, lock(2, 10)).do(10, 12, lookup(1, 5, 2)).do(13, 90, lock(4, 8)).good(t)
}

func TestQueue_OrderOfTheQueue(t *testing.T) { queued(9, 8).bad(t, "G6", "was ahead of") }

func TestQueue_LaterCallsAreBehind(t *testing.T) {
	queued(8, 9).do(13, 50, lock(4, 7)).bad(t, "G6", "came before")
	queued(8, 9).do(13, 50, tryLock(4, 7)).bad(t, "G6", "came before")
	queued(8, 9).do(13, 50, Op{Kind: Campaign, Name: "l", Session: 4, Token: 7}).bad(t, "G6", "came before")
}
