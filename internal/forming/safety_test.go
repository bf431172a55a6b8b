package forming

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// handlers are servers that only answer: whatever coordinators there may be is up to the test.
type handlers map[string]*Forming

func newHandlers(t *testing.T, ids ...string) handlers {
	t.Helper()
	h := make(handlers)
	for _, id := range ids {
		f, err := New(Config{
			ID: id, Cell: "c", Expect: 3,
			Save:      func([]byte) error { return nil },
			Bootstrap: func(string, []string) error { return nil },
			Joined:    func(string) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		h[id] = f
	}
	return h
}

// Any number of coordinators propose any sets to any servers in any order, each word of an adoption or a completion
// arriving at any time or never. The servers alone keep two cells from coming to life with a common member.
func TestNoTwoCellsWithACommonMemberComeToLife(t *testing.T) {
	ids := []string{"p", "q", "r", "s", "t"}
	lived := 0
	for seed := range 30000 {
		rnd := rand.New(rand.NewPCG(uint64(seed), 3))
		h := newHandlers(t, ids...)
		proposals := make([]Proposal, 2+rnd.IntN(4))
		acks := make([]int, len(proposals))
		boots := make([]int, len(proposals))
		type word struct {
			proposal int
			to       string
			complete bool
		}
		var bag []word
		for i := range proposals {
			set := slices.Clone(ids)
			rnd.Shuffle(len(set), func(a, b int) { set[a], set[b] = set[b], set[a] })
			set = set[:2+rnd.IntN(3)]
			slices.Sort(set)
			proposals[i] = proposal(uint64(1+i), fmt.Sprint("cell", i), set...)
			for _, id := range set {
				bag = append(bag, word{i, id, false})
			}
		}
		// Mostly about in order, or hardly anything would be adopted by all.
		for step := 0; len(bag) > 0 && step < 60; step++ {
			at := rnd.IntN(min(len(bag), 1+rnd.IntN(8)))
			w := bag[at]
			bag = slices.Delete(bag, at, at+1)
			p := proposals[w.proposal]
			switch {
			case w.complete:
				if f := h[w.to]; f.status().CellID == "" && f.bootstrap(p).OK {
					boots[w.proposal]++
				}
			case h[w.to].adopt(p).OK:
				if acks[w.proposal]++; acks[w.proposal] == len(p.Servers) {
					for _, id := range p.Servers {
						bag = slices.Insert(bag, rnd.IntN(len(bag)+1), word{w.proposal, id, true})
					}
				}
			}
		}
		for i, p := range proposals {
			if boots[i] < majority(len(p.Servers)) {
				continue
			}
			lived++
			for j, q := range proposals[:i] {
				common := slices.ContainsFunc(p.Servers, func(id string) bool { return slices.Contains(q.Servers, id) })
				if common && boots[j] >= majority(len(q.Servers)) {
					t.Fatalf("seed %d: cells of %v and of %v live", seed, p.Servers, q.Servers)
				}
			}
		}
	}
	if lived < 1000 {
		t.Errorf("only %d cells came to life: the test shows little", lived)
	}
}

func TestLateWordOfACompletion(t *testing.T) {
	h := newHandlers(t, "b")
	x, y := proposal(1, "x", "a", "b", "c"), proposal(2, "y", "a", "b", "d")
	if a := h["b"].adopt(x); !a.OK {
		t.Fatal(a)
	}
	if a := h["b"].adopt(y); !a.OK {
		t.Fatal(a)
	}
	if a := h["b"].bootstrap(x); a.OK {
		t.Error("bootstrapped what it has given up")
	}
	if a := h["b"].bootstrap(y); !a.OK {
		t.Error(a)
	}
	if a := h["b"].adopt(proposal(3, "z", "a", "b", "c")); a.OK {
		t.Error("adopted something with state of a cell")
	}
	if a := h["b"].adopt(proposal(3, "y", "a", "b", "c")); !a.OK {
		t.Error("state of the very cell counts as an adoption:", a)
	}
}

func TestCompletionIsOfOneBallot(t *testing.T) {
	me := status{ID: "a", Record: Record{Proposal: proposal(2, "x", "a", "b", "c")}}
	same := func(id string) status { return status{ID: id, Record: me.Record} }
	older := status{ID: "c", Record: Record{Proposal: proposal(1, "x", "a", "b", "c")}}
	for name, c := range map[string]struct {
		answers []status
		want    bool
	}{
		"all":                           {[]status{same("b"), same("c")}, true},
		"one is missing":                {[]status{same("b")}, false},
		"one adopted it before":         {[]status{same("b"), older}, false},
		"a stranger instead":            {[]status{same("b"), same("d")}, false},
		"one has state, of that ballot": {[]status{{ID: "b", CellID: "x", Record: me.Record}}, true},
		"one has state, of another":     {[]status{{ID: "c", CellID: "x", Record: older.Record}}, false},
		"and the rest have adopted":     {[]status{same("b"), {ID: "c", CellID: "x", Record: older.Record}}, true},
		"one has state of another cell": {[]status{same("b"), {ID: "c", CellID: "y", Record: me.Record}}, false},
	} {
		if got := isComplete(me, c.answers); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOneThatIsSeenAndSilentMayHaveState(t *testing.T) {
	peers := []status{{ID: "b", Name: "nb", Expect: 3}, {ID: "c", Name: "nc", Expect: 3}}
	me := status{ID: "a", Name: "na", Expect: 3}
	if s, err := decide(me, peers, []string{"d"}); err != nil || s.wait == "" {
		t.Errorf("%+v %v: d has not answered", s, err)
	}
	if s, err := decide(me, peers, nil); err != nil || len(s.proposal.Servers) != 3 {
		t.Errorf("%+v %v", s, err)
	}
}
