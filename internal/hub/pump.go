package hub

import (
	"runtime"
	"sync"
	"time"
)

// Outcome says what came of a turn.
type Outcome uint8

const (
	Done  Outcome = iota + 1 // nothing is left to do: the next turn is after Wake
	Moved                    // something was handed over, and something may be left: another turn soon
	Stuck                    // the reader was not there: another turn a while later
)

// A reader that was not there is looked for again at once a few times, and then after 1 ms, 2 ms, 4 ms … 64 ms.
const (
	atOnce  = 24
	levels  = atOnce + 7
	turnsAt = 256 // turns of readers who were not there, before those who were woken come again
)

// Pump gives turns to many readers on one goroutine, which it has only while there is something to do. Who was woken comes
// before who is looked for again. The zero value is ready; Close it.
//
// A Go channel does not say when somebody reads from it. So where a reader has not come for what lies ready, its turns are
// repeated, each time after a longer while: somebody who was away waits at most as long again, and 64 ms.
type Pump struct {
	mu      sync.Mutex
	woken   []*Turn
	spare   []*Turn
	late    [levels]lates
	work    chan struct{} // of one; nil while the goroutine does not run
	closed  bool
	running sync.WaitGroup
}

// Turn is what one reader is given, again and again.
type Turn struct {
	pump *Pump
	run  func() Outcome

	// Under pump.mu.
	state turnState
	again bool // woken during its turn
	tries int  // how often in a row it was Stuck
}

type turnState uint8

const (
	turnIdle turnState = iota
	turnWoken
	turnNow
	turnLate
)

// Turn returns a turn that does run, which is never called twice at a time and must not block.
func (p *Pump) Turn(run func() Outcome) *Turn { return &Turn{pump: p, run: run} }

// Wake has the turn taken soon, once more if it is being taken. It never blocks. After Close it does nothing.
func (t *Turn) Wake() {
	p := t.pump
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed && p.work == nil, t.state == turnWoken:
		return
	case t.state == turnNow:
		t.again = true
		return
	}
	t.state = turnWoken
	p.woken = append(p.woken, t)
	if p.work == nil {
		p.work = make(chan struct{}, 1)
		p.running.Go(p.loop)
		return
	}
	select {
	case p.work <- struct{}{}:
	default:
	}
}

// Close takes the turns of those who have been woken, and then no more.
func (p *Pump) Close() {
	p.mu.Lock()
	p.closed = true
	if p.work != nil {
		select {
		case p.work <- struct{}{}:
		default:
		}
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Pump) loop() {
	for {
		turns, wait, over := p.next()
		if over {
			return
		}
		switch {
		case len(turns) == 0:
			p.pause(wait)
			continue
		case turns[0].tries > 0:
			runtime.Gosched() // the readers that are looked for come first
		}
		for _, t := range turns {
			p.give(t)
		}
	}
}

// next returns whose turn it is; or for how long there is none; or that nobody is left, and the goroutine ends.
func (p *Pump) next() (turns []*Turn, wait time.Duration, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	turns, p.woken, p.spare = p.woken, p.spare[:0], p.woken
	if len(turns) > 0 {
		return turns, 0, false
	}
	if p.closed {
		p.end()
		return nil, 0, true
	}
	return p.due()
}

// end says that the goroutine ends. Needs mu.
func (p *Pump) end() { p.work, p.woken, p.spare = nil, nil, nil }

// due is next for those who are looked for again. Needs mu.
func (p *Pump) due() (turns []*Turn, wait time.Duration, over bool) {
	over = true
	turns = p.spare[:0]
	var now time.Time
	for level := range p.late {
		l := &p.late[level]
		for len(l.turns) > 0 && len(turns) < turnsAt {
			if after := delay(level); after > 0 {
				if now.IsZero() {
					now = time.Now()
				}
				if left := l.turns[0].since.Add(after).Sub(now); left > 0 {
					if wait == 0 || left < wait {
						wait = left
					}
					break
				}
			}
			if t := l.pop(); t.state == turnLate {
				t.state = turnWoken
				turns = append(turns, t)
			}
		}
		over = over && len(l.turns) == 0
	}
	p.spare = turns
	if over = over && len(turns) == 0; over {
		p.end()
	}
	return turns, wait, over
}

// pause waits for work, at most as long as given.
func (p *Pump) pause(wait time.Duration) {
	p.mu.Lock()
	work := p.work
	p.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-work:
	case <-timer.C:
	}
}

// give takes a turn.
func (p *Pump) give(t *Turn) {
	p.mu.Lock()
	t.state, t.again = turnNow, false
	p.mu.Unlock()
	outcome := t.run()
	p.mu.Lock()
	defer p.mu.Unlock()
	if outcome != Stuck {
		t.tries = 0
	}
	switch {
	case t.again:
		t.state = turnWoken
		p.woken = append(p.woken, t)
	case outcome == Done || p.closed:
		t.state = turnIdle
	default:
		t.state = turnLate
		p.late[t.tries].push(t, delay(t.tries) > 0)
		t.tries = min(t.tries+1, levels-1)
	}
}

// delay is how long a reader that was not there so many times is left alone.
func delay(level int) time.Duration {
	if level < atOnce {
		return 0
	}
	return time.Millisecond << (level - atOnce)
}

// lates is who is looked for again after the same while, in the order in which they were given up.
type lates struct{ turns []late }

type late struct {
	turn  *Turn
	since time.Time
}

func (l *lates) push(t *Turn, timed bool) {
	entry := late{turn: t}
	if timed {
		entry.since = time.Now()
	}
	l.turns = append(l.turns, entry)
}

func (l *lates) pop() *Turn {
	t := l.turns[0].turn
	l.turns[0] = late{}
	if l.turns = l.turns[1:]; len(l.turns) == 0 {
		l.turns = nil
	}
	return t
}
