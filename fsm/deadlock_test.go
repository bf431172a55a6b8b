package fsm

import (
	"fmt"
	"testing"
)

// waiter is a session that takes locks one after the other and says what it holds.
type nested struct {
	*replica
	id   SessionID
	seq  uint64
	held []GrantID
}

func (r *replica) nested(name string) *nested { return &nested{replica: r, id: r.open(name)} }

func (n *nested) lock(name string, t Terms) Output {
	n.seq++
	t.Holding = n.held
	out := n.do(Lock{Change: Change{Session: n.id, Seq: n.seq}, Name: name, Terms: &t})
	for _, g := range out.Grants {
		if g.Session == n.id {
			n.held = append(n.held, GrantID{g.Name, g.Token})
		}
	}
	return out
}

// chain makes n sessions of which each holds one lock and waits for that of the next; the last one waits for nothing.
func chain(r *replica, n int) (last *nested) {
	var all []*nested
	for i := range n {
		s := r.nested(fmt.Sprint("s", i))
		s.lock(fmt.Sprint("l", i), Terms{})
		all = append(all, s)
	}
	for i := range n - 1 {
		all[i].lock(fmt.Sprint("l", i+1), Terms{})
	}
	return all[n-1]
}

// TestDeadlockIsBounded: a circle that is too long is not looked for to its end, and one that is long is named in part.
func TestDeadlockIsBounded(t *testing.T) {
	long := newReplica(t)
	result := long.result(chain(long, 1000).lock("l0", Terms{}))
	if result.Code != Deadlock || len(result.Cycle.Waits) != MaxCycle {
		t.Fatalf("a circle of 1,000: %+v", result)
	}
	if first := result.Cycle.Waits[0]; first.Holds != "l999" || first.WaitsFor != "l0" {
		t.Errorf("it begins with %+v", first)
	}
	longer := newReplica(t)
	if out := chain(longer, maxWalk).lock("l0", Terms{}); len(out.Replies) != 0 {
		t.Fatalf("a circle of %d was searched for to the end: %+v", maxWalk, out.Replies)
	}
}

// TestDeadlockOfTheDead: what a session that has ended waits for, or was said to hold for it, is over; not yet reaped, it
// keeps nobody waiting.
func TestDeadlockOfTheDead(t *testing.T) {
	r := newReplica(t)
	r.do(Generation{First: true, Params: Params{ReapStep: 1}})
	a, b, c := r.nested("a"), r.nested("b"), r.nested("c")
	a.lock("la", Terms{})
	b.lock("lb", Terms{})
	// b's lock is held for what c waits for: its caller has sessions of its own, and one of them is about to die.
	c.lock("lc1", Terms{})
	c.lock("lc2", Terms{})
	c.held = append(c.held, b.held...)
	c.lock("la", Terms{})
	out := r.do(
		Expire{Term: 1, Sessions: []SessionID{c.id}},
		Lock{Change: Change{Session: a.id, Seq: 9}, Name: "lb", Terms: &Terms{Holding: a.held}},
	)
	if len(r.Lookup("lb").Queue) != 1 || !r.Reaping() {
		t.Fatalf("refused: %+v", out.Replies)
	}
}

// TestDeadlockAcrossGoroutines: a session is used by many goroutines, each of which holds and waits for itself. What one
// of them holds is not what another holds.
func TestDeadlockAcrossGoroutines(t *testing.T) {
	r := newReplica(t)
	one := r.nested("one")
	other := &nested{replica: r, id: one.id, seq: 100}
	one.lock("a", Terms{})
	other.lock("b", Terms{})
	if out := one.lock("b", Terms{}); len(out.Replies) != 0 {
		t.Fatalf("refused: %+v", out.Replies)
	}
	third := &nested{replica: r, id: one.id, seq: 200}
	if out := third.lock("a", Terms{}); len(out.Replies) != 0 {
		t.Fatalf("refused, although it holds nothing: %+v", out.Replies)
	}
	if got := r.result(other.lock("a", Terms{})); got.Code != Deadlock || len(got.Cycle.Waits) != 2 {
		t.Fatalf("the circle of two goroutines: %+v", got)
	}
}

// TestDeadlockNeedsAllSlots: each of three holders of slots waits for the one that waits for a slot; only the last of
// them closes the circle.
func TestDeadlockNeedsAllSlots(t *testing.T) {
	r := newReplica(t)
	waits := r.nested("waits")
	waits.lock("own", Terms{})
	var holders []*nested
	for i := range 3 {
		h := r.nested(fmt.Sprint("holder", i))
		h.lock("s", Terms{Slots: 3})
		holders = append(holders, h)
	}
	waits.lock("s", Terms{Slots: 3})
	for i, h := range holders {
		out := h.lock("own", Terms{})
		if refused := len(out.Replies) > 0; refused != (i == 2) {
			t.Fatalf("holder %d: %+v", i, out.Replies)
		}
	}
	// The second time it is in a circle that goes by way of another holder of a slot, which waits as well.
	if got := r.result(holders[2].lock("own", Terms{})); got.Code != Deadlock {
		t.Fatalf("again: %+v", got)
	}
}

// TestDeadlockCostsNothing where nobody says what he holds, or nobody waits for it.
func TestDeadlockCostsNothing(t *testing.T) {
	r := newReplica(t)
	last := chain(r, 1000)
	if r.wanted("l0", &claim{}) {
		t.Error("a search for one that holds nothing")
	}
	fresh := r.nested("fresh")
	fresh.lock("fresh", Terms{})
	if r.wanted("l0", &claim{holding: fresh.held}) {
		t.Error("a search for one whose lock nobody waits for")
	}
	if !r.wanted("l0", &claim{holding: last.held}) {
		t.Error("no search")
	}
}
