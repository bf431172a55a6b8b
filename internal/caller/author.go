package caller

import (
	"sync"

	"github.com/coordcell/coord/fsm"
)

// author numbers the changes of one session, and remembers which of them the cell need not remember any more.
//
// The cell keeps the result of a change until its number is acknowledged. A number travels as an acknowledgement with
// one later change at a time, until one of those has been answered. A change that was given up with its outcome unknown
// is acknowledged too: should it arrive after that, it is refused. A lock that was given up is not; it is withdrawn.
type author struct {
	mu   sync.Mutex
	last uint64
	seen []uint64 // to be acknowledged, and not on their way with a change
}

// begin hands out the next number, and the acknowledgements that travel with it. answered or unanswered follows.
func (a *author) begin(id fsm.SessionID) fsm.Change {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	c := fsm.Change{Session: id, Seq: a.last}
	if n := min(len(a.seen), fsm.MaxAcks); n > 0 {
		rest := len(a.seen) - n
		c.Acks = append(make([]uint64, 0, n), a.seen[rest:]...)
		a.seen = a.seen[:rest]
	}
	return c
}

// answered takes note that the cell has applied c, and so knows what c acknowledged.
func (a *author) answered(c fsm.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, c.Seq)
}

// unanswered takes note that what c acknowledged may not have arrived. Acknowledging twice does no harm.
func (a *author) unanswered(c fsm.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, c.Acks...)
}

// settled takes note that nobody will ask for the result of a change any more, which has not been answered.
func (a *author) settled(seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, seq)
}
