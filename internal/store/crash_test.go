package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// world is what a workload has been told is stored, and what a crash may leave of the call that runs.
type world struct {
	first, last, term   uint64
	voteTerm            uint64
	candidate, snapshot string
	pending             string // the call that runs, for messages
}

// workload calls every write there is, and keeps w as what has been acknowledged.
func workload(s *Store, w *world) {
	step := func(name string, call func(), then func(*world)) {
		w.pending = name
		call()
		then(w)
		w.pending = ""
	}
	vote := func(term uint64, candidate string) {
		step("term", func() { s.Stable().SetUint64([]byte(keyTerm), term) }, func(w *world) { w.term = term })
		step("vote", func() {
			s.Stable().SetUint64([]byte(keyVoteTerm), term)
			s.Stable().Set([]byte(keyCandidate), []byte(candidate))
		}, func(w *world) { w.voteTerm, w.candidate = term, candidate })
	}
	appendTo := func(last, term uint64) {
		step("append", func() { s.Logs().StoreLogs(entries(w.last+1, last, term)) }, func(w *world) { w.last = last })
	}
	w.first = 1
	vote(1, "a")
	appendTo(10, 1)
	vote(2, "b")
	step("truncate", func() { s.Logs().DeleteRange(8, 10) }, func(w *world) { w.last = 7 })
	appendTo(12, 2)
	step("snapshot", func() { takeSnapshot(s, 9, 2, "nine") }, func(w *world) { w.snapshot = "nine" })
	step("compact", func() { s.Logs().DeleteRange(1, 6) }, func(w *world) { w.first = 7 })
	vote(3, "a")
	// A snapshot that is far ahead is installed. raft then removes the log; the second time it does not get to that.
	step("install", func() { takeSnapshot(s, 100, 3, "hundred") }, func(w *world) { w.snapshot, w.first, w.last = "hundred", 101, 100 })
	step("reset", func() { s.Logs().DeleteRange(7, 12) }, func(*world) {})
	appendTo(105, 3)
	step("install", func() { takeSnapshot(s, 200, 3, "two hundred") }, func(w *world) { w.snapshot, w.first, w.last = "two hundred", 201, 200 })
	appendTo(203, 3)
}

func takeSnapshot(s *Store, index, term uint64, data string) {
	_, trans := raft.NewInmemTransport("here")
	sink, err := s.Snapshots().Create(1, index, term, raft.Configuration{}, 1, trans)
	if err != nil {
		return
	}
	sink.Write([]byte(data))
	sink.Close()
}

// holds checks that s has at least what was acknowledged, given the call that ran when it crashed.
func (w world) holds(s *Store) error {
	term, _ := s.Stable().GetUint64([]byte(keyTerm))
	voteTerm, _ := s.Stable().GetUint64([]byte(keyVoteTerm))
	candidate, _ := s.Stable().Get([]byte(keyCandidate))
	if term < w.term || w.pending != "term" && term != w.term {
		return fmt.Errorf("term %d, want %d", term, w.term)
	}
	if w.pending != "vote" && (voteTerm != w.voteTerm || string(candidate) != w.candidate) {
		return fmt.Errorf("vote (%d, %s), want (%d, %s)", voteTerm, candidate, w.voteTerm, w.candidate)
	}
	if voteTerm != w.voteTerm && string(candidate) == w.candidate {
		return fmt.Errorf("half a vote: (%d, %s)", voteTerm, candidate)
	}
	metas, err := s.Snapshots().List()
	if err != nil {
		return err
	}
	var base uint64
	if len(metas) > 0 {
		base = metas[0].Index
	}
	first, _ := s.Logs().FirstIndex()
	last, _ := s.Logs().LastIndex()
	if last == 0 {
		first, last = base+1, base
	}
	if first > base+1 {
		return fmt.Errorf("the log begins at %d, the snapshot ends at %d", first, base)
	}
	if max(last, base) < w.last && w.pending != "truncate" {
		return fmt.Errorf("log %d to %d, snapshot %d: less than the %d that was acknowledged", first, last, base, w.last)
	}
	for i := first; i <= last; i++ {
		var e raft.Log
		if err := s.Logs().GetLog(i, &e); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		if want := entry(i, e.Term); string(e.Data) != string(want.Data) {
			return fmt.Errorf("entry %d is %q", i, e.Data)
		}
	}
	return s.Switch().Err()
}

// TestG11_CrashAtAnyCall ends the process, or cuts the power, before, in the middle of and after each store call of a
// workload. What was acknowledged by then is there afterwards.
func TestG11_CrashAtAnyCall(t *testing.T) {
	type crash struct {
		w    world
		disk *Disk
		name string
	}
	var crashes []crash
	var w world
	d := NewDisk()
	freeze := func(when string) func(Op) error {
		return func(op Op) error {
			for _, cut := range []bool{false, true} {
				crashes = append(crashes, crash{w, d.Crash(cut), fmt.Sprintf("%d: %s %s, in %s, power cut %v", len(crashes), when, op, w.pending, cut)})
			}
			return nil
		}
	}
	s := mustMount(t, d, Options{Faults: Faults{Before: freeze("before"), Sync: freeze("in"), After: freeze("after")}})
	crashes = nil
	workload(s, &w)
	must(t, s.Switch().Err())
	for _, c := range crashes {
		again, err := OpenDisk(c.disk, Options{Cell: "test"})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := c.w.holds(again); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		must(t, again.Close())
	}
	t.Log(len(crashes), "crashes")
}

// TestG11_KillAtAnyCall copies a real directory before and after each store call, as kill -9 would leave it.
func TestG11_KillAtAnyCall(t *testing.T) {
	t.Run("segments", func(t *testing.T) { testKillAtAnyCall(t, LogSegments) })
	t.Run("bolt", func(t *testing.T) { testKillAtAnyCall(t, LogBolt) })
}

func testKillAtAnyCall(t *testing.T, kind LogStore) {
	type crash struct {
		w   world
		dir string
	}
	var crashes []crash
	var w world
	dir, copies := t.TempDir(), t.TempDir()
	freeze := func(Op) error {
		to := filepath.Join(copies, fmt.Sprint(len(crashes)))
		crashes = append(crashes, crash{w, to})
		return os.CopyFS(to, os.DirFS(dir))
	}
	s := mustOpen(t, dir, Options{LogStore: kind, Faults: Faults{Before: freeze, After: freeze}})
	workload(s, &w)
	must(t, s.Switch().Err())
	for i, c := range crashes {
		again, err := Open(c.dir, Options{Cell: "test"})
		if err != nil {
			t.Fatalf("%d, in %s: %v", i, c.w.pending, err)
		}
		if err := c.w.holds(again); err != nil {
			t.Errorf("%d, in %s: %v", i, c.w.pending, err)
		}
		must(t, again.Close())
	}
}

// TestIdentityIsWrittenWhole ends a write of the identity between any two steps of it.
func TestIdentityIsWrittenWhole(t *testing.T) {
	killed := errors.New("killed")
	for _, at := range []string{"created", "written", "renamed"} {
		t.Run(at, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, dir, Options{})
			must(t, s.SaveRecord([]byte("old")))
			s.v.(*directory).step = func(step string) error {
				if step == at {
					return killed
				}
				return nil
			}
			if err := s.SaveRecord([]byte("new")); !errors.Is(err, killed) {
				t.Fatalf("SaveRecord says %v", err)
			}
			wantTripped(t, s, killed)
			must(t, s.Close())
			if err := os.Remove(filepath.Join(dir, retiredFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			again := mustOpen(t, dir, Options{})
			want := map[string]string{"created": "old", "written": "old", "renamed": "new"}[at]
			if got := string(again.Record()); got != want || again.ID() != s.ID() {
				t.Errorf("the record is %q, want %q", got, want)
			}
		})
	}
}

// TestFirstOpenInterrupted ends the first Open of a directory after each of its steps.
func TestFirstOpenInterrupted(t *testing.T) {
	dir := t.TempDir()
	d, err := openDirectory(dir)
	must(t, err)
	must(t, d.close()) // nothing but the lock
	d, err = openDirectory(dir)
	must(t, err)
	id, err := loadIdentity(d, "test", LogSegments)
	must(t, err)
	must(t, d.close())
	d, err = openDirectory(dir)
	must(t, err)
	_, _, _, err = d.openRaft(identity{LogStore: LogSegments}, &Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, d.close()) // raft's file, in which nothing has been stored
	s := mustOpen(t, dir, Options{})
	if s.ID() != id.Node {
		t.Errorf("id %s, was %s", s.ID(), id.Node)
	}
	fill(t, s)
	must(t, s.Close())
	mustOpen(t, dir, Options{})
}

// TestLogOfAnotherHistory: a snapshot was installed over a log that differs from it, and the process ended before raft
// removed the log. None of its entries may ever be sent to others.
func TestLogOfAnotherHistory(t *testing.T) {
	all(t, func(t *testing.T, s *Store, reopen func() *Store) {
		fill(t, s)
		must(t, s.Stable().SetUint64([]byte(keyTerm), 3))
		snapshot(t, s, 10, 3, "another history")
		s = reopen()
		if last, _ := s.Logs().LastIndex(); last != 0 {
			t.Errorf("the log still ends at %d", last)
		}
		must(t, s.Logs().StoreLogs(entries(11, 12, 3)))
		s = reopen()
		if first, _ := s.Logs().FirstIndex(); first != 11 {
			t.Errorf("the log begins at %d", first)
		}
		must(t, s.Switch().Err())
	})
}

// TestLogHasNoGaps: raft leaves a gap when it ended between installing a snapshot and removing the log before it.
func TestLogHasNoGaps(t *testing.T) {
	all(t, func(t *testing.T, s *Store, reopen func() *Store) {
		fill(t, s)
		snapshot(t, s, 30, 2, "ahead")
		must(t, s.Logs().StoreLogs(entries(31, 33, 2)))
		check := func() {
			t.Helper()
			if first, _ := s.Logs().FirstIndex(); first != 31 {
				t.Errorf("the log begins at %d", first)
			}
			if err := s.Logs().GetLog(20, new(raft.Log)); err != raft.ErrLogNotFound {
				t.Errorf("entry 20: %v", err)
			}
			must(t, s.Switch().Err())
		}
		check()
		s = reopen()
		check()
	})
}

// TestDeleteMany: raft shortens its log by tens of thousands of entries at once, and bbolt deletes while it iterates.
func TestDeleteMany(t *testing.T) {
	all(t, func(t *testing.T, s *Store, reopen func() *Store) {
		must(t, s.Stable().SetUint64([]byte(keyTerm), 2))
		must(t, s.Logs().StoreLogs(entries(1, 5000, 2)))
		snapshot(t, s, 4500, 2, "state")
		must(t, s.Logs().DeleteRange(1, 4000))
		must(t, s.Logs().DeleteRange(4900, 5000))
		s = reopen()
		first, _ := s.Logs().FirstIndex()
		last, _ := s.Logs().LastIndex()
		if first != 4001 || last != 4899 {
			t.Errorf("the log is %d to %d", first, last)
		}
	})
}

// TestLogIsAppendedTo: what raft never does is a broken invariant, not a write.
func TestLogIsAppendedTo(t *testing.T) {
	for name, call := range map[string]func(*Store) error{
		"overwrite":       func(s *Store) error { return s.Logs().StoreLog(entry(20, 3)) },
		"gap in a batch":  func(s *Store) error { return s.Logs().StoreLogs([]*raft.Log{entry(21, 2), entry(23, 2)}) },
		"delete a middle": func(s *Store) error { return s.Logs().DeleteRange(5, 6) },
	} {
		t.Run(name, func(t *testing.T) {
			s := mustMount(t, NewDisk(), Options{})
			fill(t, s)
			must(t, call(s))
			if s.Switch().Err() == nil {
				t.Error("the switch was not tripped")
			}
			var e raft.Log
			must(t, s.logs.inner.GetLog(20, &e))
			if e.Term != 2 || s.logs.inner.GetLog(5, &e) != nil || s.logs.inner.GetLog(21, &e) == nil {
				t.Error("the log was changed")
			}
		})
	}
}

// TestMonotonic: raft asks with this very interface, and only then removes a log that a snapshot has replaced.
func TestMonotonic(t *testing.T) {
	s := mustMount(t, NewDisk(), Options{})
	if m, ok := s.Logs().(raft.MonotonicLogStore); !ok || !m.IsMonotonic() {
		t.Error("raft will leave gaps in the log")
	}
	if m := raft.LogStore(mustCache(t, s)).(raft.MonotonicLogStore); !m.IsMonotonic() {
		t.Error("raft's cache hides it")
	}
}

func mustCache(t *testing.T, s *Store) *raft.LogCache {
	t.Helper()
	c, err := raft.NewLogCache(16, s.Logs())
	must(t, err)
	return c
}

func TestHalfFormed(t *testing.T) {
	all(t, func(t *testing.T, s *Store, reopen func() *Store) {
		must(t, s.Stable().SetUint64([]byte(keyTerm), 1))
		if has, err := s.HasState(); !has || err != nil {
			t.Errorf("a server that has heard of a term: %v, %v", has, err)
		}
		must(t, s.SaveRecord([]byte("adopted")))
		s = reopen()
		if has, err := s.HasState(); !has || !errors.Is(err, ErrHalfFormed) {
			t.Errorf("a server that ended inside BootstrapCluster: %v, %v", has, err)
		}
		must(t, s.Logs().StoreLog(entry(1, 1)))
		if has, err := s.HasState(); !has || err != nil {
			t.Errorf("after its first entry: %v, %v", has, err)
		}
	})
}

func TestCellIDIsFinal(t *testing.T) {
	all(t, func(t *testing.T, s *Store, reopen func() *Store) {
		must(t, s.SetCellID([16]byte{2}))
		s = reopen()
		must(t, s.SetCellID([16]byte{2}))
		if err := s.SetCellID([16]byte{3}); !errors.Is(err, ErrWrongCell) {
			t.Errorf("another cell: %v", err)
		}
		must(t, s.Switch().Err())
	})
}
