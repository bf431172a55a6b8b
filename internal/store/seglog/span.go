package seglog

import "fmt"

// span is the entries of a log, and where they are.
type span struct {
	first, last uint64  // first > last if there are none
	places      []place // of the newest entries, up to last
}

// place is where an entry is.
type place struct {
	segment, at, size uint32
}

func (s *span) empty() bool { return s.first > s.last }

// append adds entries from index first on.
func (s *span) append(first uint64, places []place) error {
	switch {
	case s.empty():
		s.first, s.last, s.places = first, first-1, nil
	case first != s.last+1:
		return fmt.Errorf("%w: entry %d follows %d", ErrDamaged, first, s.last)
	}
	s.last += uint64(len(places))
	s.places = append(s.places, places...)
	return nil
}

// keep removes the entries that are not from first to last; all, if first > last.
func (s *span) keep(first, last uint64) error {
	if first > last {
		*s = span{first: 1}
		return nil
	}
	if s.empty() || first < s.first || last > s.last {
		return fmt.Errorf("%w: a log from %d to %d is to keep %d to %d", ErrDamaged, s.first, s.last, first, last)
	}
	known := uint64(len(s.places))
	s.places = s.places[:known-min(known, s.last-last)]
	known = uint64(len(s.places))
	s.places = s.places[known-min(known, last-first+1):]
	s.first, s.last = first, last
	return nil
}

// missing reports whether there are entries whose place is not known.
func (s *span) missing() bool { return !s.empty() && uint64(len(s.places)) < s.last-s.first+1 }

// place of an entry that is in the span, none missing.
func (s *span) place(index uint64) (p place, ok bool) {
	if s.empty() || index < s.first || index > s.last {
		return place{}, false
	}
	return s.places[index-s.first], true
}
