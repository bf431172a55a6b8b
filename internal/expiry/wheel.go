package expiry

import "time"

const (
	slotWidth = tick
	slots     = 256 // 12.8 s: the usual session is looked at once a TTL
)

// wheel finds the sessions whose time may be up, in constant time each. A session sits in the slot of the deadline that
// it had when it was filed there. Renewals do not move it: when the slot comes it is filed anew, as is one whose deadline
// is more than a turn away.
type wheel[K comparable] struct {
	slot [slots]*lease[K] // each the head of a list
	hand int64            // the first slot, counted from the start of the clock, that has not come yet
}

func newWheel[K comparable](now time.Duration) wheel[K] {
	return wheel[K]{hand: int64(now / slotWidth)}
}

// file puts a session into the first slot that comes after its deadline.
func (w *wheel[K]) file(s *lease[K], deadline time.Duration) {
	n := (deadline/slotWidth + 1) % slots
	s.next, w.slot[n] = w.slot[n], s
}

// advance turns the wheel to now. What it finds it takes out and hands to look.
func (w *wheel[K]) advance(now time.Duration, look func(*lease[K])) {
	last := int64(now / slotWidth)
	first := max(w.hand, last-slots+1)
	w.hand = last + 1
	for n := first; n <= last; n++ {
		s := w.slot[n%slots]
		w.slot[n%slots] = nil
		for s != nil {
			next := s.next
			s.next = nil
			look(s) // which may file it anew
			s = next
		}
	}
}
