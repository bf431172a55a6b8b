package fsm

import (
	"slices"
	"sort"
)

// maxRanges is the most ranges of acknowledged numbers that a session may have before its changes are refused as
// Malformed. The gaps of an honest caller are its outstanding changes.
const maxRanges = 2 * MaxOutstanding

// seqs is a set of numbers, as ascending ranges that do not touch. It is never written to: with makes a new one.
type seqs []SeqRange

func (s seqs) has(n uint64) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].Last >= n })
	return i < len(s) && s[i].First <= n
}

// with returns s and the numbers given, none of which may be 0.
func (s seqs) with(numbers ...uint64) seqs {
	if !slices.ContainsFunc(numbers, func(n uint64) bool { return !s.has(n) }) {
		return s
	}
	out := make(seqs, len(s), len(s)+1)
	copy(out, s)
	for _, n := range numbers {
		out = out.insert(n)
	}
	return slices.Clip(out)
}

// insert adds n in place.
func (s seqs) insert(n uint64) seqs {
	i := sort.Search(len(s), func(i int) bool { return s[i].Last >= n })
	if i < len(s) && s[i].First <= n {
		return s
	}
	joinsLeft := i > 0 && s[i-1].Last == n-1
	joinsRight := i < len(s) && s[i].First-1 == n
	switch {
	case joinsLeft && joinsRight:
		s[i-1].Last = s[i].Last
		return slices.Delete(s, i, i+1)
	case joinsLeft:
		s[i-1].Last = n
	case joinsRight:
		s[i].First = n
	default:
		return slices.Insert(s, i, SeqRange{n, n})
	}
	return s
}

// valid reports whether s is as with would have made it.
func (s seqs) valid() bool {
	last := uint64(0)
	for i, r := range s {
		if r.First == 0 || r.First > r.Last || i > 0 && r.First-1 <= last {
			return false
		}
		last = r.Last
	}
	return true
}
