package forming

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const schedules = 1500

// Servers come, crash around every write, restart, are wiped and cut apart, while messages are lost, doubled and late.
// No two cells with a common member ever come to life, and once the faults end everybody gets into one cell.
func TestRandomSchedules(t *testing.T) {
	n := schedules
	if testing.Short() {
		n /= 10
	}
	zombies := 0
	for seed := range n {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, uint64(seed), []int{1, 2, 3, 3, 3, 4, 5}[seed%7])
			defer w.close()
			wipes := w.chaos()
			if err := w.check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			w.heal()
			for range 60 {
				if time.Sleep(time.Second); w.together() {
					break
				}
			}
			if err := w.check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			one := w.together()
			strangers := len(w.bootstrappedCells()) - 1
			if strangers > 0 {
				zombies++
			}
			if !wipes && (!one || strangers > 0) {
				t.Fatalf("seed %d: servers by cell: %v, bootstrapped: %v", seed, w.cells(), w.boots)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d schedules, %d with a server that bootstrapped a cell that never came to life", n, zombies)
}

// chaos plays a while with faults. It says whether a server was wiped or more than the expected number took part: only
// then may a server end up outside.
func (w *world) chaos() (changing bool) {
	w.faults = faults{loseRequest: 0.1, loseReply: 0.1, double: 0.2, crash: 0.2}
	extra := 0
	if w.expect > 1 && w.rnd.IntN(2) == 0 {
		extra = 1 + w.rnd.IntN(2)
	}
	wipe := w.expect > 1 && w.rnd.IntN(3) == 0
	for i := range w.expect + extra {
		w.add(fmt.Sprintf("s%d", w.rnd.IntN(1000)*10+i)) // ids in no order of age
	}
	fresh := 0
	steps := 10 + w.rnd.IntN(30)
	for range steps {
		time.Sleep(w.latency(1500 * time.Millisecond))
		w.mu.Lock()
		s := w.pick()
		action := w.rnd.IntN(12)
		cut := w.rnd.IntN(2)
		w.mu.Unlock()
		switch {
		case action < 6:
			s.start()
		case action < 8:
			s.kill()
		case action < 9:
			w.mu.Lock()
			s.cut = cut
			w.mu.Unlock()
		case action < 10:
			w.rejoin()
		case action < 11 && wipe:
			fresh++
			changing = true
			s.kill()
			w.mu.Lock()
			delete(w.servers, s.id)
			w.mu.Unlock()
			w.add(fmt.Sprintf("%sw%d", s.id[:2], fresh))
		}
	}
	return changing || extra > 0
}

func (w *world) pick() *server {
	ids := make([]string, 0, len(w.servers))
	for id := range w.servers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return w.servers[ids[w.rnd.IntN(len(ids))]]
}

func (w *world) rejoin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.servers {
		s.cut = 0
	}
}

// heal ends all faults and starts everybody.
func (w *world) heal() {
	w.mu.Lock()
	w.faults = faults{}
	w.mu.Unlock()
	w.rejoin()
	for _, s := range w.servers {
		s.start()
	}
}

func (w *world) bootstrappedCells() map[string]bool {
	cells := make(map[string]bool)
	for _, b := range w.boots {
		cells[b.cellID] = true
	}
	return cells
}
