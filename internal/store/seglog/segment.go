package seglog

import (
	"encoding/binary"
	"errors"
)

// segment is one file of the log, open.
type segment struct {
	header
	f    file
	path string // for people
	size int64  // of the file
	end  int64  // of the last frame
}

// maxGrowth bounds by how much a segment grows at once; until then it doubles.
const maxGrowth = 8 << 20

// createSegment makes a segment that is complete, and in the directory, when it returns.
func createSegment(dir files, h header) (*segment, error) {
	name := segmentName(h.Segment)
	f, err := dir.create(name)
	if err != nil {
		return nil, err
	}
	s := &segment{header: h, f: f, path: dir.path(name), size: headerSize, end: sectorSize}
	if _, err = f.WriteAt(h.encode(), 0); err == nil {
		err = s.grow(sectorSize+frameSize, 0)
	}
	if err == nil {
		err = dir.sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// write puts a frame at the end. It is on the disk, and marked so, when write returns nil. The file always has room for
// the header of one more, so that its end is never that of a frame.
func (s *segment) write(number uint64, buf []byte) error {
	end := s.end + int64(len(buf))
	if end+frameSize > s.size {
		if err := s.grow(end+frameSize, len(buf)); err != nil {
			return err
		}
	}
	if _, err := s.f.WriteAt(buf, s.end); err != nil {
		return err
	}
	if err := s.f.sync(); err != nil {
		return err
	}
	s.end = end
	return s.mark(number)
}

// mark says that the last frame, which has this number, has been synced.
func (s *segment) mark(number uint64) error {
	_, err := s.f.WriteAt(binary.LittleEndian.AppendUint64(nil, mark(number, s.Salt)), s.end-markSize)
	return err
}

// grow makes the file longer for a frame of this length, so that it has need bytes at least, and syncs that. Zeros are
// written for many frames at once; a frame that takes most of them itself would only be written twice.
func (s *segment) grow(need int64, frame int) (err error) {
	step := int64(s.Step)
	want := max(need, s.size+min(s.size, maxGrowth))
	want = (want + step - 1) / step * step
	if int64(frame) > step/4 {
		if err = s.f.Truncate(want); err == nil {
			err = s.f.sync()
		}
	} else {
		err = s.clear(s.size, want)
	}
	if err != nil {
		return err
	}
	s.size = want
	return nil
}

// clear writes zeros, and syncs them.
func (s *segment) clear(from, to int64) error {
	zeros := make([]byte, min(to-from, 1<<20))
	for ; from < to; from += int64(len(zeros)) {
		if _, err := s.f.WriteAt(zeros[:min(int64(len(zeros)), to-from)], from); err != nil {
			return err
		}
	}
	return s.f.sync()
}
