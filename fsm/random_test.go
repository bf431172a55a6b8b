package fsm

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestModel compares State with the model on random commands: replies, events, grants and releases of each entry, and
// every now and then all that can be looked at. At random steps State is replaced by one restored from its records.
func TestModel(t *testing.T) {
	runs, entries := 40, 17_000 // more than 10^6 commands
	if testing.Short() || raceEnabled {
		runs, entries = 8, 3_000
	}
	total, codes := 0, [NoSuchSession + 1]int{}
	for run := range runs {
		rng := rand.New(rand.NewPCG(uint64(run), 1))
		g := newGenerator(rng.IntN)
		s, m := New(), newModel()
		start := []Command{Generation{First: true, Params: g.tight()}}
		s.Apply(1, 1, start)
		m.apply(1, start)
		for i := range entries {
			if g.chance(500) {
				g.term++
			}
			cmds := g.entry(s)
			total += len(cmds)
			got, want := s.Apply(uint64(i+2), g.term, cmds), m.apply(g.term, cmds)
			if diff := compareOutputs(got, want); diff != "" {
				t.Fatalf("run %d, entry %d: %s\n%+v\ngot  %+v\nwant %+v", run, i, diff, cmds, got, want)
			}
			for _, r := range got.Replies {
				codes[r.Result.Code]++
			}
			if s.Revision() != m.rev || s.Floor() != m.floor || s.Counts() != m.counts() {
				t.Fatalf("run %d, entry %d: %+v\nrevision %d, floor %d, counts %+v\nwant %d, %d, %+v", run, i, cmds,
					s.Revision(), s.Floor(), s.Counts(), m.rev, m.floor, m.counts())
			}
			if i%50 == 0 {
				compareViews(t, s, m, rng)
			}
			if g.chance(300) {
				s = restored(t, s)
			}
		}
	}
	t.Logf("%d commands; replies by code: %v", total, codes)
	for code := OK; code <= NoSuchSession; code++ {
		if codes[code] < 10 && code != TooLarge {
			t.Errorf("only %d replies with code %d: the commands are not random enough", codes[code], code)
		}
	}
}

// compareOutputs says which part differs. The model does not know labels and other things that are copied.
func compareOutputs(got, want Output) string {
	for i := range got.Grants {
		got.Grants[i].Label = ""
	}
	for i := range got.Releases {
		got.Releases[i].Label = ""
	}
	for i, e := range got.Ended {
		got.Ended[i] = SessionEvent{Session: e.Session, Closed: e.Closed}
	}
	for i, r := range got.Replies {
		if bad := checkCycle(r.Result); bad != "" {
			return bad
		}
		got.Replies[i].Result.Cycle = nil
	}
	switch {
	case !reflect.DeepEqual(got.Replies, want.Replies):
		return "replies"
	case !reflect.DeepEqual(got.Delayed, want.Delayed):
		return "delayed"
	case !reflect.DeepEqual(got.Marked, want.Marked):
		return "marked"
	case !reflect.DeepEqual(got.Events, want.Events):
		return "events"
	case !reflect.DeepEqual(got.Grants, want.Grants):
		return "grants"
	case !reflect.DeepEqual(got.Releases, want.Releases):
		return "releases"
	case !reflect.DeepEqual(got.Ended, want.Ended):
		return "ended sessions"
	case got.Held != want.Held || !reflect.DeepEqual(got.Checks, want.Checks):
		return "hold or checks"
	}
	return ""
}

// checkCycle looks whether a cycle is one. Which of several it is the model does not say.
func checkCycle(r Result) string {
	if (r.Code == Deadlock) != (r.Cycle != nil) {
		return "a cycle without a deadlock, or the other way round"
	}
	if r.Cycle == nil {
		return ""
	}
	last := r.Cycle.Waits[len(r.Cycle.Waits)-1]
	for i, w := range r.Cycle.Waits {
		if w.Holds != last.WaitsFor || w.Session == 0 || w.Label == "" || i == 0 && w.Token == 0 {
			return "a cycle that is none"
		}
		last = w
	}
	return ""
}

func compareViews(t *testing.T, s *State, m *model, rng *rand.Rand) {
	t.Helper()
	for _, name := range []string{"l1", "l2", "l3", "l4", "l5", "never"} {
		if got, want := s.Lookup(name), m.lookup(name); !reflect.DeepEqual(got, want) {
			t.Fatalf("lookup %s: %+v, want %+v", name, got, want)
		}
	}
	prefixes, afters := []string{"", "a/", "b/", "b/1", "z"}, []string{"", "a/", "a/2", "b/1", "zz"}
	prefix, after, limit := prefixes[rng.IntN(5)], afters[rng.IntN(5)], rng.IntN(4)
	got, more := s.List(prefix, after, limit)
	want, wantMore := m.list(prefix, after, limit)
	if !reflect.DeepEqual(got, want) || more != wantMore {
		t.Fatalf("list %q after %q limit %d: %+v %v, want %+v %v", prefix, after, limit, got, more, want, wantMore)
	}
	for kv := range slices.Values(got) {
		if one, ok := s.Get(kv.Key); !ok || !reflect.DeepEqual(one, kv) {
			t.Fatalf("get %s: %+v, want %+v", kv.Key, one, kv)
		}
	}
	if got := slices.Collect(s.Events(0)); !slices.EqualFunc(got, m.history, func(a, b Event) bool {
		return reflect.DeepEqual(a, b)
	}) {
		t.Fatalf("history: %+v, want %+v", got, m.history)
	}
	reaping := false
	for id, ms := range m.sessions {
		if _, live := s.Session(id); live != (ms.end == 0) {
			t.Fatalf("session %d is live: %v", id, live)
		}
		reaping = reaping || ms.end != 0
		if got, want := s.Uses(id), m.uses(id); got != want {
			t.Fatalf("session %d has %+v, want %+v", id, got, want)
		}
	}
	for _, r := range m.requests {
		reaping = reaping || !m.mayHave(r.Session)
	}
	if got, want := s.levels(), m.levels(); !slices.Equal(got, want) {
		t.Fatalf("leases, delays and marks: %v, want %v", got, want)
	}
	locks := 0
	for name, got := range s.Locks("l", "") {
		locks++
		if want := m.lookup(name); !reflect.DeepEqual(got, want) {
			t.Fatalf("locks: %s: %+v, want %+v", name, got, want)
		}
	}
	if locks != len(m.used()) {
		t.Fatalf("%d locks, want %d", locks, len(m.used()))
	}
	if s.Reaping() != reaping {
		t.Fatalf("reaping: %v", s.Reaping())
	}
	if ttl, on := s.Hold(); on != m.hold || ttl != m.holdTTL {
		t.Fatalf("hold %v %d, want %v %d", on, ttl, m.hold, m.holdTTL)
	}
}

// levels is what a leader asks for at the start of its term.
func (s *State) levels() (list []string) {
	for l := range s.Leases() {
		list = append(list, fmt.Sprint("lease ", l.Name, l.Token, l.Session, l.TTL))
	}
	for l := range s.Delays() {
		list = append(list, fmt.Sprint("delay ", l.Name, l.Token, l.Delay))
	}
	for m := range s.Marks() {
		list = append(list, fmt.Sprint("mark ", m.Session, m.Token, m.Name))
	}
	slices.Sort(list)
	return list
}

// TestG10_SnapshotAtAnyStep takes a snapshot after every single entry of a random run, and lets the restored state live
// through the next entries side by side with the original: the same outputs, the same hashes.
func TestG10_SnapshotAtAnyStep(t *testing.T) {
	runs, entries := 6, 500
	if testing.Short() || raceEnabled {
		runs, entries = 2, 200
	}
	for run := range runs {
		g := newGenerator(rand.New(rand.NewPCG(uint64(run), 2)).IntN)
		g.rare = 300
		s := New()
		s.Apply(1, 1, []Command{Generation{First: true, Params: g.tight()}})
		var twins []*State
		for i := range entries {
			cmds := g.entry(s)
			index := uint64(i + 2)
			want := s.Apply(index, 1, cmds)
			hash := s.Hash()
			for _, twin := range twins {
				if got := twin.Apply(index, 1, cmds); !reflect.DeepEqual(got, want) {
					t.Fatalf("run %d, entry %d: %+v\nrestored: %+v\noriginal: %+v", run, i, cmds, got, want)
				}
				if twin.Hash() != hash {
					t.Fatalf("run %d, entry %d: %+v: another hash", run, i, cmds)
				}
			}
			twins = append(twins, restored(t, s))
			if len(twins) > 10 {
				twins = twins[1:]
			}
		}
	}
}
