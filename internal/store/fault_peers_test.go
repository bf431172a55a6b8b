package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// What users of other systems ran into, where it can be shown on the store alone. docs/FAULTS.md has the table.

// Saw: after a burst the file is full of free pages, and each small write writes the list of all of them as well.
// Here: a write costs the same after a burst as before it.
func TestFault_boltdb640_WritesAfterABurst(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{LogStore: LogBolt})
	must(t, s.Stable().SetUint64([]byte(keyTerm), 1))
	last := uint64(0)
	store := func(entries, size int) {
		batch := make([]*raft.Log, entries)
		for i := range batch {
			last++
			batch[i] = &raft.Log{Index: last, Term: 1, Data: bytes.Repeat([]byte{1}, size)}
		}
		must(t, s.Logs().StoreLogs(batch))
	}
	perWrite := func() int64 {
		const writes = 20
		stats := s.v.(*directory).bolt.Stats()
		before := stats.TxStats.GetPageAlloc()
		for range writes {
			store(1, 100)
		}
		stats = s.v.(*directory).bolt.Stats()
		return (stats.TxStats.GetPageAlloc() - before) / writes
	}
	store(100, 4000)
	before := perWrite()
	for range 10 {
		store(500, 4000)
	}
	must(t, s.Logs().DeleteRange(1, last-100))
	after := perWrite()
	must(t, s.Switch().Err())
	if before == 0 || after > before+int64(2*os.Getpagesize()) {
		t.Errorf("%d bytes a write, %d before the burst", after, before)
	}
}

// Saw: a page of the file is damaged, and the server panics at each start, for ever, saying nothing that helps.
// Here: whichever page it is, opening ends with an error that names the file; the same directory as it was is fine.
func TestFault_vault28626_DamagedPage(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{LogStore: LogBolt})
	must(t, s.Stable().SetUint64([]byte(keyTerm), 2))
	must(t, s.Logs().StoreLogs(entries(1, 300, 2)))
	must(t, s.Close())
	path := filepath.Join(dir, raftFile)
	whole, err := os.ReadFile(path)
	must(t, err)
	pages := livePages(t, path)
	size := uint64(os.Getpagesize())
	for _, fill := range []byte{0, 0xff} {
		for _, page := range pages {
			data := bytes.Clone(whole)
			copy(data[page*size:], bytes.Repeat([]byte{fill}, int(size)))
			must(t, os.WriteFile(path, data, 0o600))
			if again, err := Open(dir, Options{Cell: "test"}); err == nil {
				must(t, again.Close())
				t.Errorf("page %d is full of %x, and nobody minds", page, fill)
			} else if !errors.Is(err, ErrDamaged) || !contains(err, "raft.db") {
				t.Errorf("page %d: %v", page, err)
			}
		}
	}
	must(t, os.WriteFile(path, whole, 0o600))
	s = mustOpen(t, dir, Options{})
	if last, _ := s.Logs().LastIndex(); last != 300 || len(pages) < 4 {
		t.Errorf("the log ends at %d; %d pages", last, len(pages))
	}
}
