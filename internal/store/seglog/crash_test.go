package seglog

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// scene is a moment of a workload: what had been acknowledged, the call that ran, if any, and the disk.
type scene struct {
	disk    *disk
	before  model
	running *change
	exists  bool // Open had returned once
}

func (s scene) String() string {
	if s.running == nil {
		return fmt.Sprintf("operation %d", s.disk.ops)
	}
	return fmt.Sprintf("operation %d, in %v", s.disk.ops, *s.running)
}

// check opens what a crash has left. The log holds what it held before the call that ran, or what it should after.
func (s scene) check(left *disk) (*Log, model, error) {
	l, err := open(left, small(s.exists))
	if err != nil {
		return nil, model{}, err
	}
	err = s.before.compare(l)
	if err == nil || s.running == nil {
		return l, s.before, err
	}
	after := s.running.after(s.before)
	if other := after.compare(l); other != nil {
		return l, s.before, fmt.Errorf("%w, or else: %w", err, other)
	}
	return l, after, nil
}

// play runs changes on an empty disk, and calls see at every operation of the disk.
func play(changes []change, see func(scene)) error {
	d := newDisk()
	s := scene{disk: d}
	d.at = func(int) { see(s) }
	l, err := open(d, small(false))
	if err != nil {
		return err
	}
	s.exists = true
	for i := range changes {
		s.running = &changes[i]
		if err := changes[i].do(l); err != nil {
			return err
		}
		s.before = changes[i].after(s.before)
		s.running = nil
		see(s)
	}
	return l.Close()
}

// everyCrash calls f with all that a power cut may leave of d, if there are at most limit possibilities; otherwise with
// limit of them, chosen by r. It reports whether these were all.
func everyCrash(d *disk, limit int, r *rand.Rand, f func(*disk)) bool {
	var digits, sizes []int
	next := 0
	count := 0
	pick := func(n int) int {
		if next == len(digits) {
			digits, sizes = append(digits, 0), append(sizes, n)
		}
		next++
		return digits[next-1]
	}
	for range limit {
		next = 0
		left := d.crash(pick)
		f(left)
		count++
		i := next - 1
		for digits, sizes = digits[:next], sizes[:next]; i >= 0; i-- { // count up, the last digit first
			if digits[i]++; digits[i] < sizes[i] {
				break
			}
		}
		if i < 0 {
			return true
		}
		digits, sizes = digits[:i+1], sizes[:i+1]
	}
	for range limit {
		f(d.crash(r.IntN))
	}
	return false
}

// workload does all that a log is for, across several segments.
func workload() []change {
	return []change{
		store(1, 3, 1),
		store(4, 4, 1),
		{lo: 3, hi: 4}, // a conflict
		store(3, 9, 2),
		store(10, 40, 2), // to the next segment
		store(41, 60, 2),
		{lo: 8, hi: 60}, // a conflict that goes back over the border of a segment
		store(8, 10, 3),
		store(11, 30, 3),
		{lo: 1, hi: 12}, // a snapshot
		store(31, 60, 3),
		{lo: 13, hi: 50},      // which makes whole segments superfluous
		{lo: 51, hi: 60},      // the end of all
		store(101, 103, 4),    // behind a snapshot of another server
		{lo: 101, hi: 103},    // all of it a conflict
		store(101, 120, 5),    // again
		{lo: 101, hi: 110},    // a snapshot
		{lo: 111, hi: 120},    // all the rest
		store(1000, 1000, 12), // far away
	}
}

// TestG11_EveryCrash cuts the power at every operation of the disk, and then looks at every set of sectors that may be
// there, or at very many; and lets the same happen while the log recovers.
func TestG11_EveryCrash(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	crashes, all, again := 0, 0, 0
	err := play(workload(), func(s scene) {
		if t.Failed() {
			return
		}
		complete := everyCrash(s.disk, 150, r, func(left *disk) {
			crashes++
			var during []scene // of the recovery
			if r.IntN(20) == 0 {
				left.at = func(int) {
					during = append(during, scene{left.kill(), s.before, s.running, s.exists})
				}
			}
			l, m, err := s.check(left)
			left.at = nil
			if err != nil {
				t.Errorf("%v: %v", s, err)
				return
			}
			if err := goOn(l, m, left); err != nil {
				t.Errorf("%v: %v", s, err)
			}
			for _, second := range during {
				everyCrash(second.disk, 20, r, func(left *disk) {
					again++
					if _, _, err := second.check(left); err != nil {
						t.Errorf("%v, and again in recovery: %v", s, err)
					}
				})
			}
		})
		if complete {
			all++
		}
	})
	must(t, err)
	t.Logf("%d crashes, %d more in recovery; %d moments with all possibilities", crashes, again, all)
}

// goOn writes to a log that was recovered, and opens it again. A new entry must not bring back an old one behind it.
func goOn(l *Log, m model, on *disk) error {
	next := max(m.first, 1)
	if len(m.terms) > 0 {
		next = m.last() + 1
	}
	for i := range uint64(2) {
		c := store(next+i, next+i, 99)
		if err := c.do(l); err != nil {
			return err
		}
		m = c.after(m)
		again, err := open(on.crash(func(n int) int { return n - 1 }), small(true))
		if err != nil {
			return fmt.Errorf("after %d entries more: %w", i+1, err)
		}
		if err := m.compare(again); err != nil {
			return fmt.Errorf("after %d entries more: %w", i+1, err)
		}
	}
	return nil
}

// TestG11_RandomCrashes goes on from what each crash has left, for many rounds.
func TestG11_RandomCrashes(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := scene{disk: newDisk()}
		term := uint64(0)
		for round := range 20 {
			var moments []scene
			keep := func(int) {
				if r.IntN(3) == 0 {
					moments = append(moments, scene{s.disk.kill(), s.before, s.running, s.exists})
				}
			}
			s.disk.at = keep
			l, m, err := s.check(s.disk)
			if err != nil {
				t.Fatalf("seed %d, round %d, %v: %v", seed, round, s, err)
			}
			s.before, s.running, s.exists = m, nil, true
			for range 1 + r.IntN(12) {
				term++
				c := randomChange(r, s.before, term)
				s.running = &c
				must(t, c.do(l))
				s.before, s.running = c.after(s.before), nil
			}
			moments = append(moments, scene{s.disk.kill(), s.before, nil, true})
			s = moments[r.IntN(len(moments))]
			if r.IntN(4) > 0 { // not only the process ended
				s.disk = s.disk.crash(r.IntN)
			}
		}
	}
}

// Saw: a server was killed after its log had been shortened; it started again, and wrote, and after the next start it
// could not read its log.
// Here: whenever the process ends while the log is shortened, over the border of segments and not, it opens, and what is
// appended then follows what was left.
func TestFault_raftwal31_KillAfterTruncation(t *testing.T) {
	kills := 0
	for lo := uint64(1); lo <= 60; lo += 7 {
		for _, c := range []change{{lo: lo, hi: 60}, {lo: 1, hi: lo}} {
			var moments []scene
			must(t, play([]change{store(1, 30, 1), store(31, 60, 1), c}, func(s scene) {
				if s.running == nil || s.running.entries == nil {
					moments = append(moments, scene{s.disk.kill(), s.before, s.running, s.exists})
				}
			}))
			for _, s := range moments {
				kills++
				l, m, err := s.check(s.disk)
				if err != nil {
					t.Fatalf("%v: %v", s, err)
				}
				if err := goOn(l, m, s.disk); err != nil {
					t.Fatalf("%v: %v", s, err)
				}
			}
		}
	}
	t.Log(kills, "kills")
}
