package fsm

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// TestCloneIsolation reads clones on other goroutines while the original goes on. A clone stays as it was; under the
// race detector, it shares nothing that is written to.
func TestCloneIsolation(t *testing.T) {
	g := newGenerator(rand.New(rand.NewPCG(5, 5)).IntN)
	s := New()
	var readers sync.WaitGroup
	defer readers.Wait()
	rounds := 60
	if raceEnabled {
		rounds = 25
	}
	for i := range uint64(rounds) {
		clone, hash := s.Clone(), s.Hash()
		for range 2 {
			readers.Go(func() {
				for range 3 {
					if clone.Hash() != hash {
						t.Error("a clone has changed")
					}
					clone.List("", "", 0)
					clone.Lookup("l1")
					for range clone.Sessions() {
					}
					for range clone.Events(0) {
					}
				}
			})
		}
		for j := range uint64(100) {
			s.Apply(i*100+j, 1, g.entry(s))
		}
	}
}

// TestCloneGoesItsOwnWay: a clone is a State of its own, and what it does is not seen by the original.
func TestCloneGoesItsOwnWay(t *testing.T) {
	g := newGenerator(rand.New(rand.NewPCG(6, 6)).IntN)
	s := New()
	for i := range uint64(2000) {
		s.Apply(i, 1, g.entry(s))
	}
	hash := s.Hash()
	clone := s.Clone()
	for i := range uint64(500) {
		clone.Apply(2000+i, 1, g.entry(clone))
	}
	if s.Hash() != hash {
		t.Error("the original has changed")
	}
	restored(t, s) // its derived part as well
	if clone.Hash() == hash {
		t.Error("the clone has not")
	}
}
