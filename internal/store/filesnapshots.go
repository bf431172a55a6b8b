package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

// keepSnapshots is how many raft keeps. Only the newest is of use; the other is there while a new one is written.
const keepSnapshots = 2

// fileSnapshots are raft's snapshots in files, whose directory entries are on the disk too.
type fileSnapshots struct {
	*raft.FileSnapshotStore
	dir string
}

// Create syncs the directory of the new snapshot, in which all its files exist by now. raft syncs their contents, and
// the directory that it is renamed in, but not this one.
func (f *fileSnapshots) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := f.FileSnapshotStore.Create(v, index, term, c, ci, t)
	if err != nil {
		return nil, err
	}
	if err := syncDir(filepath.Join(f.dir, sink.ID()+tempSuffix)); err != nil {
		return nil, err
	}
	return sink, nil
}

// sweepSnapshots removes snapshots that were not finished, or not removed completely. Whatever is newer than the newest
// that can be read was finished once, and is damaged.
func (d *directory) sweepSnapshots(files *raft.FileSnapshotStore) error {
	metas, err := files.List()
	if err != nil {
		return fmt.Errorf("%s: %w", d.path(snapshotDir), err)
	}
	readable := make(map[string]bool)
	var newest snapshotName
	for i, m := range metas {
		readable[m.ID] = true
		if i == 0 {
			newest, _ = parseSnapshotName(m.ID)
		}
	}
	entries, err := os.ReadDir(d.path(snapshotDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(d.path(snapshotDir), e.Name())
		name, ok := parseSnapshotName(strings.TrimSuffix(e.Name(), tempSuffix))
		switch {
		case !ok || readable[e.Name()]:
			continue
		case !strings.HasSuffix(e.Name(), tempSuffix) && newest.before(name):
			return fmt.Errorf("%w: %s cannot be read", ErrDamaged, path)
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// snapshotName is what raft calls the directory of a snapshot: TERM-INDEX-MILLISECONDS.
type snapshotName struct{ term, index, ms uint64 }

func parseSnapshotName(s string) (n snapshotName, ok bool) {
	parts := strings.Split(s, "-")
	if len(parts) != 3 {
		return n, false
	}
	for i, to := range []*uint64{&n.term, &n.index, &n.ms} {
		v, err := strconv.ParseUint(parts[i], 10, 64)
		if err != nil {
			return n, false
		}
		*to = v
	}
	return n, true
}

func (n snapshotName) before(o snapshotName) bool {
	if n.term != o.term {
		return n.term < o.term
	}
	if n.index != o.index {
		return n.index < o.index
	}
	return n.ms < o.ms
}
