package seglog

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"slices"
	"syscall"
)

// disk is a directory that keeps what was written apart from what was synced. A crash leaves of each sector any version
// since the last sync, and of the directory any of the changes since.
type disk struct {
	names   map[string]*data // what the system would list
	synced  map[string]*data
	order   []string     // names that were created or removed since the last sync, each once
	ops     int          // writes, syncs, and changes of the directory so far
	at      func(op int) // if not nil, called after each
	fail    func(op int) error
	room    int // bytes that may still be added to files; -1 is no limit
	handles int // that are open
}

type data struct {
	now     []byte           // what the system would read
	durable []byte           // what was synced
	dirty   map[int][][]byte // by sector: what has been written since, oldest first; a version may be empty: the file ended before it
}

func newDisk() *disk {
	return &disk{names: map[string]*data{}, synced: map[string]*data{}, room: -1}
}

func (d *disk) op() error {
	d.ops++
	if d.fail != nil {
		if err := d.fail(d.ops); err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) done() {
	if d.at != nil {
		d.at(d.ops)
	}
}

func (d *disk) path(name string) string { return "disk/" + name }

func (d *disk) list() ([]string, error) { return slices.Sorted(maps.Keys(d.names)), nil }

func (d *disk) create(name string) (file, error) {
	if d.names[name] != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	}
	if err := d.op(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer d.done()
	d.names[name] = &data{dirty: map[int][][]byte{}}
	d.touch(name)
	return d.open(name)
}

func (d *disk) touch(name string) {
	if !slices.Contains(d.order, name) {
		d.order = append(d.order, name)
	}
}

func (d *disk) open(name string) (file, error) {
	f := d.names[name]
	if f == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	d.handles++
	return &handle{d: d, f: f, name: name}, nil
}

func (d *disk) remove(name string) error {
	if err := d.op(); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	defer d.done()
	delete(d.names, name)
	d.touch(name)
	return nil
}

func (d *disk) sync() error {
	if err := d.op(); err != nil {
		return &fs.PathError{Op: "sync", Path: "", Err: err}
	}
	defer d.done()
	d.synced, d.order = maps.Clone(d.names), nil
	return nil
}

type handle struct {
	d      *disk
	f      *data
	name   string
	closed bool
}

func (h *handle) size() (int64, error) { return int64(len(h.f.now)), nil }

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	if h.closed {
		return 0, fs.ErrClosed
	}
	if off >= int64(len(h.f.now)) {
		return 0, io.EOF
	}
	n := copy(p, h.f.now[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt with too little room writes what there is room for.
func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	if h.closed {
		return 0, fs.ErrClosed
	}
	err := h.d.op()
	if err != nil {
		p = p[:len(p)/2] // a write that fails may have done a part of its work
		err = &fs.PathError{Op: "write", Path: h.name, Err: err}
	}
	if grow := int(off) + len(p) - len(h.f.now); grow > 0 && h.d.room >= 0 {
		if grow > h.d.room {
			p, err = p[:max(0, len(p)-(grow-h.d.room))], &fs.PathError{Op: "write", Path: h.name, Err: syscall.ENOSPC}
		}
		h.d.room -= min(grow, h.d.room)
	}
	h.f.write(p, int(off))
	if err == nil {
		h.d.done()
	}
	return len(p), err
}

// Truncate takes no room: the file has a hole.
func (h *handle) Truncate(size int64) error {
	if err := h.d.op(); err != nil {
		return &fs.PathError{Op: "truncate", Path: h.name, Err: err}
	}
	h.f.write(make([]byte, size-int64(len(h.f.now))), len(h.f.now))
	h.d.done()
	return nil
}

func (h *handle) sync() error {
	if h.closed {
		return fs.ErrClosed
	}
	if err := h.d.op(); err != nil {
		return &fs.PathError{Op: "sync", Path: h.name, Err: err}
	}
	h.f.durable, h.f.dirty = bytes.Clone(h.f.now), map[int][][]byte{}
	h.d.done()
	return nil
}

func (h *handle) Close() error {
	if h.closed {
		return fs.ErrClosed
	}
	h.closed = true
	h.d.handles--
	return nil
}

func (f *data) write(p []byte, off int) {
	if len(p) == 0 {
		return
	}
	if n := off + len(p); n > len(f.now) {
		f.now = append(f.now, make([]byte, n-len(f.now))...)
	}
	copy(f.now[off:], p)
	for s := off / sectorSize; s <= (off+len(p)-1)/sectorSize; s++ {
		end := min((s+1)*sectorSize, len(f.now))
		f.dirty[s] = append(f.dirty[s], bytes.Clone(f.now[s*sectorSize:end]))
	}
}

// crash returns what a power cut may leave. pick chooses among n possibilities; it is called in a fixed order.
func (d *disk) crash(pick func(n int) int) *disk {
	c := newDisk()
	left := maps.Clone(d.synced)
	for _, name := range d.order {
		if pick(2) == 0 {
			continue
		}
		if now := d.names[name]; now != nil {
			left[name] = now
		} else {
			delete(left, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		f := left[name]
		now := bytes.Clone(f.durable)
		for _, s := range slices.Sorted(maps.Keys(f.dirty)) {
			n := pick(len(f.dirty[s]) + 1)
			if n == 0 {
				continue
			}
			version := f.dirty[s][n-1]
			if end := s*sectorSize + len(version); end > len(now) {
				now = append(now, make([]byte, end-len(now))...)
			}
			copy(now[s*sectorSize:], version)
		}
		c.names[name] = &data{now: now, durable: bytes.Clone(now), dirty: map[int][][]byte{}}
	}
	c.synced = maps.Clone(c.names)
	return c
}

// kill returns what the end of the process leaves: everything that was written. What was not synced can still be lost.
func (d *disk) kill() *disk {
	c := newDisk()
	copied := map[*data]*data{}
	for _, names := range []struct{ from, to map[string]*data }{{d.names, c.names}, {d.synced, c.synced}} {
		for name, f := range names.from {
			if copied[f] == nil {
				dirty := map[int][][]byte{}
				for s, versions := range f.dirty {
					dirty[s] = slices.Clone(versions)
				}
				copied[f] = &data{now: bytes.Clone(f.now), durable: bytes.Clone(f.durable), dirty: dirty}
			}
			names.to[name] = copied[f]
		}
	}
	c.order, c.ops = slices.Clone(d.order), d.ops
	return c
}
