package history

import "testing"

func TestTokens_GoodHistories(t *testing.T) {
	s := &script{} // overlapping calls may be numbered in either order
	s.do(0, 50, put("a", 9)).do(0, 40, put("b", 8)).do(10, 30, tryLock(1, 7)).good(t)
}

func TestTokens_LowerAfterHigher(t *testing.T) {
	s := &script{}
	s.do(0, 1, lock(1, 5)).do(2, 3, unlock(1, 5)).do(4, 5, lock(2, 4)).bad(t, "G2", "got 4, and by")
	// Another name has the same counter.
	s = &script{}
	s.do(0, 1, put("a", 9)).do(2, 3, lock(1, 5)).bad(t, "G2", "got 5, and by")
	// A third saw the higher one: in a Lookup, in a Get, in a watch.
	s = &script{}
	s.do(0, 20, lock(1, 9)).do(2, 3, lookup(1, 9)).do(4, 5, put("a", 7)).bad(t, "G2", "got 7, and by")
	s = &script{}
	s.do(0, 20, put("a", 9)).do(2, 3, get("a", 9)).do(4, 5, put("b", 7)).bad(t, "G2", "got 7, and by")
	s = &script{}
	s.batch(2, Batch{Watcher: 1, Prefix: true, Revision: 9}).do(4, 5, put("b", 7)).bad(t, "G2", "got 7, and by")
}

func TestTokens_Twice(t *testing.T) {
	s := &script{}
	s.do(0, 9, lock(1, 5)).do(0, 9, lock(2, 5)).bad(t, "G2", "granted twice")
	s = &script{}
	s.do(0, 9, lock(1, 5)).do(0, 9, put("a", 5)).bad(t, "G2", "given twice")
}

func write(token, number uint64) Op {
	return Op{Kind: Write, Name: "r", Token: token, Revision: number}
}

func TestFence(t *testing.T) {
	s := &script{}
	s.do(0, 5, write(3, 0)).do(4, 9, write(5, 0)).do(6, 8, write(3, 0)).fail(10, 11, write(3, 0), Refused, "fence: stale token").
		do(12, 13, write(5, 0)).good(t)
	s = &script{}
	s.do(0, 5, write(5, 0)).do(6, 8, write(3, 0)).bad(t, "G4", "was accepted after")
	// They overlap, and the resource says which was first.
	s = &script{}
	s.do(0, 9, write(5, 1)).do(0, 9, write(3, 2)).bad(t, "G4", "was accepted after")
	s = &script{}
	s.do(0, 9, write(5, 2)).do(0, 9, write(3, 1)).good(t)
}
