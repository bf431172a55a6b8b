package seglog

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"

	"github.com/hashicorp/raft"
)

// Options of a Log.
type Options struct {
	Exists      bool                    // the log was there before: if it is not, it is damaged
	SyncDir     func(path string) error // puts the entries of a directory on the disk
	SegmentSize int64                   // after which a new segment is begun; 0 is 64 MiB
	Step        int                     // bytes by which a segment grows, a multiple of 512 from 1024 on; 0 is 1 MiB
	Logger      *slog.Logger            // nil is silent
}

const (
	defaultSegment = 64 << 20
	defaultStep    = 1 << 20
	maxWrite       = 16 << 20 // bytes of entries in one frame, if it has more than one
	keptBuffer     = 2 << 20  // larger ones are not kept for the next write
)

// Log is a raft.LogStore. Reads are safe for concurrent use with each other and with one write at a time. Entries follow
// each other without gaps, and are removed from either end only.
type Log struct {
	opts Options
	dir  files

	// Of who writes.
	number uint64 // of the next frame
	buf    []byte
	failed error

	mu       sync.RWMutex
	segments []*segment // with consecutive numbers, oldest first; the last is written to
	span     span
}

// Open reads the whole log of the directory, which must exist, and finishes what a crash interrupted. Errors are
// ErrDamaged, ErrNewer, and those of the operating system.
func Open(dir string, opts Options) (*Log, error) { return open(folder{dir, opts.SyncDir}, opts) }

func open(dir files, opts Options) (*Log, error) {
	if opts.SegmentSize == 0 {
		opts.SegmentSize = defaultSegment
	}
	if opts.Step == 0 {
		opts.Step = defaultStep
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{opts: opts, dir: dir, number: 1, span: span{first: 1}}
	err := l.recover()
	if err == nil {
		err = l.drop()
	}
	if err != nil {
		l.failed = err
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// FirstIndex is 0 for an empty log.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.span.empty() {
		return 0, nil
	}
	return l.span.first, nil
}

// LastIndex is 0 for an empty log.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.span.last, nil
}

// GetLog returns raft.ErrLogNotFound for an entry that the log does not hold. The lock is held while it reads, so that
// the file is not closed meanwhile.
func (l *Log) GetLog(index uint64, out *raft.Log) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	p, ok := l.span.place(index)
	if !ok {
		return raft.ErrLogNotFound
	}
	s := l.segments[uint64(p.segment)-l.segments[0].Segment]
	b := make([]byte, p.size)
	if _, err := s.f.ReadAt(b, int64(p.at)); err != nil {
		return err
	}
	e, err := decodeEntry(b, index, s.Salt)
	if err != nil {
		return fmt.Errorf("%s, byte %d: %w", s.path, p.at, err)
	}
	*out = e
	return nil
}

func (l *Log) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs appends entries. They are on the disk when it returns nil. After a crash all of them are there or none, or,
// of a batch of more than 16 MiB, the first ones.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	for len(entries) > 0 {
		n, size := 1, sizeOf(entries[0])
		for n < len(entries) && size+sizeOf(entries[n]) <= maxWrite {
			size += sizeOf(entries[n])
			n++
		}
		if size > maxPayload {
			return fmt.Errorf("entry %d has %d bytes, the limit is %d", entries[0].Index, size, maxPayload)
		}
		if err := l.store(entries[:n], size); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// store writes one frame of entries, which have this size.
func (l *Log) store(entries []*raft.Log, size int) error {
	first, last := entries[0].Index, entries[len(entries)-1].Index
	for i, e := range entries {
		if e.Index != first+uint64(i) || first == 0 || !l.span.empty() && first != l.span.last+1 {
			return fmt.Errorf("entry %d does not follow", e.Index)
		}
	}
	s, err := l.active()
	if err != nil {
		return err
	}
	buf := newFrame(l.buf, size)
	places := make([]place, len(entries))
	for i, e := range entries {
		places[i] = place{uint32(s.Segment), uint32(s.end) + uint32(len(buf)), uint32(sizeOf(e))}
		buf = appendEntry(buf, e, s.Salt)
	}
	if err := l.write(s, frame{Kind: frameEntries, First: first, Last: last}, buf); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.span.append(first, places)
}

// DeleteRange removes the entries from lo to hi, which must be one end of the log, or all of it. They are gone for good
// when it returns nil.
func (l *Log) DeleteRange(lo, hi uint64) error {
	first, last := l.span.first, l.span.last
	switch {
	case l.span.empty() || lo > hi || hi < first || lo > last:
		return nil
	case lo <= first && hi >= last:
		first, last = 1, 0
	case lo <= first:
		first = hi + 1
	case hi >= last:
		last = lo - 1
	default:
		return fmt.Errorf("entries %d to %d are in the middle of the log, which is %d to %d", lo, hi, first, last)
	}
	s, err := l.active()
	if err != nil {
		return err
	}
	if err := l.write(s, frame{Kind: frameKeep, First: first, Last: last}, newFrame(l.buf, 0)); err != nil {
		return err
	}
	l.mu.Lock()
	err = l.span.keep(first, last)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.drop()
}

// Close ends the use of the files, which no other call may use any more. Without a failure before, everything is on the
// disk, the last mark included.
func (l *Log) Close() error {
	var errs []error
	if n := len(l.segments); n > 0 && l.failed == nil {
		errs = append(errs, l.segments[n-1].f.sync())
	}
	for _, s := range l.segments {
		errs = append(errs, s.f.Close())
	}
	return errors.Join(errs...)
}

// active is the segment to write to, a new one if the last is full.
func (l *Log) active() (*segment, error) {
	if l.failed != nil {
		return nil, l.failed
	}
	s := l.segments[len(l.segments)-1]
	if s.end < l.opts.SegmentSize {
		return s, nil
	}
	next, err := l.create(s.Segment+1, l.number+1)
	if err != nil {
		return nil, err
	}
	return next, l.write(s, frame{Kind: frameSeal}, newFrame(l.buf, 0))
}

// create begins a segment whose first frame will have this number.
func (l *Log) create(segment, number uint64) (s *segment, err error) {
	s, l.failed = createSegment(l.dir, header{
		Salt: rand.Uint32(), Segment: segment, Number: number, First: l.span.first, Last: l.span.last, Step: uint32(l.opts.Step),
	})
	if l.failed != nil {
		return nil, l.failed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = append(l.segments, s)
	return s, nil
}

// write completes a frame, whose payload is in buf, and writes it.
func (l *Log) write(s *segment, f frame, buf []byte) error {
	f.Number = l.number
	buf = f.finish(buf, s.Salt)
	if l.buf = buf; cap(buf) > keptBuffer {
		l.buf = nil
	}
	l.failed = s.write(f.Number, buf)
	l.number++
	return l.failed
}

// drop removes the segments before that of the oldest entry, the oldest first, each for good before the next.
func (l *Log) drop() error {
	l.mu.Lock()
	keep := l.segments[len(l.segments)-1].Segment
	if !l.span.empty() {
		keep = uint64(l.span.places[0].segment)
	}
	n := keep - l.segments[0].Segment
	dropped := l.segments[:n]
	l.segments = l.segments[n:]
	l.mu.Unlock()
	for _, s := range dropped {
		if err := l.remove(s, s.Segment); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) remove(s *segment, number uint64) error {
	l.failed = errors.Join(s.f.Close(), l.dir.remove(segmentName(number)), l.dir.sync())
	return l.failed
}
