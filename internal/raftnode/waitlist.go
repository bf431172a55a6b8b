package raftnode

import "sort"

// waitlist groups the goroutines that wait until a number has reached what they need. Those with the same need share one
// round, so that a thousand waiters cost one channel. The owner's lock guards it.
type waitlist struct {
	rounds []*round // ascending by need, each need once
}

// round is over when done is closed; err, set before, is nil if the need was met.
type round struct {
	need uint64
	done chan struct{}
	err  error
}

// join returns the round for need and makes it if there is none.
func (l *waitlist) join(need uint64) *round {
	i := len(l.rounds)
	if i > 0 && l.rounds[i-1].need >= need { // mostly the newest
		i = sort.Search(i, func(i int) bool { return l.rounds[i].need >= need })
		if l.rounds[i].need == need {
			return l.rounds[i]
		}
	}
	r := &round{need: need, done: make(chan struct{})}
	l.rounds = append(l.rounds, nil)
	copy(l.rounds[i+1:], l.rounds[i:])
	l.rounds[i] = r
	return r
}

// reached ends every round whose need is at most n.
func (l *waitlist) reached(n uint64) {
	i := 0
	for ; i < len(l.rounds) && l.rounds[i].need <= n; i++ {
		close(l.rounds[i].done)
	}
	l.drop(i)
}

// fail ends every round with err.
func (l *waitlist) fail(err error) {
	for _, r := range l.rounds {
		r.err = err
		close(r.done)
	}
	l.drop(len(l.rounds))
}

// last is the greatest need, 0 if nobody waits.
func (l *waitlist) last() uint64 {
	if len(l.rounds) == 0 {
		return 0
	}
	return l.rounds[len(l.rounds)-1].need
}

func (l *waitlist) drop(i int) {
	rest := copy(l.rounds, l.rounds[i:])
	clear(l.rounds[rest:])
	l.rounds = l.rounds[:rest]
}
