package seglog

import (
	"fmt"
	"slices"
)

// recover reads all segments. What it leaves is as if the last write had been finished, or not been begun.
func (l *Log) recover() error {
	numbers, err := l.find()
	if err != nil {
		return err
	}
	for i, number := range numbers {
		sealed, err := l.replay(number, i == len(numbers)-1)
		if err != nil {
			return fmt.Errorf("%s: %w", l.dir.path(segmentName(number)), err)
		}
		if sealed && i == len(numbers)-1 {
			return fmt.Errorf("%w: %s is missing", ErrDamaged, l.dir.path(segmentName(number+1)))
		}
		if !sealed && i < len(numbers)-1 {
			if err := l.discard(numbers[i+1:]); err != nil {
				return err
			}
			break
		}
	}
	if l.span.missing() {
		return fmt.Errorf("%w: the log is from %d to %d, and of its entries the first %d are missing: they were in %s, or before",
			ErrDamaged, l.span.first, l.span.last, l.span.last-l.span.first+1-uint64(len(l.span.places)), l.dir.path(segmentName(numbers[0]-1)))
	}
	if len(l.segments) > 0 {
		return l.settle()
	}
	_, err = l.create(1, l.number)
	return err
}

// settle puts on the disk what has been read. The process may have ended between a write and its sync, and the operating
// system gives what it has in memory: the last frame, which may be the end of the last segment but one, and a change of
// the directory.
func (l *Log) settle() error {
	for _, s := range l.segments[max(0, len(l.segments)-2):] {
		if err := s.f.sync(); err != nil {
			return err
		}
		if s.end == sectorSize {
			continue // no frame yet
		}
		if err := s.mark(l.lastIn(s)); err != nil {
			return err
		}
	}
	return l.dir.sync()
}

// lastIn is the number of the last frame of s.
func (l *Log) lastIn(s *segment) uint64 {
	if i := int(s.Segment - l.segments[0].Segment + 1); i < len(l.segments) {
		return l.segments[i].Number - 1
	}
	return l.number - 1
}

// find lists the segments, which must have consecutive numbers.
func (l *Log) find() (numbers []uint64, err error) {
	names, err := l.dir.list()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if n, ok := parseSegmentName(name); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != numbers[0]+uint64(i) {
			return nil, fmt.Errorf("%w: %s is missing", ErrDamaged, l.dir.path(segmentName(n-1)))
		}
	}
	if len(numbers) == 0 && l.opts.Exists {
		return nil, fmt.Errorf("%w: %s is missing, or has no segment", ErrDamaged, l.dir.path(""))
	}
	return numbers, nil
}

// replay reads a segment from end to end, and reports whether the next one goes on.
func (l *Log) replay(number uint64, newest bool) (sealed bool, err error) {
	s, data, err := l.load(number)
	if err != nil {
		return false, err
	}
	l.segments = append(l.segments, s)
	s.header, err = decodeHeader(data, number)
	beingMade := number == 1 && newest && !l.opts.Exists && (err != nil || s.size < int64(s.Step))
	switch {
	case beingMade && blank(data): // nothing has ever been stored
		return false, l.discardLast(number)
	case err != nil:
		return false, err
	case len(l.segments) == 1:
		l.number, l.span = s.Number, span{first: s.First, last: s.Last}
	case s.Number != l.number || s.First != l.span.first || s.Last != l.span.last:
		return false, fmt.Errorf("%w: it begins with write %d and a log from %d to %d, but the segment before it ends with write %d and a log from %d to %d",
			ErrDamaged, s.Number, s.First, s.Last, l.number-1, l.span.first, l.span.last)
	}
	s.end = sectorSize
	for !sealed {
		f, ok := decodeFrame(data[s.end:], s.Salt)
		if !ok {
			return false, l.endAt(s, data, 0)
		}
		rest := data[s.end+frameSize:]
		if f.Number != l.number || f.length()-frameSize > len(rest) {
			return false, fmt.Errorf("%w: at byte %d is write %d of %d bytes; expected was write %d, and %d bytes are there",
				ErrDamaged, s.end, f.Number, f.length(), l.number, len(rest)+frameSize)
		}
		payload := rest[:f.Size]
		if sum(s.Salt, payload) != f.Sum {
			return false, l.endAt(s, data, f.length()-markSize)
		}
		if err := l.apply(s, f, payload); err != nil {
			return false, fmt.Errorf("write %d at byte %d: %w", f.Number, s.end, err)
		}
		s.end += int64(f.length())
		l.number++
		sealed = f.Kind == frameSeal
	}
	return true, nil
}

// load opens a segment and reads all of it.
func (l *Log) load(number uint64) (*segment, []byte, error) {
	f, err := l.dir.open(segmentName(number))
	if err != nil {
		return nil, nil, err
	}
	s := &segment{f: f, path: l.dir.path(segmentName(number))}
	if s.size, err = f.size(); err == nil {
		data := make([]byte, s.size)
		if _, err = f.ReadAt(data, 0); err == nil || len(data) == 0 {
			return s, data, nil
		}
	}
	f.Close()
	return nil, nil, err
}

// apply does what a frame says.
func (l *Log) apply(s *segment, f frame, payload []byte) error {
	switch f.Kind {
	case frameKeep:
		return l.span.keep(f.First, f.Last)
	case frameSeal:
		return nil
	}
	var places []place
	for at := 0; at < len(payload); {
		n := entryLength(payload[at:], f.First+uint64(len(places)))
		if n == 0 {
			return fmt.Errorf("%w: its entry %d is another, or of another size", ErrDamaged, len(places))
		}
		places = append(places, place{uint32(s.Segment), uint32(s.end) + frameSize + uint32(at), uint32(n)})
		at += n
	}
	if len(places) == 0 || f.First == 0 || f.Last < f.First || f.Last-f.First+1 != uint64(len(places)) {
		return fmt.Errorf("%w: it has %d entries, and should have %d to %d", ErrDamaged, len(places), f.First, f.Last)
	}
	return l.span.append(f.First, places)
}

// endAt ends the log at the end of the last frame of s that is whole. What follows is zeros, or what is left of a write
// that had not been synced, of at most whole bytes if that is known; anything else is damage.
func (l *Log) endAt(s *segment, data []byte, whole int) error {
	grown := s.size - s.size%int64(s.Step) // the rest is of a step that was being added
	if s.end+frameSize > grown || len(trimZeros(data[grown:])) > 0 {
		return fmt.Errorf("%w: it is cut short, it has %d bytes", ErrDamaged, s.size)
	}
	s.size = grown
	left := trimZeros(data[s.end:])
	if len(left) == 0 {
		return nil
	}
	if at := synced(data[s.end:], len(left), whole, l.number, s.Salt); at >= 0 {
		return fmt.Errorf("%w: write %d at byte %d is not what was written, and had been synced, as byte %d shows",
			ErrDamaged, l.number, s.end, s.end+int64(at))
	}
	l.opts.Logger.Info("the last write to the log had not been finished; it is cut off", "file", s.path, "byte", s.end, "length", len(left))
	return s.clear(s.end, s.end+int64(len(left)))
}

// synced looks in the first n bytes of rest, which a write with this number may have left, for something that was written
// after its sync. It returns where, or -1. whole is how much the write itself could leave, if its header says so; anything
// behind that is enough then.
func synced(rest []byte, n, whole int, number uint64, salt uint32) int {
	if whole > 0 {
		if n > whole {
			return whole
		}
		return -1
	}
	for at := 0; at < n; at += 8 {
		if _, ok := decodeFrame(rest[at:], salt); ok || isMark(rest[at:], number, salt) {
			return at
		}
	}
	return -1
}

// discard removes a segment that was being made when the process ended. Had anything been written to it, or to a later
// one, the segment before would say so.
func (l *Log) discard(numbers []uint64) error {
	s, data, err := l.load(numbers[0])
	if err != nil {
		return err
	}
	l.segments = append(l.segments, s)
	if len(numbers) > 1 || !blank(data) {
		last := l.segments[len(l.segments)-2]
		return fmt.Errorf("%s: %w: it ends at byte %d with write %d, but %s goes on", last.path, ErrDamaged, last.end, l.number-1, s.path)
	}
	return l.discardLast(numbers[0])
}

func (l *Log) discardLast(number uint64) error {
	n := len(l.segments) - 1
	s := l.segments[n]
	l.segments = l.segments[:n]
	return l.remove(s, number)
}

// blank reports whether no frame was ever written to a segment.
func blank(data []byte) bool {
	return len(data) <= sectorSize || len(trimZeros(data[sectorSize:])) == 0
}

func trimZeros(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}
