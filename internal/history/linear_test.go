package history

import "testing"

func leader(holder, token uint64, value string) Op {
	return Op{Kind: Leader, Name: "l", Holder: holder, Token: token, Value: value}
}
func campaign(session, token uint64, value string) Op {
	return Op{Kind: Campaign, Name: "l", Session: session, Token: token, Value: value}
}
func proclaim(session, token uint64, value string) Op {
	return Op{Kind: Proclaim, Name: "l", Session: session, Token: token, Value: value}
}

const (
	unknownText = "coord: outcome unknown: context deadline exceeded"
	sessionText = "coord: not held: coord: session expired"
)

func TestLocks_GoodHistories(t *testing.T) {
	handover().do(45, 46, lookup(2, 8)).fail(47, 48, tryLock(3, 0), Refused, textLocked).do(51, 52, unlock(2, 8)).
		do(53, 54, lookup(0, 0)).fail(55, 56, unlock(2, 8), Refused, textNotHeld).do(57, 58, tryLock(3, 20)).good(t)
	// A cancelled request was granted for a while, seen by others, and withdrawn.
	s := &script{}
	s.fail(0, 5, lock(1, 0), Unknown, "context canceled").fail(6, 7, tryLock(2, 0), Refused, textLocked).do(8, 9, lookup(1, 4)).
		do(10, 11, lookup(0, 0)).do(12, 13, lock(2, 9)).good(t)
	// The same, and nobody saw who held it; and of a process that was killed.
	s = &script{}
	s.hang(0, lock(1, 0)).fail(6, 7, tryLock(2, 0), Refused, textLocked).do(8, 9, tryLock(2, 9)).good(t)
	// An unlock that was not answered has freed it, now or later.
	s = &script{}
	s.do(0, 1, lock(1, 5)).fail(2, 3, unlock(1, 5), Unknown, unknownText).do(4, 5, lookup(1, 5)).do(6, 7, alive(1)).
		do(8, 9, lookup(0, 0)).do(10, 12, alive(1)).good(t)
	// The holder's session ended: nobody leads, and yet the name is not free for a while.
	s = &script{}
	s.do(0, 1, campaign(1, 5, "x")).do(2, 3, leader(0, 0, "")).fail(4, 5, tryLock(2, 0), Refused, textLocked).
		do(6, 7, lookup(1, 5)).do(8, 9, lock(2, 8)).good(t)
	// That its session has ended is known to a process before the cell.
	s = &script{}
	s.do(0, 1, lock(1, 5)).fail(2, 3, unlock(1, 5), Refused, sessionText).do(4, 5, lookup(1, 5)).good(t)
}

func TestLocks_NotLinearizable(t *testing.T) {
	const stuck = "no order of the calls"
	handover().do(53, 54, lookup(1, 5)).bad(t, "G5", stuck) // a former holder
	// Nobody holds it, and its holder's session was alive long after; the same of a leader.
	s := &script{}
	s.do(0, 1, lock(1, 5)).do(2, 3, lookup(0, 0)).do(9, 9, check(1, 5)).bad(t, "G5", stuck)
	s = &script{}
	s.do(0, 1, campaign(1, 5, "x")).do(2, 3, leader(0, 0, "")).do(9, 9, check(1, 5)).bad(t, "G5", stuck)
	// Held after it was freed.
	s = &script{}
	s.do(0, 1, lock(1, 5)).do(2, 3, unlock(1, 5)).do(4, 5, lookup(1, 5)).bad(t, "G5", stuck)
	// Refused though free: it was never granted, or was given back.
	s = &script{}
	s.fail(0, 1, tryLock(1, 0), Refused, textLocked).bad(t, "G5", stuck)
	s = &script{}
	s.do(0, 1, lock(1, 5)).do(2, 3, unlock(1, 5)).fail(4, 5, tryLock(2, 0), Refused, textLocked).bad(t, "G5", stuck)
	// Granted though held.
	s = &script{}
	s.do(0, 1, lock(1, 5)).do(2, 3, lock(2, 7)).do(4, 4, alive(1)).bad(t, "G5", stuck)
	// A grant that nobody asked for; before it was asked for.
	s = &script{}
	s.do(0, 1, lookup(3, 5)).bad(t, "G5", "never asked")
	s = &script{}
	s.do(0, 1, lookup(3, 5)).fail(2, 3, lock(3, 0), Unknown, unknownText).bad(t, "G5", "never asked")
	s = &script{}
	s.do(0, 1, lock(1, 5)).do(2, 3, unlock(1, 5)).do(4, 5, unlock(1, 5)).bad(t, "G5", stuck)
	// Said not to be held while it is; a write on the condition of it, refused and made.
	held := Condition{Lock: "l", Token: 5}
	s = &script{}
	s.do(0, 1, lock(1, 5)).fail(2, 3, unlock(1, 5), Refused, textNotHeld).do(4, 4, alive(1)).bad(t, "G5", stuck)
	s = &script{}
	s.do(0, 1, lock(1, 5)).fail(2, 3, lost(putIf("k", 7, held)), Refused, textConflict).do(4, 4, check(1, 5)).bad(t, "G5", stuck)
	s = &script{}
	s.do(0, 1, lock(1, 5)).do(2, 3, unlock(1, 5)).do(4, 5, putIf("k", 7, held)).bad(t, "G5", stuck)
}

func TestElections(t *testing.T) {
	const stuck = "no order of the calls"
	s := &script{}
	s.do(0, 1, campaign(1, 5, "x")).do(2, 3, leader(1, 5, "x")).do(4, 9, proclaim(1, 5, "y")).do(5, 6, leader(1, 5, "y")).
		fail(10, 11, proclaim(1, 5, "z"), Unknown, unknownText).do(12, 13, leader(1, 5, "y")).do(14, 15, leader(1, 5, "z")).good(t)
	s = &script{}
	s.do(0, 1, campaign(1, 5, "x")).do(4, 5, proclaim(1, 5, "y")).do(6, 7, leader(1, 5, "x")).bad(t, "G5", stuck)
	s = &script{}
	s.do(0, 1, campaign(1, 5, "x")).do(6, 7, leader(1, 5, "y")).bad(t, "G5", stuck)
	s = &script{}
	s.do(0, 1, campaign(1, 5, "x")).do(2, 3, Op{Kind: Resign, Name: "l", Session: 1, Token: 5}).do(6, 7, leader(1, 5, "x")).bad(t, "G5", stuck)
	s = &script{}
	s.do(0, 1, campaign(1, 5, "x")).fail(4, 5, proclaim(1, 5, "y"), Refused, textNotHeld).do(6, 6, check(1, 5)).bad(t, "G5", stuck)
	s = &script{}
	s.do(0, 1, campaign(1, 5, "x")).fail(4, 5, proclaim(1, 5, "y"), Unknown, unknownText).do(6, 7, leader(1, 5, "y")).
		do(8, 9, leader(1, 5, "x")).bad(t, "G5", stuck)
}

func TestKeys_GoodHistories(t *testing.T) {
	s := &script{}
	s.do(0, 1, get("a", 0)).do(2, 9, put("a", 5)).do(3, 4, get("a", 0)).do(5, 6, get("a", 5)).
		fail(10, 11, lost(putIf("a", 6, Condition{Absent: true})), Refused, textConflict).
		do(12, 13, putIf("a", 7, Condition{Revision: 5})).fail(14, 15, lost(putIf("a", 8, Condition{Revision: 5})), Refused, textConflict).
		do(16, 17, remove("a", 9)).fail(18, 19, lost(remove("a", 0)), Refused, textNotFound).
		do(20, 21, putIf("a", 10, Condition{Absent: true})).good(t)
	// Unanswered: made long after, or never; seen only in what others are refused.
	s = &script{}
	s.fail(0, 1, lost(put("a", 5)), Unknown, unknownText).do(2, 3, get("a", 0)).do(90, 91, get("a", 5)).good(t)
	s = &script{}
	s.fail(0, 1, lost(put("a", 5)), Unknown, unknownText).fail(2, 3, lost(putIf("a", 6, Condition{Absent: true})), Refused, textConflict).good(t)
	s = &script{}
	s.do(0, 1, put("a", 5)).hang(2, lost(remove("a", 6))).do(3, 4, get("a", 5)).do(5, 6, get("a", 0)).do(7, 8, putIf("a", 9, Condition{Absent: true})).good(t)
	// An ephemeral key goes when its session may have ended.
	own := Op{Kind: Put, Name: "a", Value: "v5", Session: 1, Revision: 5}
	s = &script{}
	s.do(0, 1, own).do(2, 2, alive(1)).do(3, 4, get("a", 5)).do(5, 6, get("a", 0)).good(t)
	s = &script{}
	s.fail(0, 1, lost(own), Unknown, unknownText).do(3, 4, get("a", 5)).do(5, 6, get("a", 0)).good(t)
}

func TestKeys_NotLinearizable(t *testing.T) {
	const stuck = "no order of the calls"
	two := func() *script { return (&script{}).do(0, 1, put("a", 5)).do(2, 3, put("a", 6)) }
	two().do(4, 5, get("a", 5)).bad(t, "G5", stuck)
	two().do(4, 5, get("a", 0)).bad(t, "G5", stuck)
	two().do(4, 5, putIf("a", 7, Condition{Revision: 5})).bad(t, "G5", stuck)
	two().do(4, 5, putIf("a", 7, Condition{Absent: true})).bad(t, "G5", stuck)
	two().fail(4, 5, lost(putIf("a", 7, Condition{Revision: 6})), Refused, textConflict).bad(t, "G5", stuck)
	two().fail(4, 5, lost(remove("a", 7)), Refused, textNotFound).bad(t, "G5", stuck)
	two().do(4, 5, remove("a", 7)).do(6, 7, get("a", 6)).bad(t, "G5", stuck)
	two().do(4, 5, remove("a", 7)).do(6, 7, remove("a", 8)).bad(t, "G5", stuck)
	two().do(4, 5, remove("a", 7)).fail(6, 7, lost(putIf("a", 8, Condition{Absent: true})), Refused, textConflict).bad(t, "G5", stuck)
	two().fail(4, 5, lost(Op{Kind: Delete, Name: "a", Lasting: true, If: Condition{Revision: 6}}), Refused, textConflict).bad(t, "G5", stuck)
	two().do(4, 5, remove("a", 7)).fail(6, 7, lost(Op{Kind: Delete, Name: "a", Lasting: true, If: Condition{Revision: 6}}), Refused, textConflict).
		bad(t, "G5", stuck)
	// Two reads that see a change come and go.
	(&script{}).do(0, 1, put("a", 5)).do(2, 90, put("a", 6)).do(3, 4, get("a", 6)).do(5, 6, get("a", 5)).bad(t, "G5", stuck)
	// An ephemeral key is gone while its session lives.
	own := Op{Kind: Put, Name: "a", Value: "v5", Session: 1, Revision: 5}
	(&script{}).do(0, 1, own).do(2, 3, get("a", 0)).do(4, 4, alive(1)).bad(t, "G5", stuck)
	// An unanswered deletion may explain it, but a watcher was told everything, and it was not among that.
	s := (&script{}).do(0, 1, put("a", 5)).fail(2, 3, lost(remove("a", 9)), Unknown, unknownText).do(4, 5, get("a", 0)).do(6, 7, put("a", 10))
	s.good(t)
	s.snapshot(0, 1, 1).event(1, 1, putEvent("a", 5)).event(7, 1, putEvent("a", 10)).bad(t, "G5", stuck)
}
