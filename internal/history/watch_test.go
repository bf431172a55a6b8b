package history

import "testing"

// watched is a good history of two keys and a watcher of all, with a snapshot.
func watched() *script {
	s := &script{}
	s.do(0, 1, put("a", 5)).do(2, 3, put("b", 6)).do(4, 5, put("a", 7)).do(6, 7, remove("b", 8)).do(8, 9, put("b", 11))
	return s.snapshot(2, 1, 5, putEvent("a", 5)).event(4, 1, putEvent("b", 6))
}

// rest is what watched's watcher has yet to be told.
func (s *script) rest() *script {
	return s.event(6, 1, putEvent("a", 7)).event(8, 1, deleteEvent("b", 8)).event(10, 1, putEvent("b", 11))
}

func key(watcher int, from uint64, e Event) Batch {
	return Batch{Watcher: watcher, Key: e.Key, From: from, Revision: e.Revision, Events: []Event{e}}
}

func TestWatch_GoodHistories(t *testing.T) {
	watched().rest().batch(20, Batch{Watcher: 1, Prefix: true, Revision: 30}).batch(21, Batch{Watcher: 1, Prefix: true, End: true}).good(t)
	// It fell behind, and was given the state anew, in parts.
	watched().batch(7, Batch{Watcher: 1, Prefix: true, Snapshot: true, More: true, Revision: 9, Events: []Event{putEvent("a", 7)}}).
		batch(7, Batch{Watcher: 1, Prefix: true, Snapshot: true, Revision: 9}).event(10, 1, putEvent("b", 11)).good(t)
	// Resumed by another, and a watcher of one key from "now".
	watched().batch(7, Batch{Watcher: 2, Prefix: true, From: 7, Revision: 7, Events: []Event{putEvent("a", 7)}}).
		event(8, 2, deleteEvent("b", 8)).batch(7, key(3, 0, deleteEvent("b", 8))).batch(10, key(3, 0, putEvent("b", 11))).good(t)
	// Nobody knows whether an unanswered deletion was made before the snapshot.
	s := &script{}
	s.do(0, 1, put("a", 5)).fail(2, 3, lost(remove("a", 6)), Unknown, "").snapshot(4, 1, 8).good(t)
}

func TestWatch_Order(t *testing.T) {
	watched().rest().event(11, 1, putEvent("a", 7)).bad(t, "G9", "not above what came before")
	watched().batch(5, Batch{Watcher: 1, Prefix: true, Revision: 3}).bad(t, "G9", "not above what came before")
	watched().batch(5, Batch{Watcher: 1, Prefix: true, Revision: 7}).event(6, 1, putEvent("a", 7)).bad(t, "G9", "not above what came before")
	watched().batch(5, key(2, 6, putEvent("a", 5))).bad(t, "G9", "from before the revision")
	watched().batch(5, Batch{Watcher: 2, Key: "a", Revision: 6, Events: []Event{putEvent("b", 6)}}).bad(t, "G9", "not asked for")
	watched().batch(5, Batch{Watcher: 1, Prefix: true, Revision: 7, Events: []Event{deleteEvent("b", 8)}}).bad(t, "G9", "of another revision")
	twice := Batch{Watcher: 1, Prefix: true, Revision: 7, Events: []Event{putEvent("a", 7), putEvent("a", 7)}}
	watched().batch(6, twice).bad(t, "G9", "told twice")
}

func TestWatch_Gaps(t *testing.T) {
	// Skipped between two that were told; before a progress; after a resumption; and of a call that nobody else saw.
	watched().event(8, 1, deleteEvent("b", 8)).bad(t, "G9", "but for put of \"a\"")
	watched().batch(8, Batch{Watcher: 1, Prefix: true, Revision: 10}).bad(t, "G9", "but for put of \"a\"")
	watched().batch(9, key(2, 6, putEvent("b", 11))).bad(t, "G9", "but for put of \"b\"")
	watched().rest().batch(9, Batch{Watcher: 2, Prefix: true, From: 7, Revision: 8, Events: []Event{deleteEvent("b", 8)}}).
		bad(t, "G9", "but for put of \"a\"")
	// Two keys expired at one revision.
	both := Batch{Watcher: 1, Prefix: true, Revision: 20, Events: []Event{
		{Type: eventExpire, Key: "x", Session: 3, Revision: 20}, {Type: eventExpire, Key: "y", Session: 3, Revision: 20},
	}}
	one := both
	one.Watcher, one.Events = 2, both.Events[:1]
	watched().rest().batch(30, both).good(t)
	watched().rest().batch(30, both).batch(30, one).bad(t, "G9", "but for expire of \"y\"")
	// A Get is a witness as well.
	s := &script{}
	s.fail(0, 1, lost(put("a", 5)), Unknown, "").do(2, 3, get("a", 5)).snapshot(0, 1, 2).batch(4, Batch{Watcher: 1, Prefix: true, Revision: 9}).
		bad(t, "G9", "but for put of \"a\"")
}

func TestWatch_Snapshots(t *testing.T) {
	watched().rest().snapshot(10, 2, 9, putEvent("a", 5)).bad(t, "G9", "has \"a\" as of revision 5")
	watched().rest().snapshot(10, 2, 9, putEvent("a", 7), putEvent("b", 6)).bad(t, "G9", "has \"b\" as of revision 6")
	watched().rest().snapshot(10, 2, 9).bad(t, "G9", "has \"a\" as of revision 0")
	watched().rest().snapshot(10, 2, 9, putEvent("a", 7), putEvent("a", 7)).bad(t, "G9", "a key twice")
	watched().rest().snapshot(10, 2, 6, putEvent("a", 7)).bad(t, "G9", "no present state")
	watched().batch(7, Batch{Watcher: 1, Prefix: true, Snapshot: true, More: true, Revision: 9, Events: []Event{putEvent("a", 7)}}).
		event(10, 1, putEvent("b", 11)).bad(t, "G9", "the rest of a snapshot is missing")
}
