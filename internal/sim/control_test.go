package sim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/history"
)

// The checks can fail. A holder is cut off, and the next in the queue gets its lock. With clocks whose rates are far
// apart, which nothing is promised for, both hold it for a while, and the look into the state machines and the record of
// the clients both show it. With rates as they may be, the same schedule shows nothing.
func TestChecksFindWhatClocksFarApartBreak(t *testing.T) {
	for _, far := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, 50*time.Millisecond)
			defer w.close()
			if far {
				for i, s := range w.slots {
					w.lab.SetClockRate(s.addr, []float64{0.5, 1.5}[min(i, 1)])
				}
			}
			w.form()
			if w.leader() == w.slots[0] {
				w.transfer(w.slots[0])
			}
			w.holdTwice(w.slots[0], w.slots[1])
			live := len(w.violations) > 0
			recorded := len(history.Verify(w.rec.History()).Violations) > 0
			if live != far || recorded != far {
				t.Errorf("clocks far apart %v: seen in the state machines %v, in the record %v", far, live, recorded)
			}
		})
	}
}

// holdTwice takes a lock on one server, cuts the server off, and waits for the lock on another.
func (w *world) holdTwice(first, second *slot) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	take := func(client int, on *slot) (*history.Op, *coord.Lock) {
		n := on.running()
		s, err := n.NewSession(ctx, coord.WithTTL(ttl))
		if err != nil {
			w.t.Fatal(err)
		}
		w.opened(on, s)
		op := w.rec.Begin(history.Op{Client: client, Kind: history.Lock, Name: "x", Session: uint64(s.ID())})
		l, err := s.Lock(ctx, "x")
		if err != nil {
			w.t.Fatal(err)
		}
		op.Outcome, op.Token = history.OK, uint64(l.Token())
		w.rec.End(op)
		return op, l
	}
	held, l := take(1, first)
	w.isolate(first)
	done := make(chan struct{})
	go func() {
		defer close(done)
		take(2, second)
	}()
	for range 200 {
		check := w.rec.Begin(history.Op{Client: 1, Kind: history.Check, Name: "x", Session: held.Session, Token: held.Token, Outcome: history.OK})
		if l.Check() != nil {
			check.Outcome = history.Refused
		}
		w.rec.End(check)
		time.Sleep(20 * time.Millisecond)
	}
	<-done
	w.heal()
}
