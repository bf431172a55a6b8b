package forming

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// inWorld runs f in a bubble with a world that ends with it.
func inWorld(t *testing.T, expect int, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, expect)
		defer w.close()
		f(w)
		if err := w.check(); err != nil {
			t.Error(err)
		}
	})
}

func (w *world) wantOneCell(voters string) {
	w.t.Helper()
	if !w.together() {
		w.t.Errorf("servers by cell: %v", w.cells())
	}
	for _, b := range w.boots {
		if got := strings.Join(b.servers, " "); got != voters {
			w.t.Errorf("%s bootstrapped %s, want %s", b.id, got, voters)
		}
	}
}

func (w *world) setMute(s *server, mute bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.mute = mute
}

func (w *world) setRefuse(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = reason
}

func TestServersFormACell(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5} {
		inWorld(t, n, func(w *world) {
			var ids []string
			for i := range n {
				ids = append(ids, fmt.Sprint("s", i))
				w.add(ids[i]).start()
			}
			settle(5 * time.Second)
			w.wantOneCell(strings.Join(ids, " "))
		})
	}
}

func TestNothingFormsBeforeAllAreThere(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.add("a").start()
		w.add("b").start()
		silent := w.add("c")
		silent.mute = true
		silent.start()
		settle(time.Minute)
		if len(w.boots) != 0 {
			t.Error("formed without an answer of all three")
		}
		w.setMute(silent, false)
		settle(10 * time.Second)
		w.wantOneCell("a b c")
	})
}

func TestLateServerJoins(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		for _, id := range []string{"b", "c", "d"} {
			w.add(id).start()
		}
		settle(5 * time.Second)
		late := w.add("a") // the lowest id, and as many expected
		late.start()
		joiner := w.add("e")
		joiner.expect = 0
		joiner.start()
		settle(5 * time.Second)
		w.wantOneCell("b c d")
	})
}

func TestServerThatOnlyJoinsFormsNothing(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.add("a").start()
		w.add("b").start()
		j := w.add("c")
		j.expect = 0
		j.start()
		settle(time.Minute)
		if len(w.boots) != 0 {
			t.Error("a server that only joins was counted")
		}
	})
}

func TestStateForbidsForming(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		old := w.add("z") // of a cell of three whose other two are gone
		old.cellID = "old"
		old.start()
		for _, id := range []string{"a", "b", "c"} {
			w.add(id).start()
		}
		settle(time.Minute)
		if len(w.boots) != 0 {
			t.Errorf("a new cell beside one that exists: %v", w.boots)
		}
	})
}

func TestWipedServer(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		for _, id := range []string{"a", "b", "c"} {
			w.add(id).start()
		}
		settle(5 * time.Second)
		w.servers["c"].kill()
		w.add("c2").start() // the same machine, an empty disk: a new id
		settle(5 * time.Second)
		w.wantOneCell("a b c")
	})
}

// One of three is wiped after all have adopted a proposal and before any has bootstrapped.
func TestWipedServerDuringForming(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		p := Proposal{Ballot: Ballot{Number: 1, ID: "a"}, CellID: "x", Servers: []string{"a", "b", "c"}}
		for _, id := range []string{"a", "b"} {
			w.add(id).record = Record{Proposal: p}.Encode()
		}
		w.add("d")
		for _, id := range []string{"a", "b", "d"} {
			w.servers[id].start()
		}
		settle(10 * time.Second)
		w.wantOneCell("a b d")
	})
}

// Two of three are gone after an adoption: the one that is left must not form another cell, since they may live on.
func TestRestOfAnAdoptedSetFormsNothingElse(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		p := Proposal{Ballot: Ballot{Number: 1, ID: "a"}, CellID: "x", Servers: []string{"a", "b", "c"}}
		w.add("a").record = Record{Proposal: p}.Encode()
		for _, id := range []string{"a", "d", "e"} {
			if id != "a" {
				w.add(id)
			}
			w.servers[id].start()
		}
		settle(time.Minute)
		if len(w.boots) != 0 {
			t.Errorf("formed %v", w.boots)
		}
		w.add("f").start() // now there are three that are free
		settle(10 * time.Second)
		w.wantOneCell("d e f")
	})
}

// All have adopted and the coordinator never comes back: the others find out by themselves if it had bootstrapped.
func TestMembersCompleteAProposalWithoutItsCoordinator(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		p := Proposal{Ballot: Ballot{Number: 1, ID: "a"}, CellID: "x", Servers: []string{"a", "b", "c"}}
		for _, id := range []string{"a", "b", "c"} {
			w.add(id).record = Record{Proposal: p}.Encode()
		}
		w.servers["a"].cellID = "x"
		w.boots = append(w.boots, boot{"a", "x", p.Servers})
		for _, id := range []string{"b", "c", "a"} {
			w.servers[id].start()
		}
		settle(5 * time.Second)
		w.wantOneCell("a b c")
		if w.servers["b"].cellID != "x" {
			t.Errorf("b is of cell %s", w.servers["b"].cellID)
		}
	})
}

// One member has bootstrapped, the others have since adopted something else: the cell is proposed to them again.
func TestBootstrappedCellIsRevived(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		p := Proposal{Ballot: Ballot{Number: 1, ID: "a"}, CellID: "x", Servers: []string{"a", "b", "c"}}
		q := Proposal{Ballot: Ballot{Number: 2, ID: "b"}, CellID: "y", Servers: []string{"a", "b", "c"}}
		w.add("a").record = Record{Proposal: p}.Encode()
		w.servers["a"].cellID = "x"
		w.boots = append(w.boots, boot{"a", "x", p.Servers})
		w.add("b").record = Record{Proposal: q}.Encode()
		w.add("c").record = Record{Proposal: q}.Encode()
		for _, id := range []string{"a", "b", "c"} {
			w.servers[id].start()
		}
		settle(5 * time.Second)
		w.wantOneCell("a b c")
	})
}

func TestDisagreementEndsEverybodyThatSeesIt(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.add("a").start()
		w.add("b").start()
		other := w.add("c")
		other.expect = 5
		other.start()
		settle(8 * time.Second)
		for _, id := range []string{"a", "b", "c"} {
			if err := w.servers[id].err; !errors.Is(err, ErrDisagree) {
				t.Errorf("%s: %v", id, err)
			}
		}
		if msg := fmt.Sprint(w.servers["a"].err); !strings.Contains(msg, "3 here and 5 on node c (name-c)") {
			t.Error(msg)
		}
	})
	inWorld(t, 3, func(w *world) {
		w.add("a").start()
		w.add("b").limits = "M"
		w.servers["b"].start()
		settle(8 * time.Second)
		if msg := fmt.Sprint(w.servers["a"].err); !strings.Contains(msg, "L here and M on node b") {
			t.Error(msg)
		}
	})
}

func TestSecondServerOfAName(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.add("a").start()
		w.add("b").start()
		w.add("c").name = "name-a"
		w.servers["c"].start()
		settle(5 * time.Second)
		if err := w.servers["c"].err; !errors.Is(err, ErrNameTaken) || !strings.Contains(err.Error(), "name-a") {
			t.Error(err)
		}
		if len(w.boots) != 0 || w.servers["a"].err != nil || w.servers["b"].err != nil {
			t.Error("the others are not to suffer", w.boots, w.servers["a"].err, w.servers["b"].err)
		}
		w.add("d").start()
		settle(5 * time.Second)
		w.wantOneCell("a b d")
	})
}

func TestFailingDiskEndsRun(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		s := w.add("a")
		w.faults.crash = 1
		s.start()
		settle(5 * time.Second)
		if s.forming != nil || len(w.boots) > 1 {
			t.Error("goes on")
		}
		w.faults.crash = 0
		s.start()
		settle(5 * time.Second)
		w.wantOneCell("a")
	})
}

func TestServerWithStateIsTakenBackOrRefused(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		for _, id := range []string{"a", "b", "c"} {
			w.add(id).start()
		}
		settle(5 * time.Second)
		c := w.servers["c"]
		if err := c.forming.Rejoin(w.ctx); err != nil {
			t.Error(err)
		}
		w.setRefuse("second live node")
		if err := c.forming.Rejoin(w.ctx); !errors.Is(err, ErrRefused) {
			t.Error(err)
		}
		w.setRefuse("")
		w.servers["a"].kill()
		w.servers["b"].kill()
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		if err := c.forming.Rejoin(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestRefusedServerEnds(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.add("a").start()
		settle(5 * time.Second)
		w.setRefuse("a second live node named x")
		w.add("b").start()
		settle(5 * time.Second)
		if err := w.servers["b"].err; !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "second live node named x") {
			t.Error(err)
		}
	})
}

// settle lets time pass, and whatever happens at its end.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
