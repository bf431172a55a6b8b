package sim

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/internal/history"
)

var (
	seedRange = flag.String("seeds", "1-8", "seeds of the runs, as from-to")
	seconds   = flag.Int("seconds", 30, "virtual seconds of faults in a run")
	commit    = flag.Duration("commit", 50*time.Millisecond, "how late an idle leader tells of a commit; 10ms in production, which takes several times as long to simulate. Each eighth seed uses production's anyway")
	keep      = flag.String("keep", "", "folder for the records of runs that failed")
)

// totals are the figures of all runs together.
type totals struct {
	mu                          sync.Mutex
	runs, undecided, violations int
	virtual                     time.Duration
	struck                      map[string]int
	leaderFaults                int
	snapshotLoops, stood        int
	calls, grants, changes      int
	terms, expired              int
}

// Whole cells under faults, from seeds: no guarantee is ever broken.
func TestSeeds(t *testing.T) {
	from, to, err := parseSeeds(*seedRange)
	if err != nil {
		t.Fatal(err)
	}
	sum := &totals{struck: make(map[string]int)}
	t.Cleanup(func() { sum.report(t) })
	for seed := from; seed <= to; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { runSeed(t, seed, sum) })
		})
	}
}

func parseSeeds(s string) (from, to uint64, err error) {
	first, last, found := strings.Cut(s, "-")
	if !found {
		last = first
	}
	from, err = strconv.ParseUint(first, 10, 64)
	if err == nil {
		to, err = strconv.ParseUint(last, 10, 64)
	}
	if err != nil || to < from {
		return 0, 0, fmt.Errorf("-seeds %q: want from-to", s)
	}
	return from, to, nil
}

func runSeed(t *testing.T, seed uint64, sum *totals) {
	commitTimeout := *commit
	if seed%8 == 0 {
		commitTimeout = 0 // production's
	}
	w := newWorld(t, seed, commitTimeout)
	defer w.close()
	w.form()
	w.begin(seed)
	w.run(time.Duration(*seconds) * time.Second)
	w.expireInTime()
	w.finish()
	h := w.rec.History()
	report := history.Verify(h)
	found := append(w.violations, w.raft.Violations()...)
	found = append(found, report.Violations...)
	sum.add(w, h, len(found), report.Undecided)
	if len(found) == 0 {
		return
	}
	slices.SortStableFunc(found, func(a, b history.Violation) int { return cmp.Compare(a.At, b.At) })
	for _, v := range found[:min(20, len(found))] {
		t.Errorf("%8.3fs %s: %s", v.At.Seconds(), v.Guarantee, v.Text)
	}
	t.Errorf("%d violations; again: go test ./internal/sim -run TestSeeds -seeds %d -seconds %d -commit %v -v", len(found), seed, *seconds, *commit)
	if *keep != "" {
		save(t, h, seed)
	}
}

func save(t *testing.T, h *history.History, seed uint64) {
	path := filepath.Join(*keep, fmt.Sprintf("seed-%d.jsonl", seed))
	f, err := os.Create(path)
	if err == nil {
		err = h.Save(f)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Errorf("the record is lost: %v", err)
		return
	}
	t.Logf("the record of the run is in %s", path)
}

// expireInTime kills a server of a cell that is whole, and sees that the sessions of its clients end no later than a TTL
// and a second after the last event that may prolong them.
func (w *world) expireInTime() {
	victim := w.slots[w.rng.IntN(len(w.slots))]
	var dead []session
	w.mu.Lock()
	for _, s := range w.sessions {
		if s.on == victim && s.Err() == nil {
			dead = append(dead, s)
		}
	}
	w.mu.Unlock()
	killed := w.now()
	w.kill(victim)
	w.settle("the last death") // which may take a new leader
	time.Sleep(maxTTL + time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range dead {
		limit := max(killed, w.termBegan) + s.TTL() + time.Second
		if ended, ok := w.expired[s.ID()]; !ok || ended > limit {
			w.violations = append(w.violations, history.Violation{Guarantee: "G8", At: limit, Text: fmt.Sprintf(
				"session %d of %v, whose process died at %v, in a term begun at %v: expired %v at %v", s.ID(), s.TTL(), killed, w.termBegan, ok, ended)})
		}
	}
}

// finish ends the load of a cell that is whole, and looks at what is left of it.
func (w *world) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w.load.Stop(ctx)
	time.Sleep(maxTTL + time.Second + 4*election) // what the dead held is handed on by then
	for i, s := range w.slots {
		n := s.running()
		if n == nil || n.Err() != nil {
			w.violated("liveness", fmt.Sprintf("server %d does not run in the end", i))
			continue
		}
		if st := n.Status(); st.Sessions+st.Locks+st.Waiting > 0 {
			w.violated("G12", fmt.Sprintf("server %d: %d sessions, %d locks and %d waiters are left", i, st.Sessions, st.Locks, st.Waiting))
		}
	}
	w.compare()
}

// compare compares the states of all servers, once they have applied the same entries.
func (w *world) compare() {
	for range 50 {
		first := w.lab.State(w.slots[0].addr)
		same := true
		for _, s := range w.slots[1:] {
			state := w.lab.State(s.addr)
			if state.Index() != first.Index() {
				same = false
				break
			}
			if state.Hash() != first.Hash() {
				w.violated("G10", fmt.Sprintf("server 0 and %d have different states after entry %d", s.i, first.Index()))
			}
		}
		if same {
			return
		}
		time.Sleep(election)
	}
	w.violated("liveness", "the servers do not come to the same entry")
}

// close ends what runs. Timers of gossip may outlive a node by a moment.
func (w *world) close() {
	w.lab.HealAll()
	for _, s := range w.slots {
		s.disk.heal()
		w.kill(s)
	}
	time.Sleep(10 * time.Second)
}

func (s *totals) add(w *world, h *history.History, violations, undecided int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	s.violations += violations
	s.undecided += undecided
	s.virtual += w.now()
	for name, n := range w.counts.faults {
		s.struck[name] += n
	}
	s.leaderFaults += w.counts.leaderFaults
	s.snapshotLoops += w.counts.snapshotLoops
	s.stood += w.counts.stood
	s.terms += int(w.terms)
	s.expired += len(w.expired)
	s.calls += len(h.Ops)
	for _, op := range h.Ops {
		switch {
		case op.Outcome != history.OK:
		case op.Kind == history.Lock || op.Kind == history.TryLock || op.Kind == history.Campaign:
			s.grants++
		case op.Kind == history.Put || op.Kind == history.Delete:
			s.changes++
		}
	}
}

func (s *totals) report(t *testing.T) {
	all := 0
	var kinds []string
	for _, name := range slices.Sorted(maps.Keys(s.struck)) {
		all += s.struck[name]
		kinds = append(kinds, fmt.Sprintf("%s %d", name, s.struck[name]))
	}
	t.Logf("%d runs, %.1f virtual hours, %d faults (%d of leaders), %d terms, %d elections because a leader's process was dead, "+
		"%d calls, %d grants, %d changes of keys, "+
		"%d sessions expired, %d servers stopped by raft's snapshot loop, %d histories undecided, %d violations\n%s",
		s.runs, s.virtual.Hours(), all, s.leaderFaults, s.terms, s.stood, s.calls, s.grants, s.changes, s.expired, s.snapshotLoops, s.undecided,
		s.violations, strings.Join(kinds, ", "))
}
