package store

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// TestFlippedFile flips bits in raft's file, which holds the log, too. Whatever Open says, it neither panics nor hangs, and what it lets through is
// what was stored.
func TestFlippedFile(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{LogStore: LogBolt})
	must(t, s.Stable().SetUint64([]byte(keyTerm), 2))
	must(t, s.Logs().StoreLogs(entries(1, 400, 2)))
	must(t, s.Close())
	path := filepath.Join(dir, raftFile)
	whole, err := os.ReadFile(path)
	must(t, err)
	live := livePages(t, path)
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	const tries = 60
	for range tries {
		at := live[random.IntN(len(live))]*uint64(os.Getpagesize()) + random.Uint64N(uint64(os.Getpagesize()))
		if random.IntN(2) == 0 { // in a header or an element
			at = at&^uint64(os.Getpagesize()-1) + random.Uint64N(64)
		}
		data := bytes.Clone(whole)
		data[at] ^= 1 << random.IntN(8)
		must(t, os.WriteFile(path, data, 0o600))
		again, err := Open(dir, Options{Cell: "test"})
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) || !contains(err, "raft.db") {
				t.Errorf("byte %d: %v", at, err)
			}
			refused++
			continue
		}
		if last, _ := again.Logs().LastIndex(); last != 400 {
			t.Errorf("byte %d: the log ends at %d", at, last)
		}
		for i := uint64(1); i <= 400; i++ {
			var e raft.Log
			must(t, again.Logs().GetLog(i, &e))
			if string(e.Data) != string(entry(i, 2).Data) {
				t.Errorf("byte %d: entry %d is %q", at, i, e.Data)
			}
		}
		must(t, again.Switch().Err())
		must(t, again.Close())
	}
	t.Logf("%d of %d refused", refused, tries)
	if refused < tries/2 {
		t.Error("too little was noticed")
	}
}

// livePages are those that hold something, without the metas: where the newer meta cannot be read, bbolt takes the older
// one, as after a crash while it was written.
func livePages(t *testing.T, path string) (pages []uint64) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	info, err := f.Stat()
	must(t, err)
	b := &boltFile{f: f}
	root, err := b.readMeta(uint64(info.Size()))
	must(t, err)
	must(t, b.checkTree(root, nil, nil))
	for id, seen := range b.seen {
		if seen {
			pages = append(pages, uint64(id))
		}
	}
	return pages
}

// FuzzBoltFile looks for a file that passes, and that bbolt panics about.
func FuzzBoltFile(f *testing.F) {
	whole, err := os.ReadFile(golden + "/" + raftFile)
	must(f, err)
	f.Add(uint16(0), []byte{0})
	f.Add(uint16(3*4096+10), []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, at uint16, change []byte) {
		data := bytes.Clone(whole)
		for i, c := range change {
			data[(int(at)+i)%len(data)] ^= c
		}
		path := filepath.Join(t.TempDir(), "raft.db")
		must(t, os.WriteFile(path, data, 0o600))
		if checkBolt(path) != nil {
			return
		}
		err := protect(slog.New(slog.DiscardHandler), func() error {
			db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, NoSync: true, FreelistType: bbolt.FreelistMapType})
			if err != nil {
				return err
			}
			return db.Close()
		})
		if err != nil {
			t.Error("bbolt says", err)
		}
	})
}

// TestUnreadableDirectory names the file.
func TestUnreadableDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file, Options{Cell: "test"}); !errors.Is(err, syscall.ENOTDIR) || !contains(err, file) {
		t.Errorf("a file: %v", err)
	}
	if _, err := Open("", Options{Cell: "test"}); err == nil {
		t.Error("no directory was opened")
	}
	if _, err := Open(dir, Options{Cell: strings.Repeat("x", maxCell+1)}); !contains(err, "513 bytes") || !contains(err, "512") {
		t.Errorf("a long cell name: %v", err)
	}
	if _, err := Open(dir, Options{Cell: "\xff"}); !contains(err, "UTF-8") {
		t.Errorf("a cell name of other bytes: %v", err)
	}
	if os.Getuid() == 0 {
		t.Skip("root may read and write everything")
	}
	must(t, os.Chmod(dir, 0o500))
	if _, err := Open(dir, Options{Cell: "test"}); !errors.Is(err, fs.ErrPermission) || !contains(err, lockFile) {
		t.Errorf("an unwritable directory: %v", err)
	}
}

func TestDamagedPeersAreIgnored(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	must(t, s.SavePeers([]Peer{{ID: "a"}}))
	s.v.(*directory).step = func(string) error { return syscall.EIO }
	if err := s.SavePeers([]Peer{{ID: "b"}}); !errors.Is(err, syscall.EIO) {
		t.Errorf("SavePeers says %v", err)
	}
	if err := s.SavePeers(make([]Peer, maxPeers+1)); !contains(err, "1025 peers, the limit is 1024") {
		t.Errorf("too many peers: %v", err)
	}
	if err := s.SavePeers([]Peer{{ID: strings.Repeat("x", maxRecord)}}); !contains(err, "limit is 1048576") {
		t.Errorf("a long id: %v", err)
	}
	must(t, s.Switch().Err())
	if p := s.Peers(); len(p) != 1 || p[0].ID != "a" {
		t.Errorf("peers are %v", p)
	}
	must(t, s.Close())
	must(t, os.WriteFile(filepath.Join(dir, peersFile), []byte("rubbish"), 0o600))
	s = mustOpen(t, dir, Options{})
	if p := s.Peers(); len(p) != 0 {
		t.Errorf("peers are %v", p)
	}
}

// TestSnapshotLeftovers: what a crash left of snapshots is removed, and no more than that.
func TestSnapshotLeftovers(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	fill(t, s)
	for i := uint64(5); i <= 15; i += 5 {
		snapshot(t, s, i, 2, "state")
	}
	_, trans := raft.NewInmemTransport("here")
	_, err := s.Snapshots().Create(1, 18, 2, raft.Configuration{}, 1, trans)
	must(t, err)
	must(t, s.Close())
	snaps := filepath.Join(dir, snapshotDir)
	must(t, os.MkdirAll(filepath.Join(snaps, "2-5-1"), 0o700)) // half removed
	must(t, os.WriteFile(filepath.Join(snaps, "not ours"), nil, 0o600))
	mustOpen(t, dir, Options{})
	entries, err := os.ReadDir(snaps)
	must(t, err)
	var names []string
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), "-1")
		names = append(names, name)
	}
	if got := strings.Join(names, ", "); got != "2, 2, not ours" && len(entries) != 3 {
		t.Errorf("left are %v", entries)
	}
}

// TestSnapshotIsBig: chunks are put together again.
func TestSnapshotIsBig(t *testing.T) {
	all(t, func(t *testing.T, s *Store, reopen func() *Store) {
		must(t, s.Stable().SetUint64([]byte(keyTerm), 2))
		data := make([]byte, 3*snapshotChunk+7)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		_, trans := raft.NewInmemTransport("here")
		sink, err := s.Snapshots().Create(1, 15, 2, raft.Configuration{}, 1, trans)
		must(t, err)
		for p := data; len(p) > 0; {
			n := min(len(p), 100_000)
			_, err := sink.Write(p[:n])
			must(t, err)
			p = p[n:]
		}
		must(t, sink.Close())
		s = reopen()
		meta, r, err := s.Snapshots().Open(sink.ID())
		must(t, err)
		got, err := io.ReadAll(r)
		must(t, err)
		if meta.Size != int64(len(data)) || !bytes.Equal(got, data) {
			t.Errorf("%d bytes of %d, meta says %d", len(got), len(data), meta.Size)
		}
		must(t, r.Close())
		if _, _, err := s.Snapshots().Open("1-1-1"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a snapshot that is not there: %v", err)
		}
		must(t, s.Switch().Err())
	})
}

// TestDiskCopiesEntries: raft's transport in memory hands the same entry to several servers.
func TestDiskCopiesEntries(t *testing.T) {
	s := mustMount(t, NewDisk(), Options{})
	e := entry(1, 1)
	must(t, s.Logs().StoreLog(e))
	e.Data[0] = 'X'
	var got raft.Log
	must(t, s.Logs().GetLog(1, &got))
	got.Data[1] = 'X'
	must(t, s.Logs().GetLog(1, &got))
	if string(got.Data) != string(entry(1, 1).Data) {
		t.Errorf("the stored entry was changed: %q", got.Data)
	}
	if a, b := mustMount(t, NewDisk(), Options{}), s; a.ID() == b.ID() {
		t.Error("two disks have the same id")
	}
}

// TestTermBehindLog: raft stores a term before any entry of it, so one that is behind was set back.
func TestTermBehindLog(t *testing.T) {
	d := NewDisk()
	s := mustMount(t, d, Options{})
	fill(t, s)
	must(t, s.ballots.inner.Set(keyBallot, ballot{term: 1}.encode()))
	must(t, s.Close())
	if _, err := OpenDisk(d, Options{Cell: "test"}); !errors.Is(err, ErrDamaged) || !contains(err, "term 1") {
		t.Errorf("OpenDisk says %v", err)
	}
}
