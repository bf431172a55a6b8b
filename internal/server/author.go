package server

import (
	"sync"

	"github.com/coordcell/coord/fsm"
)

// author numbers the changes of one session, and remembers which of them the cell need not remember any more.
//
// The cell keeps the result of a change until its number is acknowledged. A number travels as an acknowledgement with
// later changes of the session until one of those has been answered; acknowledging twice does no harm. A change that
// was given up with its outcome unknown is acknowledged too: should it arrive after that, it is refused. A lock that was
// given up is not; it is withdrawn.
type author struct {
	mu   sync.Mutex
	last uint64
	seen []uint64 // to be acknowledged
}

// begin hands out the next number, and the acknowledgements that travel with it.
func (a *author) begin(id fsm.SessionID) fsm.Change {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	c := fsm.Change{Session: id, Seq: a.last}
	if n := min(len(a.seen), fsm.MaxAcks); n > 0 {
		c.Acks = append(make([]uint64, 0, n), a.seen[:n]...)
	}
	return c
}

// answered takes note that the cell has applied c: it knows what c acknowledged, and c itself is to be acknowledged.
func (a *author) answered(c fsm.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(c.Acks) > 0 {
		a.drop(c.Acks)
	}
	a.seen = append(a.seen, c.Seq)
}

// settled takes note that nobody will ask for the result of a change any more, which has not been answered.
func (a *author) settled(seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, seq)
}

// drop removes what has been acknowledged. Both lists are short, and acks is nearly always a prefix of seen.
func (a *author) drop(acks []uint64) {
	if len(a.seen) >= len(acks) && a.seen[0] == acks[0] && a.seen[len(acks)-1] == acks[len(acks)-1] {
		a.seen = append(a.seen[:0], a.seen[len(acks):]...)
		return
	}
	gone := make(map[uint64]struct{}, len(acks))
	for _, n := range acks {
		gone[n] = struct{}{}
	}
	kept := a.seen[:0]
	for _, n := range a.seen {
		if _, ok := gone[n]; !ok {
			kept = append(kept, n)
		}
	}
	a.seen = kept
}
