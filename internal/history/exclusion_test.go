package history

import "testing"

// Calls about the lock "l".
func lock(session, token uint64) Op {
	return Op{Kind: Lock, Name: "l", Client: int(session), Session: session, Token: token}
}
func tryLock(session, token uint64) Op {
	return Op{Kind: TryLock, Name: "l", Client: int(session), Session: session, Token: token}
}
func unlock(session, token uint64) Op {
	return Op{Kind: Unlock, Name: "l", Client: int(session), Session: session, Token: token}
}
func check(session, token uint64) Op {
	return Op{Kind: Check, Name: "l", Client: int(session), Session: session, Token: token}
}
func lookup(holder, token uint64, queue ...uint64) Op {
	return Op{Kind: Lookup, Name: "l", Holder: holder, Token: token, Queue: queue}
}

// handover is a good history: 1 holds, lets go, and 2 holds.
func handover() *script {
	s := &script{}
	return s.do(0, 10, lock(1, 5)).do(20, 20, check(1, 5)).do(5, 40, lock(2, 8)).do(30, 38, unlock(1, 5)).do(50, 50, check(2, 8))
}

func TestExclusion_GoodHistories(t *testing.T) {
	handover().good(t)
	// A Check at the very moment of the next grant may have been before it.
	s := &script{}
	s.do(0, 10, lock(1, 5)).do(5, 40, lock(2, 8)).do(40, 40, check(1, 5)).good(t)
	// The first holder's session ends without a word, and the second is granted.
	s = &script{}
	s.do(0, 10, lock(1, 5)).do(20, 20, check(1, 5)).do(15, 90, lock(2, 8)).do(91, 91, check(2, 8)).good(t)
	// The same client locks again.
	s = &script{}
	s.do(0, 1, lock(1, 5)).do(2, 3, unlock(1, 5)).do(4, 5, lock(1, 7)).do(6, 6, check(1, 7)).do(7, 8, unlock(1, 7)).good(t)
}

func TestExclusion_CheckAfterTheNextGrant(t *testing.T) {
	handover().do(41, 41, check(1, 5)).bad(t, "G3", "may act, and since")
	// The next grant was seen by a third before its holder knew.
	s := &script{}
	s.do(0, 10, lock(1, 5)).do(5, 90, lock(2, 8)).do(20, 30, lookup(2, 8)).do(40, 40, check(1, 5)).bad(t, "G3", "may act, and since")
}

func TestExclusion_CheckAfterRelease(t *testing.T) {
	s := &script{}
	s.do(0, 1, lock(1, 5)).do(2, 3, unlock(1, 5)).do(4, 4, check(1, 5)).bad(t, "G3", "may act after")
}

func TestExclusion_TwoHolders(t *testing.T) {
	s := &script{}
	s.do(0, 10, lock(1, 5)).do(12, 20, lock(2, 8)).do(30, 40, unlock(1, 5)).bad(t, "G1", "was still held")
	put := Op{Kind: Put, Name: "k", Value: "v", Revision: 9, Lasting: true, If: Condition{Lock: "l", Token: 5}}
	s = &script{}
	s.do(0, 10, lock(1, 5)).do(12, 20, lock(2, 8)).do(30, 40, put).bad(t, "G1", "was still held")
	s = &script{}
	s.do(0, 10, lock(1, 5)).do(12, 20, lookup(2, 5)).bad(t, "G1", "is that of session 1")
}
