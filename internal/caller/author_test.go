package caller

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coordcell/coord/fsm"
)

func TestG7_AcknowledgementsTravelOnce(t *testing.T) {
	var a author
	first, second := a.begin(7), a.begin(7)
	if first.Session != 7 || first.Seq != 1 || second.Seq != 2 || len(first.Acks)+len(second.Acks) > 0 {
		t.Fatalf("%+v, %+v", first, second)
	}
	a.answered(first)
	if c := a.begin(7); !slices.Equal(c.Acks, []uint64{1}) {
		t.Errorf("the next change acknowledges %v", c.Acks)
	}
	if c := a.begin(7); len(c.Acks) > 0 {
		t.Errorf("so does the one after it: %v", c.Acks)
	}
}

func TestG7_AcknowledgementsOfAnUnansweredChangeTravelAgain(t *testing.T) {
	var a author
	a.answered(a.begin(7))
	lost := a.begin(7)
	a.unanswered(lost)
	a.settled(lost.Seq)
	c := a.begin(7)
	if slices.Sort(c.Acks); !slices.Equal(c.Acks, []uint64{1, lost.Seq}) {
		t.Errorf("acknowledged are %v", c.Acks)
	}
}

// A lock that was given up is withdrawn by its number. If that were acknowledged, the withdrawal would not find it.
func TestG7_AnUnansweredChangeIsNotAcknowledgedByItself(t *testing.T) {
	var a author
	a.unanswered(a.begin(7))
	if c := a.begin(7); len(c.Acks) > 0 {
		t.Errorf("acknowledged are %v", c.Acks)
	}
}

func TestAcknowledgementsOfOneChangeAreBounded(t *testing.T) {
	var a author
	var changes []fsm.Change
	for range fsm.MaxAcks + 3 {
		changes = append(changes, a.begin(7))
	}
	for _, c := range changes {
		a.answered(c)
	}
	if n, m := len(a.begin(7).Acks), len(a.begin(7).Acks); n != fsm.MaxAcks || m != 3 {
		t.Errorf("%d, then %d", n, m)
	}
}

// Whatever is lost in between, the cell hears of every number in the end, and of none before its answer.
func TestG7_EveryNumberIsAcknowledged(t *testing.T) {
	var a author
	known := make(map[uint64]bool) // acknowledged, as the cell knows
	over := make(map[uint64]bool)  // may be acknowledged
	var flying []fsm.Change
	end := func(c fsm.Change, lost bool) {
		if lost {
			a.unanswered(c)
			a.settled(c.Seq)
		} else {
			a.answered(c)
			for _, n := range c.Acks {
				known[n] = true
			}
		}
		over[c.Seq] = true
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		if len(flying) < 50 && r.IntN(2) == 0 {
			c := a.begin(7)
			for _, n := range c.Acks {
				if !over[n] || known[n] {
					t.Fatalf("%d acknowledges %d, which is over: %v, known: %v", c.Seq, n, over[n], known[n])
				}
			}
			flying = append(flying, c)
		} else if n := len(flying); n > 0 {
			i := r.IntN(n)
			end(flying[i], r.IntN(4) == 0)
			flying = slices.Delete(flying, i, i+1)
		}
	}
	for _, c := range flying {
		end(c, true)
	}
	for range len(over) { // each acknowledges some, and leaves its own number to be acknowledged
		end(a.begin(7), false)
	}
	if len(known) != len(over)-1 {
		t.Errorf("%d of %d numbers are acknowledged", len(known), len(over))
	}
}
