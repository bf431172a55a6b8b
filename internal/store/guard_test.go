package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coordcell/coord/internal/failstop"
)

// at returns a fault that fails each call of op, from the nth on.
func at(op Op, nth int64, err error) func(Op) error {
	var n atomic.Int64
	return func(o Op) error {
		if o == op && n.Add(1) >= nth {
			return err
		}
		return nil
	}
}

// calls are those of raft that reach the disk, on a store that fill has filled and that has a snapshot.
var calls = map[Op]func(s *Store) error{
	OpGetLog:     func(s *Store) error { return s.Logs().GetLog(10, new(raft.Log)) },
	OpStoreLogs:  func(s *Store) error { return s.Logs().StoreLog(entry(21, 2)) },
	OpDeleteLogs: func(s *Store) error { return s.Logs().DeleteRange(15, 20) },
	OpSetTerm:    func(s *Store) error { return s.Stable().SetUint64([]byte(keyTerm), 9) },
	OpSetVote: func(s *Store) error {
		return errors.Join(s.Stable().SetUint64([]byte(keyVoteTerm), 9), s.Stable().Set([]byte(keyCandidate), []byte("nine")))
	},
}

// snapshotCalls return errors of a failed store, unlike calls.
var snapshotCalls = map[Op]func(s *Store) error{
	OpListSnapshots:  func(s *Store) error { _, err := s.Snapshots().List(); return err },
	OpCreateSnapshot: writeSnapshot,
	OpWriteSnapshot:  writeSnapshot,
	OpCloseSnapshot:  writeSnapshot,
	OpCancelSnapshot: func(s *Store) error {
		sink, err := createSnapshot(s)
		if err != nil {
			return err
		}
		return sink.Cancel()
	},
	OpOpenSnapshot: openSnapshot,
	OpReadSnapshot: openSnapshot,
}

func createSnapshot(s *Store) (raft.SnapshotSink, error) {
	_, trans := raft.NewInmemTransport("here")
	return s.Snapshots().Create(1, 15, 2, raft.Configuration{}, 1, trans)
}

func writeSnapshot(s *Store) error {
	sink, err := createSnapshot(s)
	if err != nil {
		return err
	}
	_, err = sink.Write(make([]byte, 2*snapshotChunk+1))
	first := sink.Close()
	if again := sink.Close(); again != first {
		return fmt.Errorf("closing again says %v, the first time %v", again, first)
	}
	return errors.Join(err, first)
}

func openSnapshot(s *Store) error {
	metas, err := s.snaps.inner.List()
	if err != nil {
		return err
	}
	_, r, err := s.Snapshots().Open(metas[0].ID)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.ReadAll(r)
	return err
}

// TestG11_FirstFailureSilences fails each call once, on both kinds of disk: the switch is tripped when the call returns,
// raft sees no error, and nothing is written or read any more.
func TestG11_FirstFailureSilences(t *testing.T) {
	broken := errors.New("broken")
	for op, call := range calls {
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprint(op, " ", when), func(t *testing.T) {
				faults := Faults{Before: at(op, 1, broken)}
				if when == "after" {
					faults = Faults{After: at(op, 1, broken)}
				}
				dir := t.TempDir()
				prepare(t, mustOpen(t, dir, Options{}))
				s := mustOpen(t, dir, Options{Faults: faults})
				must(t, call(s))
				wantTripped(t, s, broken)
				wantPoisoned(t, s)
				must(t, s.Close())
				if _, err := Open(dir, Options{Cell: "test"}); !errors.Is(err, ErrRetired) || !contains(err, "broken") || !contains(err, s.ID()) {
					t.Errorf("Open says %v, want %v with the reason and the old id", err, ErrRetired)
				}
			})
		}
	}
	for op, call := range snapshotCalls {
		t.Run(string(op), func(t *testing.T) {
			dir := t.TempDir()
			prepare(t, mustOpen(t, dir, Options{}))
			s := mustOpen(t, dir, Options{Faults: Faults{Before: at(op, 1, broken)}})
			if err := call(s); !errors.Is(err, broken) {
				t.Errorf("the call says %v", err)
			}
			wantTripped(t, s, broken)
			wantPoisoned(t, s)
		})
	}
}

func prepare(t testing.TB, s *Store) {
	t.Helper()
	fill(t, s)
	snapshot(t, s, 10, 2, "state")
	must(t, s.Close())
}

func wantTripped(t testing.TB, s *Store, reason error) {
	t.Helper()
	if err := s.Switch().Err(); !errors.Is(err, reason) {
		t.Fatalf("the switch says %v, want %v", err, reason)
	}
}

// wantPoisoned expects that the store, in which fill was once, answers without touching the disk.
func wantPoisoned(t testing.TB, s *Store) {
	t.Helper()
	for _, call := range calls {
		must(t, call(s))
	}
	for op, call := range snapshotCalls {
		if op == OpOpenSnapshot || op == OpReadSnapshot {
			continue // they look for the snapshot on the disk
		}
		if err := call(s); !errors.Is(err, s.Switch().Err()) {
			t.Errorf("%s says %v", op, err)
		}
	}
	for _, i := range []uint64{0, 10, 1 << 40} {
		e := raft.Log{Data: []byte("left over")}
		must(t, s.Logs().GetLog(i, &e))
		if e.Index != i || e.Type != raft.LogNoop || e.Term != 0 || e.Data != nil {
			t.Errorf("GetLog(%d) gives %+v", i, e)
		}
	}
	if term, err := s.Stable().GetUint64([]byte(keyTerm)); term != 2 && term != 9 || err != nil {
		t.Errorf("term %d, %v", term, err)
	}
	if last, err := s.Logs().LastIndex(); last != 20 && last != 14 || err != nil {
		t.Errorf("last index %d, %v", last, err)
	}
	if err := s.SaveRecord([]byte("late")); !errors.Is(err, s.Switch().Err()) {
		t.Errorf("SaveRecord says %v", err)
	}
}

func TestFullDiskIsNotRetired(t *testing.T) {
	dir := t.TempDir()
	prepare(t, mustOpen(t, dir, Options{}))
	s := mustOpen(t, dir, Options{Faults: Faults{Before: at(OpStoreLogs, 1, syscall.ENOSPC)}})
	must(t, s.Logs().StoreLog(entry(21, 2)))
	wantTripped(t, s, syscall.ENOSPC)
	must(t, s.Close())
	s = mustOpen(t, dir, Options{})
	must(t, s.Logs().StoreLog(entry(21, 2)))
	must(t, s.Switch().Err())
}

func TestWhatRetires(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&fs.PathError{Op: "write", Err: syscall.ENOSPC}, false},
		{fmt.Errorf("wrapped: %w", &fs.PathError{Op: "write", Err: syscall.EDQUOT}), false},
		{&fs.PathError{Op: "sync", Err: syscall.ENOSPC}, true},
		{syscall.ENOSPC, true}, // fdatasync in bbolt
		{&fs.PathError{Op: "write", Err: syscall.EIO}, true},
		{fmt.Errorf("%w: checksum", ErrDamaged), true},
		{fmt.Errorf("%w: it hangs", ErrStalled), false},
	} {
		if got := retires(c.err); got != c.want {
			t.Errorf("%v retires the directory: %v, want %v", c.err, got, c.want)
		}
	}
}

// TestG11_FailedSyncIsFinal: what a failed sync left in the operating system's memory is never trusted.
func TestG11_FailedSyncIsFinal(t *testing.T) {
	d := NewDisk()
	prepare(t, mustMount(t, d, Options{}))
	second := at(OpStoreLogs, 2, syscall.EIO)
	s := mustMount(t, d, Options{Faults: Faults{Sync: func(op Op) error {
		if op == OpRetire {
			return syscall.EIO // the marker is not sure to be there
		}
		return second(op)
	}}})
	must(t, s.Logs().StoreLog(entry(21, 2)))
	must(t, s.Switch().Err())
	must(t, s.Logs().StoreLog(entry(22, 2)))
	wantTripped(t, s, syscall.EIO)
	must(t, s.Close())
	if _, err := OpenDisk(d, Options{Cell: "test"}); !errors.Is(err, ErrRetired) {
		t.Errorf("OpenDisk says %v", err)
	}
	s = mustMount(t, d.Crash(true), Options{})
	if last, _ := s.Logs().LastIndex(); last != 21 {
		t.Errorf("after a power cut the log ends at %d, not with the last that was acknowledged", last)
	}
}

func TestLostSyncLosesOnPowerCut(t *testing.T) {
	d := NewDisk()
	s := mustMount(t, d, Options{Faults: Faults{Sync: at(OpStoreLogs, 2, ErrSyncLost)}})
	must(t, s.Stable().SetUint64([]byte(keyTerm), 1))
	must(t, s.Logs().StoreLog(entry(1, 1)))
	must(t, s.Logs().StoreLog(entry(2, 1)))
	must(t, s.Switch().Err())
	for powerCut, want := range map[bool]uint64{false: 2, true: 1} {
		again := mustMount(t, d.Crash(powerCut), Options{})
		if last, _ := again.Logs().LastIndex(); last != want {
			t.Errorf("power cut %v: the log ends at %d, want %d", powerCut, last, want)
		}
	}
}

// hang is a fault that blocks calls of one op until it is released.
type hang struct {
	op      Op
	release chan struct{}
}

func (h hang) fault(o Op) error {
	if o == h.op {
		<-h.release
	}
	return nil
}

// TestStallEnds lets each call hang: the owner is told while the node can still speak, then the switch is tripped and the
// call returns; Close does not wait, and the disk is free once the call has returned after all.
func TestStallEnds(t *testing.T) {
	all := map[Op]func(*Store) error{}
	for op, call := range calls {
		all[op] = call
	}
	all[OpCloseSnapshot] = func(s *Store) error { writeSnapshot(s); return nil }
	all[OpReadSnapshot] = func(s *Store) error { openSnapshot(s); return nil }
	all[OpWritePeers] = func(s *Store) error { s.SavePeers([]Peer{{ID: "a"}}); return nil }
	for op, call := range all {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := NewDisk()
				prepare(t, mustMount(t, d, Options{}))
				h := hang{op, make(chan struct{})}
				sw := failstop.New()
				told := 0
				s := mustMount(t, d, Options{Faults: Faults{Before: h.fault}, Switch: sw, StallTimeout: time.Second, OnStall: func() {
					told++
					if sw.Err() != nil {
						t.Error("the owner was told after the switch had been tripped")
					}
					time.Sleep(100 * time.Millisecond)
				}})
				start := time.Now()
				must(t, call(s))
				want := 1100 * time.Millisecond
				if op == OpCloseSnapshot {
					want += (snapshotPatience - 1) * time.Second
				}
				if took := time.Since(start); took != want {
					t.Errorf("the call took %v, want %v", took, want)
				}
				wantTripped(t, s, ErrStalled)
				wantPoisoned(t, s)
				if told != 1 {
					t.Errorf("the owner was told %d times", told)
				}
				start = time.Now()
				if err := s.Close(); !errors.Is(err, ErrStalled) || time.Since(start) != 0 {
					t.Errorf("Close says %v after %v", err, time.Since(start))
				}
				if _, err := OpenDisk(d, Options{Cell: "test"}); !errors.Is(err, ErrDirInUse) {
					t.Errorf("while the call hangs OpenDisk says %v", err)
				}
				close(h.release)
				synctest.Wait()
				must(t, mustMount(t, d, Options{}).Close()) // free, and not retired
			})
		})
	}
}

// TestStallOfMany: raft's other goroutines get out as well, and an OnStall that does not return in time is not waited for.
func TestStallOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		prepare(t, mustMount(t, d, Options{}))
		h := hang{OpGetLog, make(chan struct{})}
		never := make(chan struct{})
		s := mustMount(t, d, Options{Faults: Faults{Before: h.fault}, StallTimeout: time.Second, OnStall: func() { <-never }})
		start := time.Now()
		done := make(chan time.Duration, 10)
		for range cap(done) {
			go func() {
				s.Logs().GetLog(1, new(raft.Log))
				done <- time.Since(start)
			}()
		}
		for range cap(done) {
			if took := <-done; took != 2*time.Second {
				t.Errorf("a call returned after %v", took)
			}
		}
		close(h.release)
		close(never)
	})
}

// TestAbandonedMemory: what a hanging write still reads is not written to by those who go on.
func TestAbandonedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hang{OpWriteSnapshot, make(chan struct{})}
		s := mustMount(t, NewDisk(), Options{Faults: Faults{Before: h.fault}, StallTimeout: time.Second})
		out, err := createSnapshot(s)
		must(t, err)
		if _, err := out.Write(bytes.Repeat([]byte{1}, snapshotChunk)); !errors.Is(err, ErrStalled) {
			t.Errorf("Write says %v", err)
		}
		out.Write(bytes.Repeat([]byte{2}, snapshotChunk-1))
		close(h.release)
		synctest.Wait()
		if data := out.(*sink).inner.(*memSink).snap.data; len(data) != snapshotChunk || bytes.ContainsRune(data, 2) {
			t.Errorf("%d bytes were written, or others than those that hung", len(data))
		}
	})
}

// TestG12_CloseLeavesNothing: a bubble ends only when all its goroutines have ended.
func TestG12_CloseLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, t.TempDir(), Options{})
		fill(t, s)
		must(t, s.Close())
		must(t, s.Logs().StoreLog(entry(21, 2)))
		wantTripped(t, s, ErrClosed)
	})
}

// TestPanicInStore: a panic of the log store is an error like others.
func TestPanicInStore(t *testing.T) {
	dir := t.TempDir()
	var log panicking
	s := mustOpen(t, dir, Options{Log: func(dir string) (raft.LogStore, error) {
		log.InmemStore = raft.NewInmemStore()
		return &log, nil
	}})
	fill(t, s)
	log.panics = true
	must(t, s.Logs().GetLog(3, new(raft.Log)))
	wantTripped(t, s, ErrDamaged)
	must(t, s.Close())
}

type panicking struct {
	*raft.InmemStore
	panics bool
}

func (p *panicking) GetLog(i uint64, e *raft.Log) error {
	if p.panics {
		var page *[4096]byte
		_ = page[i]
	}
	return p.InmemStore.GetLog(i, e)
}

// TestRaftOutlivesItsDisk fails one call under a raft server that leads: raft neither panics nor hangs.
func TestRaftOutlivesItsDisk(t *testing.T) {
	for _, op := range []Op{OpGetLog, OpStoreLogs, OpSetTerm, OpSetVote, OpDeleteLogs, OpCreateSnapshot, OpCloseSnapshot} {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fail atomic.Bool
				s := mustMount(t, NewDisk(), Options{Faults: Faults{Before: func(o Op) error {
					if o == op && fail.Load() {
						return syscall.EIO
					}
					return nil
				}}})
				r := startSingle(t, s)
				for i := range 50 {
					must(t, r.Apply(fmt.Appendf(nil, "%d", i), 0).Error())
				}
				fail.Store(true)
				if op == OpSetTerm || op == OpSetVote {
					r.LeadershipTransfer() // there is nobody; it only disturbs
					s.Stable().SetUint64([]byte(keyTerm), 99)
					s.Stable().SetUint64([]byte(keyVoteTerm), 99)
					s.Stable().Set([]byte(keyCandidate), []byte("x"))
				}
				r.Apply([]byte("after"), time.Second)
				r.Snapshot()
				s.Logs().GetLog(3, new(raft.Log))
				select {
				case <-s.Switch().Tripped():
				case <-time.After(time.Minute):
					t.Error("the switch was not tripped")
				}
				must(t, r.Shutdown().Error())
				must(t, s.Close())
			})
		})
	}
}

// startSingle starts a raft server on s that leads a cell of its own, and snapshots its log away but for a few entries.
func startSingle(t *testing.T, s *Store) *raft.Raft {
	t.Helper()
	addr, trans := raft.NewInmemTransport("N")
	conf := raft.DefaultConfig()
	conf.LocalID = "N"
	conf.LogOutput = io.Discard
	conf.TrailingLogs = 5
	conf.SnapshotThreshold = 1
	if has, err := s.HasState(); err != nil {
		t.Fatal(err)
	} else if !has {
		must(t, raft.BootstrapCluster(conf, s.Logs(), s.Stable(), s.Snapshots(), trans, raft.Configuration{Servers: []raft.Server{{ID: "N", Address: addr}}}))
	}
	r, err := raft.NewRaft(conf, &raft.MockFSM{}, s.Logs(), s.Stable(), s.Snapshots(), trans)
	must(t, err)
	for range 100 {
		if r.State() == raft.Leader {
			return r
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("no leader")
	return nil
}

// TestFlippedBitIsFound flips a bit in a stored entry: reading it is a failure, not an entry.
func TestFlippedBitIsFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	s := mustOpen(t, dir, Options{LogStore: LogBolt})
	fill(t, s)
	var e raft.Log
	must(t, s.logs.inner.GetLog(7, &e))
	for i := range e.Data {
		flipped := e
		flipped.Data = append([]byte(nil), e.Data...)
		flipped.Data[i] ^= 1
		if err := unseal(&flipped, 7); !errors.Is(err, ErrDamaged) {
			t.Fatalf("a flipped byte %d: %v", i, err)
		}
	}
	e.Term++
	must(t, s.logs.inner.StoreLog(&e))
	must(t, s.Logs().GetLog(7, &e))
	wantTripped(t, s, ErrDamaged)
	must(t, s.Close())
	if _, err := Open(dir, Options{Cell: "test"}); !errors.Is(err, ErrRetired) {
		t.Errorf("Open says %v", err)
	}
}

// TestMissingEntry: raft would panic about a hole in the log.
func TestMissingEntry(t *testing.T) {
	s := mustMount(t, NewDisk(), Options{})
	fill(t, s)
	must(t, s.logs.inner.DeleteRange(20, 20))
	must(t, s.Logs().GetLog(20, new(raft.Log)))
	wantTripped(t, s, ErrDamaged)
}

// TestFailureIsLogged once, with the call.
func TestFailureIsLogged(t *testing.T) {
	var logged []string
	log := slog.New(recorder{&logged})
	s := mustMount(t, NewDisk(), Options{Logger: log, Faults: Faults{Before: at(OpStoreLogs, 1, syscall.EIO)}})
	must(t, s.Logs().StoreLog(entry(1, 1)))
	must(t, s.Logs().StoreLog(entry(1, 1)))
	must(t, s.Close())
	if len(logged) != 1 {
		t.Errorf("logged %q", logged)
	}
}

type recorder struct{ lines *[]string }

func (r recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r recorder) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r recorder) WithGroup(string) slog.Handler            { return r }
func (r recorder) Handle(_ context.Context, rec slog.Record) error {
	*r.lines = append(*r.lines, rec.Message)
	return nil
}
