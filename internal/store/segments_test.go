package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// TestKindOfLog: a directory keeps the kind of log that it was made with, and says so if another is asked for.
func TestKindOfLog(t *testing.T) {
	for _, c := range []struct {
		asked, has, other LogStore
		version           int
	}{
		{"", LogSegments, LogBolt, 2},
		{LogSegments, LogSegments, LogBolt, 2},
		{LogBolt, LogBolt, LogSegments, 1}, // as a program has made it that knew no other
	} {
		dir := t.TempDir()
		s := mustOpen(t, dir, Options{LogStore: c.asked})
		fill(t, s)
		must(t, s.Close())
		if _, err := os.Stat(filepath.Join(dir, logDir)); (err == nil) != (c.has == LogSegments) {
			t.Errorf("asked for %q: %v", c.asked, err)
		}
		for range 2 {
			_, err := Open(dir, Options{Cell: "test", LogStore: c.other})
			if !errors.Is(err, ErrOtherLog) || !contains(err, string(c.has)) || !contains(err, string(c.other)) {
				t.Errorf("asked for %q, and then for %q: %v", c.asked, c.other, err)
			}
		}
		for _, kind := range []LogStore{"", c.has} {
			s = mustOpen(t, dir, Options{LogStore: kind})
			if last, _ := s.Logs().LastIndex(); last != 20 {
				t.Errorf("asked for %q, and then for %q: the log ends at %d", c.asked, kind, last)
			}
			must(t, s.Close())
		}
		data, err := os.ReadFile(filepath.Join(dir, identityFile))
		must(t, err)
		var id identity
		if version, err := unframe(data, identityFile, c.version, &id); version != c.version || err != nil {
			t.Errorf("asked for %q: the identity has version %d, %v", c.asked, version, err)
		}
	}
	if _, err := Open(t.TempDir(), Options{Cell: "test", LogStore: "other"}); !contains(err, `"other"`) {
		t.Errorf("another kind: %v", err)
	}
}

// TestG11_OlderProgramsRefuseSegments: one that knows only the log in bbolt would find none there, and forget what it has
// acknowledged.
func TestG11_OlderProgramsRefuseSegments(t *testing.T) {
	dir := t.TempDir()
	must(t, mustOpen(t, dir, Options{}).Close())
	data, err := os.ReadFile(filepath.Join(dir, identityFile))
	must(t, err)
	if _, err := unframe(data, identityFile, 1, new(identity)); !errors.Is(err, ErrNewer) {
		t.Errorf("a program that reads version 1 says %v", err)
	}
}

// TestG11_DamagedSegment flips bits, and fills pages, in a log of which all has been synced. Each is either refused, with
// the name of the file, or makes no difference. Only a last page that is zero again passes: so it would look had the
// power failed before.
func TestG11_DamagedSegment(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	must(t, s.Stable().SetUint64([]byte(keyTerm), 2))
	for i := uint64(1); i <= 400; i += 20 {
		must(t, s.Logs().StoreLogs(entries(i, i+19, 2)))
	}
	must(t, s.Close())
	path := filepath.Join(dir, logDir, "00000001.log")
	whole, err := os.ReadFile(path)
	must(t, err)
	used := len(bytes.TrimRight(whole, "\x00"))
	refused, tries := 0, 0
	try := func(what string, data []byte) {
		tries++
		must(t, os.WriteFile(path, data, 0o600))
		again, err := Open(dir, Options{Cell: "test"})
		if err != nil {
			if !errors.Is(err, ErrDamaged) || !contains(err, "00000001.log") {
				t.Error(err)
			}
			refused++
			return
		}
		for i := uint64(1); i <= 400; i++ {
			var e raft.Log
			if err := again.Logs().GetLog(i, &e); err != nil {
				t.Fatalf("%s: entry %d: %v", what, i, err)
			}
			if string(e.Data) != string(entry(i, 2).Data) {
				t.Errorf("entry %d is %q", i, e.Data)
			}
		}
		must(t, again.Switch().Err())
		must(t, again.Close())
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		data, at := bytes.Clone(whole), random.IntN(used)
		data[at] ^= 1 << random.IntN(8)
		try(fmt.Sprintf("byte %d of %d", at, used), data)
	}
	for _, fill := range []byte{0, 0xff} {
		for at := 0; at < used; at += 4096 {
			if fill == 0 && at+4096 >= used {
				continue
			}
			data := bytes.Clone(whole)
			copy(data[at:min(at+4096, used)], bytes.Repeat([]byte{fill}, 4096))
			try(fmt.Sprintf("%x from %d of %d", fill, at, used), data)
		}
	}
	t.Logf("%d of %d refused", refused, tries)
	if refused < tries*8/10 {
		t.Error("too little was noticed")
	}
}

// TestG11_DamagedEntryIsFound: an entry that is damaged while the log is open is a failure, not an entry.
func TestG11_DamagedEntryIsFound(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	fill(t, s)
	path := filepath.Join(dir, logDir, "00000001.log")
	data, err := os.ReadFile(path)
	must(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("?"), int64(bytes.Index(data, []byte("entry 7 of term"))))
	must(t, errors.Join(err, f.Close()))
	must(t, s.Logs().GetLog(7, new(raft.Log)))
	wantTripped(t, s, ErrDamaged)
	must(t, s.Close())
	if _, err := Open(dir, Options{Cell: "test"}); !errors.Is(err, ErrRetired) {
		t.Errorf("Open says %v", err)
	}
}
