package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// entry is a log entry whose contents follow from its index and term.
func entry(index, term uint64) *raft.Log {
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: fmt.Appendf(nil, "entry %d of term %d", index, term)}
}

func entries(from, to, term uint64) []*raft.Log {
	var out []*raft.Log
	for i := from; i <= to; i++ {
		out = append(out, entry(i, term))
	}
	return out
}

func mustOpen(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	if opts.Cell == "" {
		opts.Cell = "test"
	}
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustMount(t testing.TB, d *Disk, opts Options) *Store {
	t.Helper()
	if opts.Cell == "" {
		opts.Cell = "test"
	}
	s, err := OpenDisk(d, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill stores term 2, a vote, and the entries 1 to 20 of term 2.
func fill(t testing.TB, s *Store) {
	t.Helper()
	must(t, s.Stable().SetUint64([]byte(keyTerm), 2))
	must(t, s.Stable().SetUint64([]byte(keyVoteTerm), 2))
	must(t, s.Stable().Set([]byte(keyCandidate), []byte("candidate")))
	must(t, s.Logs().StoreLogs(entries(1, 20, 2)))
	must(t, s.Switch().Err())
}

func snapshot(t testing.TB, s *Store, index, term uint64, data string) string {
	t.Helper()
	_, trans := raft.NewInmemTransport("here")
	sink, err := s.Snapshots().Create(1, index, term, raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}}}, 1, trans)
	must(t, err)
	_, err = io.WriteString(sink, data)
	must(t, err)
	must(t, sink.Close())
	return sink.ID()
}

// all runs a test on directories with each kind of log, and on a disk in memory. reopen closes the store and opens it
// again.
func all(t *testing.T, test func(t *testing.T, s *Store, reopen func() *Store)) {
	for _, kind := range []LogStore{LogSegments, LogBolt} {
		t.Run(string(kind), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "made", "by", "open")
			s := mustOpen(t, dir, Options{LogStore: kind})
			test(t, s, func() *Store {
				must(t, s.Close())
				s = mustOpen(t, dir, Options{})
				return s
			})
		})
	}
	t.Run("memory", func(t *testing.T) {
		d := NewDisk()
		s := mustMount(t, d, Options{})
		test(t, s, func() *Store {
			must(t, s.Close())
			s = mustMount(t, d, Options{})
			return s
		})
	})
}

func TestStoreKeepsEverything(t *testing.T) {
	all(t, func(t *testing.T, s *Store, reopen func() *Store) {
		if has, err := s.HasState(); has || err != nil {
			t.Fatalf("a new store has state: %v, %v", has, err)
		}
		id, cell := s.ID(), [16]byte{1, 2, 3}
		fill(t, s)
		with := &raft.Log{Index: 21, Term: 2, Type: raft.LogConfiguration, Data: []byte("d"), Extensions: []byte("ext"), AppendedAt: time.Unix(1700000000, 5)}
		must(t, s.Logs().StoreLog(with))
		must(t, s.Logs().DeleteRange(1, 4))
		must(t, s.Logs().DeleteRange(21, 21))
		with.Index = 21
		must(t, s.Logs().StoreLog(with))
		snapshot(t, s, 10, 2, "state")
		must(t, s.SaveRecord([]byte("adopted")))
		must(t, s.SetCellID(cell))
		must(t, s.SavePeers([]Peer{{ID: "b", Name: "bee", Addr: "127.0.0.1:7"}}))

		s = reopen()
		if s.ID() != id {
			t.Errorf("id is %s, was %s", s.ID(), id)
		}
		if got, ok := s.CellID(); !ok || got != cell {
			t.Errorf("cell id is %v, %v", got, ok)
		}
		if got := s.Record(); string(got) != "adopted" {
			t.Errorf("the record is %q", got)
		}
		if got := s.Peers(); !reflect.DeepEqual(got, []Peer{{ID: "b", Name: "bee", Addr: "127.0.0.1:7"}}) {
			t.Errorf("peers are %v", got)
		}
		first, _ := s.Logs().FirstIndex()
		last, _ := s.Logs().LastIndex()
		if first != 5 || last != 21 {
			t.Errorf("the log is %d to %d", first, last)
		}
		var got raft.Log
		for i := uint64(5); i <= 20; i++ {
			must(t, s.Logs().GetLog(i, &got))
			if want := entry(i, 2); !reflect.DeepEqual(&got, want) {
				t.Fatalf("entry %d is %+v, want %+v", i, got, *want)
			}
		}
		must(t, s.Logs().GetLog(21, &got))
		if !got.AppendedAt.Equal(with.AppendedAt) || string(got.Extensions) != "ext" || got.Type != raft.LogConfiguration {
			t.Errorf("entry 21 is %+v", got)
		}
		for _, i := range []uint64{0, 4, 22} {
			if err := s.Logs().GetLog(i, &got); err != raft.ErrLogNotFound {
				t.Errorf("entry %d: %v, want exactly raft.ErrLogNotFound", i, err)
			}
		}
		wantBallot(t, s, 2, 2, "candidate")
		if got := readSnapshot(t, s); got != "state" {
			t.Errorf("the snapshot holds %q", got)
		}
		if has, err := s.HasState(); !has || err != nil {
			t.Errorf("state: %v, %v", has, err)
		}
		must(t, s.SaveRecord(nil))
		s = reopen()
		if got := s.Record(); got != nil {
			t.Errorf("the record is %q", got)
		}
		if err := s.SaveRecord(make([]byte, maxForming+1)); !contains(err, "65537 bytes, the limit is 65536") {
			t.Errorf("a record that is too long: %v", err)
		}
		must(t, s.Switch().Err())
	})
}

func wantBallot(t testing.TB, s *Store, term, voteTerm uint64, candidate string) {
	t.Helper()
	gotTerm, _ := s.Stable().GetUint64([]byte(keyTerm))
	gotVote, _ := s.Stable().GetUint64([]byte(keyVoteTerm))
	gotCandidate, _ := s.Stable().Get([]byte(keyCandidate))
	if gotTerm != term || gotVote != voteTerm || string(gotCandidate) != candidate {
		t.Errorf("term %d, vote (%d, %q); want term %d, vote (%d, %q)", gotTerm, gotVote, gotCandidate, term, voteTerm, candidate)
	}
}

func readSnapshot(t testing.TB, s *Store) string {
	t.Helper()
	metas, err := s.Snapshots().List()
	must(t, err)
	if len(metas) == 0 {
		return ""
	}
	_, r, err := s.Snapshots().Open(metas[0].ID)
	must(t, err)
	defer r.Close()
	data, err := io.ReadAll(r)
	must(t, err)
	return string(data)
}

func TestOpenIsExclusive(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	start := time.Now()
	if _, err := Open(dir, Options{Cell: "test"}); !errors.Is(err, ErrDirInUse) {
		t.Fatalf("a second Open says %v", err)
	} else {
		t.Log(err)
	}
	if took := time.Since(start); took > boltTimeout/2 {
		t.Errorf("a second Open took %v", took)
	}
	must(t, s.Close())
	must(t, s.Close())
	mustOpen(t, dir, Options{})

	d := NewDisk()
	mustMount(t, d, Options{})
	if _, err := OpenDisk(d, Options{Cell: "test"}); !errors.Is(err, ErrDirInUse) {
		t.Fatalf("a second OpenDisk says %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Run("segments", func(t *testing.T) { testOpenRefuses(t, LogSegments) })
	t.Run("bolt", func(t *testing.T) { testOpenRefuses(t, LogBolt) })
}

func testOpenRefuses(t *testing.T, kind LogStore) {
	flip := func(name string, offset int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			data, err := os.ReadFile(path)
			must(t, err)
			if offset < 0 {
				offset += int64(len(data))
			}
			data[offset] ^= 0x10
			must(t, os.WriteFile(path, data, 0o600))
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, name))) }
	}
	for _, c := range []struct {
		name string
		cell string
		harm func(*testing.T, string)
		want error
		says string
	}{
		{"another cell", "other", nil, ErrWrongCell, `identity belongs to cell "test", not to "other"`},
		{"identity flipped", "", flip(identityFile, 40), ErrDamaged, identityFile},
		{"identity version flipped", "", flip(identityFile, 15), ErrDamaged, identityFile},
		{"identity missing", "", remove(identityFile), ErrDamaged, "identity is missing"},
		{"log missing", "", remove(raftFile), ErrDamaged, "raft.db is missing"},
		{"log emptied", "", func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, raftFile), 0)) }, ErrDamaged, "raft.db is empty"},
		{"log of another directory", "", func(t *testing.T, dir string) {
			other := t.TempDir()
			must(t, mustOpen(t, other, Options{}).Close())
			data, err := os.ReadFile(filepath.Join(other, raftFile))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, raftFile), data, 0o600))
		}, ErrDamaged, "raft.db is of node"},
		{"newer identity", "", func(t *testing.T, dir string) {
			data, err := frame(identityFile, identityVersion+1, map[string]int{"unknown": 1})
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, identityFile), data, 0o600))
		}, ErrNewer, "identity: written by a newer version: version 3, this program reads up to 2"},
		{"huge identity", "", func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, identityFile), make([]byte, maxRecord+1), 0o600))
		}, ErrDamaged, "more than 1048576 bytes"},
		{"snapshot flipped", "", func(t *testing.T, dir string) {
			flip(newest(t, dir)+"/state.bin", 2)(t, dir)
		}, ErrDamaged, snapshotDir},
		{"snapshot's meta flipped", "", func(t *testing.T, dir string) {
			flip(newest(t, dir)+"/meta.json", 0)(t, dir)
		}, ErrDamaged, snapshotDir},
		{"snapshots missing", "", remove(snapshotDir), ErrDamaged, "the log begins at 5, but the newest snapshot ends at 0"},
		{"retired", "", func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, retiredFile), []byte("a sync failed"), 0o600))
		}, ErrRetired, "start it with a new, empty directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, dir, Options{LogStore: kind})
			fill(t, s)
			snapshot(t, s, 10, 2, "state")
			snapshot(t, s, 12, 2, "newer state")
			must(t, s.Logs().DeleteRange(1, 4))
			must(t, s.Close())
			if c.harm != nil {
				c.harm(t, dir)
			}
			if c.cell == "" {
				c.cell = "test"
			}
			for range 2 { // the second time proves that the first released the lock
				_, err := Open(dir, Options{Cell: c.cell})
				if !errors.Is(err, c.want) || !contains(err, c.says) {
					t.Fatalf("Open says %v; want %v with %q", err, c.want, c.says)
				}
			}
		})
	}
}

// newest is the path of the newest snapshot inside dir.
func newest(t testing.TB, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, snapshotDir, "*-12-*"))
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("found %v", found)
	}
	return snapshotDir + "/" + filepath.Base(found[0])
}

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
