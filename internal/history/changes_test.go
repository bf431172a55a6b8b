package history

import "testing"

// Calls about plain keys. A value is made of the revision at which it is written.
func put(key string, revision uint64) Op {
	return Op{Kind: Put, Name: key, Value: "v" + itoa(revision), Revision: revision, Lasting: true}
}
func putIf(key string, revision uint64, c Condition) Op {
	op := put(key, revision)
	op.If = c
	return op
}
func remove(key string, revision uint64) Op {
	return Op{Kind: Delete, Name: key, Revision: revision, Lasting: true}
}
func get(key string, revision uint64) Op {
	op := Op{Kind: Get, Name: key, Revision: revision}
	if revision != 0 {
		op.Value = "v" + itoa(revision)
	}
	return op
}

// lost is op, of which its caller did not learn what it came to.
func lost(op Op) Op {
	op.Revision = 0
	return op
}
func putEvent(key string, revision uint64) Event {
	return Event{Type: eventPut, Key: key, Value: "v" + itoa(revision), Revision: revision}
}
func deleteEvent(key string, revision uint64) Event {
	return Event{Type: eventDelete, Key: key, Revision: revision}
}

func TestOnce_GoodHistories(t *testing.T) {
	s := &script{}
	s.do(0, 1, put("a", 5)).do(2, 3, get("a", 5)).fail(4, 5, lost(put("a", 6)), Unknown, "coord: outcome unknown").
		fail(6, 7, lost(putIf("a", 7, Condition{Absent: true})), Refused, "coord: conflict").hang(8, lost(put("a", 8))).
		event(9, 1, putEvent("a", 6)).event(9, 1, putEvent("a", 8)).do(10, 11, get("a", 8)).
		fail(12, 13, lost(remove("a", 9)), Unknown, "coord: outcome unknown").event(14, 1, deleteEvent("a", 9)).good(t)
}

func TestOnce_Violations(t *testing.T) {
	wrong := putEvent("a", 6)
	wrong.Value = "v5"
	s := &script{}
	s.fail(0, 1, lost(put("a", 5)), Unknown, "").event(2, 1, putEvent("a", 5)).event(3, 1, wrong).bad(t, "G7", "was written twice")
	s = &script{}
	s.do(0, 1, put("a", 5)).event(3, 1, wrong).bad(t, "G7", "but it was seen as")
	s = &script{}
	s.fail(0, 1, lost(put("a", 5)), Refused, "coord: conflict").event(3, 1, putEvent("a", 5)).bad(t, "G7", "it was refused")
	s = &script{}
	s.do(0, 1, put("a", 5)).event(3, 1, putEvent("a", 9)).bad(t, "G7", "nobody wrote that")
	s = &script{}
	s.event(3, 1, putEvent("a", 5)).do(4, 5, put("a", 5)).bad(t, "G7", "before it was called for")
	s = &script{}
	s.do(0, 1, put("a", 5)).event(3, 1, deleteEvent("a", 9)).bad(t, "G7", "nobody asked for that")
	s = &script{}
	s.do(0, 1, put("a", 5)).event(3, 1, deleteEvent("a", 9)).do(4, 5, remove("a", 9)).bad(t, "G7", "before it was called for")
	// Two say different things of one revision.
	s = &script{}
	s.do(0, 1, put("a", 5)).event(3, 1, deleteEvent("a", 5)).bad(t, "G9", "but watcher 1")
	s = &script{}
	own := putEvent("a", 5)
	own.Session = 3
	s.do(0, 1, put("a", 5)).event(3, 1, own).bad(t, "G9", "but watcher 1")
	s = &script{}
	s.do(0, 1, put("a", 5)).do(2, 3, Op{Kind: Get, Name: "a", Value: "x", Revision: 5}).bad(t, "G5", "says: put of")
}

func TestCounters(t *testing.T) {
	s := &script{}
	s.do(0, 1, put("a", 5)).do(2, 9, putIf("a", 6, Condition{Revision: 5})).do(2, 9, putIf("a", 7, Condition{Revision: 5})).
		bad(t, "G7", "both follow the same revision")
	// One of them was not answered, and was seen.
	s = &script{}
	s.do(0, 1, put("a", 5)).do(2, 9, putIf("a", 6, Condition{Revision: 5})).
		fail(2, 9, lost(putIf("a", 7, Condition{Revision: 5})), Unknown, "").event(10, 1, putEvent("a", 7)).
		bad(t, "G7", "both follow the same revision")
}
