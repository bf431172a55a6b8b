package fsm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSeqs compares ranges with a plain set, and checks that a set once made is never written to.
func TestSeqs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var s seqs
		plain := map[uint64]bool{}
		for range 60 {
			var add []uint64
			for range rng.IntN(4) {
				add = append(add, 1+uint64(rng.IntN(40)))
			}
			before, copied := s, slices.Clone(s)
			s = s.with(add...)
			for _, n := range add {
				plain[n] = true
			}
			if !slices.Equal(before, copied) {
				t.Fatalf("%v became %v when %v was added", copied, before, add)
			}
			if !s.valid() {
				t.Fatalf("%v is not in order", s)
			}
			for n := range uint64(43) {
				if s.has(n) != plain[n] {
					t.Fatalf("%v has %d: %v", s, n, s.has(n))
				}
			}
		}
	}
}

func TestSeqsEnds(t *testing.T) {
	s := seqs(nil).with(math.MaxUint64, 1, math.MaxUint64-1)
	if want := (seqs{{1, 1}, {math.MaxUint64 - 1, math.MaxUint64}}); !slices.Equal(s, want) || !s.valid() {
		t.Errorf("%v, want %v", s, want)
	}
	if s.has(0) || s.has(2) || !s.has(math.MaxUint64) {
		t.Error("has the wrong numbers")
	}
}
