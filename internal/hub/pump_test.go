package hub

import (
	"testing"
	"testing/synctest"
	"time"
)

// Who reads is served at once, whoever else does not come; and who comes late is found after at most as long again.
func TestG9_PumpFindsWhoComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pump
		defer p.Close()
		begin := time.Now()
		away := func(d time.Duration) (*Turn, *time.Duration) {
			found := time.Duration(-1)
			return p.Turn(func() Outcome {
				switch now := time.Since(begin); {
				case now < d:
					return Stuck
				case found < 0:
					found = now
				}
				return Done
			}), &found
		}
		var late []*time.Duration
		whiles := []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 70 * time.Millisecond, time.Second}
		for _, d := range whiles {
			turn, found := away(d)
			late = append(late, found)
			turn.Wake()
			for range 200 {
				turn, _ := away(time.Hour)
				turn.Wake()
			}
		}
		prompt := 0
		here := p.Turn(func() Outcome { prompt++; return Done })
		for i := range 100 {
			here.Wake()
			synctest.Wait()
			if prompt != i+1 {
				t.Fatalf("after %d changes it had %d turns", i+1, prompt)
			}
			time.Sleep(20 * time.Millisecond)
		}
		for i, d := range whiles {
			if found := *late[i]; found < d || found > 2*d || found > d+64*time.Millisecond {
				t.Errorf("who came after %v was found after %v", d, found)
			}
		}
	})
}

// A turn that is woken while it is taken is taken once more, and never twice at a time; a Pump that has nothing to do has
// no goroutine, and none after Close.
func TestG12_PumpEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pump
		running, turns := false, 0
		var turn *Turn
		turn = p.Turn(func() Outcome {
			if running {
				t.Error("two turns at a time")
			}
			running = true
			if turns++; turns == 1 {
				turn.Wake()
				turn.Wake()
			}
			running = false
			return Done
		})
		turn.Wake()
		synctest.Wait()
		if turns != 2 || p.work != nil {
			t.Errorf("%d turns; it has a goroutine: %v", turns, p.work != nil)
		}
		stuck := p.Turn(func() Outcome { return Stuck })
		stuck.Wake()
		time.Sleep(time.Second)
		turn.Wake()
		p.Close()
		if turns != 3 {
			t.Errorf("%d turns", turns)
		}
		turn.Wake()
		stuck.Wake()
		synctest.Wait()
		if turns != 3 {
			t.Errorf("%d turns after Close", turns)
		}
	})
}
