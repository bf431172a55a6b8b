package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// Disk is a disk in memory, which one Store at a time can open. It outlives the Store. Safe for concurrent use.
type Disk struct {
	mu       sync.Mutex
	faults   Faults
	mounted  bool
	live     *image         // what the operating system would read
	durable  *image         // what a power cut leaves; the same as live unless syncs can fail
	unsynced []func(*image) // whose syncs lied
	batch    []*raft.Log    // that is being written
	made     uint64         // snapshots so far, for their names
}

// image is the contents of a disk. What it points to is never changed.
type image struct {
	files     map[string][]byte
	values    map[string][]byte
	snapshots []*memSnapshot // oldest first

	entries     map[uint64]*raft.Log
	first, last uint64
}

type memSnapshot struct {
	meta raft.SnapshotMeta
	data []byte
	sum  uint32
}

// NewDisk is an empty disk.
func NewDisk() *Disk {
	d := &Disk{live: &image{files: map[string][]byte{}, values: map[string][]byte{}, entries: map[uint64]*raft.Log{}}}
	d.durable = d.live
	return d
}

// Crash returns a copy of what the disk holds at this moment: after the end of the process, which leaves everything that
// was written, or after a power cut, which leaves only what was synced. The disk itself is not changed.
func (d *Disk) Crash(powerCut bool) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	from := d.live
	if powerCut {
		from = d.durable
	}
	c := &Disk{live: from.clone(), made: d.made}
	c.durable = c.live
	return c
}

// Flip changes one bit of what the disk holds: in the data of an entry of the log or in a snapshot, as n says. It
// reports whether there was anything to change.
func (d *Disk) Flip(n uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	images := []*image{d.live}
	if d.durable != d.live {
		images = append(images, d.durable)
	}
	flipped := false
	for _, m := range images {
		flipped = m.flip(n) || flipped
	}
	return flipped
}

func (m *image) flip(n uint64) bool {
	flip := func(data []byte) []byte {
		data = bytes.Clone(data)
		data[n%uint64(len(data))] ^= 1 << (n % 8)
		return data
	}
	if count := uint64(len(m.snapshots)); count > 0 && n%4 == 0 {
		newest := *m.snapshots[count-1] // an older one is never read again
		if len(newest.data) == 0 {
			return false
		}
		newest.data = flip(newest.data)
		m.snapshots = slices.Clone(m.snapshots)
		m.snapshots[count-1] = &newest
		return true
	}
	if m.last < m.first || m.first == 0 {
		return false
	}
	e := m.entries[m.first+n%(m.last-m.first+1)]
	if e == nil || len(e.Data) == 0 {
		return false
	}
	e = copyLog(e)
	e.Data = flip(e.Data)
	m.entries = maps.Clone(m.entries)
	m.entries[e.Index] = e
	return true
}

// Tear is Crash in the midst of the write of a batch of entries, power lost: what was synced is left, and the first n of
// the entries that are being written, as far as there are so many.
func (d *Disk) Tear(n int) *Disk {
	c := d.Crash(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	c.live.store(d.batch[:min(n, len(d.batch))])
	return c
}

func (m *image) clone() *image {
	c := *m
	c.files, c.values, c.entries = maps.Clone(m.files), maps.Clone(m.values), maps.Clone(m.entries)
	c.snapshots = slices.Clone(m.snapshots)
	return &c
}

func (d *Disk) mount(f Faults) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mounted {
		return fmt.Errorf("%w: the disk in memory is open", ErrDirInUse)
	}
	d.mounted, d.faults = true, f
	if f.Sync != nil && d.live == d.durable {
		d.durable = d.live.clone()
	}
	return nil
}

// change applies a write, and syncs. What a sync has failed for never gets to the disk; what a sync lied about does with
// the next one that works.
func (d *Disk) change(op Op, apply func(*image)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	apply(d.live)
	if d.durable == d.live {
		return nil
	}
	if sync := d.faults.Sync; sync != nil {
		d.mu.Unlock()
		err := sync(op)
		d.mu.Lock()
		if errors.Is(err, ErrSyncLost) {
			d.unsynced = append(d.unsynced, apply)
			return nil
		}
		if err != nil {
			return &fs.PathError{Op: "sync", Path: d.path(string(op)), Err: err}
		}
	}
	for _, earlier := range d.unsynced {
		earlier(d.durable)
	}
	d.unsynced = nil
	apply(d.durable)
	return nil
}

func (d *Disk) path(name string) string { return "memory:" + name }

func (d *Disk) read(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	data, ok := d.live.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: d.path(name), Err: fs.ErrNotExist}
	}
	return data, nil
}

func (d *Disk) write(op Op, name string, data []byte) error {
	return d.change(op, func(m *image) { m.files[name] = data })
}

func (d *Disk) hasRaft() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.live.entries)+len(d.live.values)+len(d.live.snapshots) > 0 {
		return d.path(raftFile)
	}
	return ""
}

func (d *Disk) openRaft(identity, *Options) (raft.LogStore, string, values, error) {
	return d, raftFile, d, nil
}

func (d *Disk) openSnapshots() (raft.SnapshotStore, error) { return memSnapshots{d}, nil }

func (d *Disk) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mounted = false
	return nil
}

// Set and Get are the ballot's.
func (d *Disk) Set(key, value []byte) error {
	value = bytes.Clone(value)
	return d.change(OpSetVote, func(m *image) { m.values[string(key)] = value })
}

func (d *Disk) Get(key []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.live.values[string(key)]
	if !ok {
		return nil, errNotFound
	}
	return bytes.Clone(v), nil
}

func (d *Disk) FirstIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.live.first, nil
}

func (d *Disk) LastIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.live.last, nil
}

func (d *Disk) GetLog(index uint64, out *raft.Log) error {
	d.mu.Lock()
	e := d.live.entries[index]
	d.mu.Unlock()
	if e == nil {
		return raft.ErrLogNotFound
	}
	*out = *copyLog(e)
	return nil
}

func (d *Disk) StoreLog(e *raft.Log) error { return d.StoreLogs([]*raft.Log{e}) }

// StoreLogs keeps copies: in one process, raft's transport in memory hands the same entries to several servers.
func (d *Disk) StoreLogs(entries []*raft.Log) error {
	copies := make([]*raft.Log, len(entries))
	for i, e := range entries {
		copies[i] = copyLog(e)
	}
	d.writing(copies)
	defer d.writing(nil)
	return d.change(OpStoreLogs, func(m *image) { m.store(copies) })
}

func (d *Disk) writing(batch []*raft.Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.batch = batch
}

func (m *image) store(entries []*raft.Log) {
	for _, e := range entries {
		m.entries[e.Index] = e
		if m.first == 0 {
			m.first = e.Index
		}
		m.last = max(m.last, e.Index)
	}
}

func (d *Disk) DeleteRange(lo, hi uint64) error {
	return d.change(OpDeleteLogs, func(m *image) {
		for i := max(lo, m.first); i <= min(hi, m.last) && m.last != 0; i++ {
			delete(m.entries, i)
		}
		switch {
		case len(m.entries) == 0:
			m.first, m.last = 0, 0
		case lo <= m.first:
			m.first = max(m.first, hi+1)
		case hi >= m.last:
			m.last = min(m.last, lo-1)
		}
	})
}

func copyLog(e *raft.Log) *raft.Log {
	c := *e
	c.Data, c.Extensions = bytes.Clone(e.Data), bytes.Clone(e.Extensions)
	return &c
}

// memSnapshots are the snapshots of a Disk.
type memSnapshots struct{ d *Disk }

func (s memSnapshots) List() ([]*raft.SnapshotMeta, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	var metas []*raft.SnapshotMeta
	for _, snap := range slices.Backward(s.d.live.snapshots) {
		meta := snap.meta
		metas = append(metas, &meta)
	}
	return metas, nil
}

func (s memSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	for _, snap := range s.d.live.snapshots {
		if snap.meta.ID != id {
			continue
		}
		if sum := crc32.Checksum(snap.data, castagnoli); sum != snap.sum {
			return nil, nil, fmt.Errorf("%w: checksum %08x, not %08x", ErrDamaged, sum, snap.sum)
		}
		meta := snap.meta
		return &meta, io.NopCloser(bytes.NewReader(snap.data)), nil
	}
	return nil, nil, &fs.PathError{Op: "open", Path: s.d.path(id), Err: fs.ErrNotExist}
}

func (s memSnapshots) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.made++
	return &memSink{d: s.d, snap: memSnapshot{meta: raft.SnapshotMeta{
		Version: v, ID: fmt.Sprintf("%d-%d-%d", term, index, s.d.made), Index: index, Term: term, Configuration: c.Clone(), ConfigurationIndex: ci,
	}}}, nil
}

type memSink struct {
	d    *Disk
	snap memSnapshot
}

func (s *memSink) ID() string { return s.snap.meta.ID }

func (s *memSink) Write(p []byte) (int, error) {
	s.snap.data = append(s.snap.data, p...)
	return len(p), nil
}

// Close puts the snapshot among the others, and drops those that are too old.
func (s *memSink) Close() error {
	s.snap.meta.Size = int64(len(s.snap.data))
	s.snap.sum = crc32.Checksum(s.snap.data, castagnoli)
	snap := s.snap
	return s.d.change(OpCloseSnapshot, func(m *image) {
		all := append(slices.Clone(m.snapshots), &snap)
		slices.SortStableFunc(all, func(a, b *memSnapshot) int { return compareSnapshots(a.meta, b.meta) })
		m.snapshots = all[max(0, len(all)-keepSnapshots):]
	})
}

func (s *memSink) Cancel() error { return nil }

func compareSnapshots(a, b raft.SnapshotMeta) int {
	if c := cmp.Compare(a.Term, b.Term); c != 0 {
		return c
	}
	return cmp.Compare(a.Index, b.Index)
}
