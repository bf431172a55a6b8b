package seglog

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
)

// several is a disk with a log of several segments, all of it synced and closed, and what it holds.
func several(t testing.TB) (*disk, model) {
	d, m := newDisk(), model{}
	l, err := open(d, small(false))
	must(t, err)
	for _, c := range []change{store(1, 30, 1), store(31, 60, 2), {lo: 50, hi: 60}, {lo: 1, hi: 8}, store(50, 90, 3), store(91, 92, 3), store(93, 93, 3), store(94, 95, 3)} {
		must(t, c.do(l))
		m = c.after(m)
	}
	must(t, m.compare(l))
	must(t, l.Close())
	if len(d.names) < 3 {
		t.Fatalf("%d segments", len(d.names))
	}
	return d.crash(func(n int) int { return n - 1 }), m
}

// TestG11_EveryFlippedBit: a bit that is not what was written is noticed, or makes no difference.
func TestG11_EveryFlippedBit(t *testing.T) {
	d, m := several(t)
	r := rand.New(rand.NewPCG(1, 2))
	refused, tries := 0, 0
	for name, f := range d.names {
		used := len(trimZeros(f.now))
		for at := range used + 64 {
			if at >= sectorSize && r.IntN(8) > 0 {
				continue
			}
			tries++
			c := d.kill()
			c.names[name].now[at] ^= 1 << r.IntN(8)
			l, err := open(c, small(true))
			if err != nil {
				refused++
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "disk/0") {
					t.Errorf("byte %d of %s: %v", at, name, err)
				}
				continue
			}
			if err := m.compare(l); err != nil {
				t.Errorf("byte %d of %s: %v", at, name, err)
			}
			if at < used && at >= sectorSize && at < used-2*markSize && f.now[at] == 0 && c.names[name].now[at] == 0 {
				t.Errorf("byte %d of %s was not looked at", at, name)
			}
		}
	}
	t.Logf("%d of %d refused", refused, tries)
}

// TestG11_CutShort cuts files at every length, and removes them.
func TestG11_CutShort(t *testing.T) {
	d, m := several(t)
	for name, f := range d.names {
		for n := 0; n < len(f.now); n += 8 {
			c := d.kill()
			c.names[name].now = c.names[name].now[:n]
			if l, err := open(c, small(true)); err == nil && m.compare(l) != nil || err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("%s of %d bytes: %v", name, n, err)
			}
		}
		c := d.kill()
		delete(c.names, name)
		if _, err := open(c, small(true)); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	if _, err := open(newDisk(), small(true)); !errors.Is(err, ErrDamaged) {
		t.Errorf("without any segment: %v", err)
	}
}

func TestNewerVersion(t *testing.T) {
	d, _ := several(t)
	names, _ := d.list()
	b := d.names[names[0]].now
	b[8] = version + 1
	copy(b[headerSize-4:], sum32(b[:headerSize-4]))
	if _, err := open(d, small(true)); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), names[0]) {
		t.Errorf("a newer segment: %v", err)
	}
}

func sum32(b []byte) []byte {
	s := sum(0, b)
	return []byte{byte(s), byte(s >> 8), byte(s >> 16), byte(s >> 24)}
}

// TestG11_FailureAtAnyOperation fails each operation of the disk in turn. The log takes nothing more, syncs nothing more,
// and what had been acknowledged is there afterwards.
func TestG11_FailureAtAnyOperation(t *testing.T) {
	changes := workload()
	for n := 1; ; n++ {
		d, m := newDisk(), model{}
		after := 0
		d.fail = func(op int) error {
			if op == n {
				return syscall.EIO
			}
			if op > n {
				after++
			}
			return nil
		}
		l, err := open(d, small(false))
		exists := err == nil
		i := 0
		for ; err == nil && i < len(changes); i++ {
			if err = changes[i].do(l); err == nil {
				m = changes[i].after(m)
			}
		}
		if err == nil {
			t.Logf("%d operations", n-1)
			return
		}
		if !errors.Is(err, syscall.EIO) {
			t.Fatalf("operation %d: %v", n, err)
		}
		s := scene{before: m}
		if s.exists = exists; exists {
			s.running = &changes[i-1]
			if err := l.StoreLog(entry(m.last()+1, 99)); err == nil {
				t.Errorf("operation %d has failed, and the log goes on", n)
			}
			must(t, l.Close())
		}
		if after > 2 { // the directory is synced although a removal failed
			t.Errorf("operation %d has failed, and %d followed", n, after)
		}
		d.fail = nil
		for _, left := range []*disk{d.kill(), d.crash(func(int) int { return 0 })} {
			if _, _, err := s.check(left); err != nil {
				t.Errorf("operation %d has failed: %v", n, err)
			}
		}
	}
}

// TestG11_DiskFillsUp: what had been acknowledged is there, and the log goes on when there is room.
func TestG11_DiskFillsUp(t *testing.T) {
	for room := 0; room < 20_000; room += 97 {
		d, m := newDisk(), model{}
		d.room = room
		l, err := open(d, small(false))
		exists := err == nil
		for i := uint64(1); err == nil; i++ {
			c := store(i, i, 1)
			if err = c.do(l); err == nil {
				m = c.after(m)
			}
		}
		var path *fs.PathError
		if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &path) || path.Op != "write" {
			t.Fatalf("%d bytes of room: %v", room, err)
		}
		if exists {
			must(t, l.Close())
		}
		d.room = -1
		next := store(m.first+uint64(len(m.terms)), m.first+uint64(len(m.terms)), 1)
		if len(m.terms) == 0 {
			next = store(1, 1, 1)
		}
		s := scene{disk: d, before: m, exists: exists, running: &next}
		l, m, err = s.check(d)
		if err != nil {
			t.Fatalf("%d bytes of room: %v", room, err)
		}
		if err := goOn(l, m, d); err != nil {
			t.Fatalf("%d bytes of room: %v", room, err)
		}
	}
}

// What raft never does, and the log refuses without harm.
func TestRefused(t *testing.T) {
	d, m := several(t)
	l, err := open(d, small(true))
	must(t, err)
	for name, err := range map[string]error{
		"a gap":            l.StoreLog(entry(m.last()+2, 9)),
		"an overwrite":     l.StoreLog(entry(m.last(), 9)),
		"a gap in a batch": l.StoreLogs([]*raft.Log{entry(m.last()+1, 9), entry(m.last()+3, 9)}),
		"a middle":         l.DeleteRange(m.first+1, m.first+2),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	must(t, l.DeleteRange(m.last()+1, m.last()+5))
	must(t, l.DeleteRange(9, 3))
	must(t, m.compare(l))
	if err := goOn(l, m, d); err != nil {
		t.Error(err)
	}
}

// TestLargeBatch: one of more than a frame takes is stored in several, and a large entry in one.
func TestLargeBatch(t *testing.T) {
	l, err := Open(t.TempDir(), killOptions(false))
	must(t, err)
	var batch []*raft.Log
	for i := uint64(1); i <= 5; i++ {
		batch = append(batch, &raft.Log{Index: i, Term: 1, Data: bytes.Repeat([]byte{byte(i)}, 5<<20)})
	}
	batch = append(batch, &raft.Log{Index: 6, Term: 1, Data: make([]byte, 17<<20)}, entry(7, 1))
	must(t, l.StoreLogs(batch))
	for _, want := range batch {
		var got raft.Log
		must(t, l.GetLog(want.Index, &got))
		if !reflect.DeepEqual(&got, want) {
			t.Errorf("entry %d is another", want.Index)
		}
	}
	if l.number != 1+4+3 || cap(l.buf) > keptBuffer { // four frames of entries, three ends of segments
		t.Errorf("%d frames, and a buffer of %d bytes", l.number-1, cap(l.buf))
	}
	must(t, l.Close())
}

// TestG11_Golden reads a segment as the first released version has written it, with a file beside it that is not ours.
func TestG11_Golden(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("testdata/v1")))
	must(t, os.WriteFile(filepath.Join(dir, "notes.log"), nil, 0o600))
	l, err := Open(dir, killOptions(true))
	must(t, err)
	if err := goldenModel().compare(l); err != nil {
		t.Error(err)
	}
	must(t, l.Close())
}

func goldenModel() (m model) {
	for _, c := range goldenChanges() {
		m = c.after(m)
	}
	return m
}

// goldenChanges are what testdata/v1 was written with, in steps of 4 KiB.
func goldenChanges() []change {
	return []change{store(5, 12, 1), {lo: 10, hi: 12}, store(10, 14, 2), {lo: 5, hi: 6}, store(15, 16, 3)}
}
