package store

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

// TestG11_RealFullDisk fills a file system of 2 MiB. What was acknowledged is there when room has been made.
func TestG11_RealFullDisk(t *testing.T) {
	t.Run("segments", func(t *testing.T) { testRealFullDisk(t, LogSegments) })
	t.Run("bolt", func(t *testing.T) { testRealFullDisk(t, LogBolt) })
}

func testRealFullDisk(t *testing.T, kind LogStore) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("no file system can be mounted:", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	s := mustOpen(t, dir, Options{LogStore: kind})
	must(t, s.Stable().SetUint64([]byte(keyTerm), 1))
	var stored uint64
	for s.Switch().Err() == nil && stored < 1000 {
		must(t, s.Logs().StoreLog(&raft.Log{Index: stored + 1, Term: 1, Data: bytes.Repeat([]byte{1}, 50_000)}))
		if s.Switch().Err() == nil {
			stored++
		}
	}
	wantTripped(t, s, syscall.ENOSPC)
	must(t, s.Close())
	if again, err := Open(dir, Options{Cell: "test"}); err == nil {
		must(t, again.Close()) // there was room enough for that
	} else if errors.Is(err, ErrRetired) || errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	must(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=8m"))
	s = mustOpen(t, dir, Options{})
	if last, _ := s.Logs().LastIndex(); last != stored {
		t.Errorf("the log ends at %d, acknowledged were %d", last, stored)
	}
	must(t, s.Logs().StoreLog(&raft.Log{Index: stored + 1, Term: 1, Data: []byte("more")}))
	must(t, s.Switch().Err())
	must(t, s.Close())
}
