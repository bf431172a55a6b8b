package history

import "testing"

func alive(session uint64) Op  { return Op{Kind: Alive, Session: session} }
func opened(session uint64) Op { return Op{Kind: Open, Session: session, TTL: ms(1000)} }

// ownKey is a history in which session 1's ephemeral key expires, as seen at 3 s.
func ownKey() *script {
	s := &script{}
	s.do(0, 1, opened(1)).do(2, 3, Op{Kind: Put, Name: "own", Value: "v", Session: 1, Revision: 5}).do(1000, 1000, alive(1))
	s.snapshot(0, 7, 1).event(4, 7, Event{Type: eventPut, Key: "own", Value: "v", Session: 1, Revision: 5})
	return s.event(3000, 7, Event{Type: eventExpire, Key: "own", Session: 1, Revision: 9})
}

func TestExpiry_GoodHistories(t *testing.T) {
	ownKey().do(3000, 3000, alive(1)).fail(3001, 3001, alive(1), Refused, "").good(t)
	// A closed session and one of a node that was shut down end early.
	s := &script{}
	s.do(0, 1, opened(1)).do(2, 3, Op{Kind: Close, Session: 1}).fail(4, 4, Op{Kind: Expired, Session: 1}, Unknown, "coord: session closed").good(t)
	s = &script{}
	s.do(0, 1, opened(1)).fail(4, 4, Op{Kind: Expired, Session: 1}, Unknown, "coord: node closed").good(t)
	s = &script{}
	s.do(0, 1, opened(1)).fail(900, 900, Op{Kind: Expired, Session: 1}, Unknown, "coord: session expired").good(t)
	// A grant that its caller never learned of was withdrawn: its session lives on.
	s = &script{}
	s.fail(0, 1, lock(1, 0), Unknown, "context canceled").do(2, 3, lookup(1, 5)).do(4, 5, lock(2, 7)).do(6, 6, alive(1)).good(t)
}

func TestExpiry_AliveAfterTheEnd(t *testing.T) {
	ownKey().do(3001, 3001, alive(1)).bad(t, "G8", "was over by")
	ownKey().do(3001, 3002, lock(1, 12)).bad(t, "G8", "was over by")
	ownKey().do(3001, 3002, Op{Kind: Put, Name: "own", Value: "w", Session: 1, Revision: 12}).bad(t, "G8", "was over by")
	// Its lock was granted on, and it never let go.
	s := &script{}
	s.do(0, 1, lock(1, 5)).do(2, 3, lock(2, 7)).do(4, 4, alive(1)).bad(t, "G8", "was over by")
}

func TestExpiry_TooEarly(t *testing.T) {
	s := &script{}
	s.do(0, 1, opened(1)).fail(400, 400, Op{Kind: Expired, Session: 1}, Unknown, "coord: session expired").bad(t, "G8", "much less than a TTL")
}
