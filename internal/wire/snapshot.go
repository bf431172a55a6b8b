package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"github.com/coordcell/coord/fsm"
)

// A snapshot is
//
//	magic, 8 bytes; format, uint32
//	chunks: length of the records, uint32, 1 … maxChunk; the records, whole; sum, uint32
//	the end: 0, uint32; number of records, uint64; sum, uint32
//
// in big-endian numbers. Each sum is the CRC-32C of all bytes from the first one of the snapshot up to the sum, so that
// a chunk that is missing, doubled or out of place fails the next sum. Nothing may follow the end.
const (
	snapshotMagic  = "coordsnp"
	snapshotFormat = 1
	// fullChunk is the size at which a chunk is closed. One record may be larger, and then makes a chunk of its own.
	fullChunk = 64 << 10
	maxChunk  = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// WriteSnapshot writes records, which it does not look into, to w. It makes one call of Write a chunk, of some 64 KiB.
// It fails on a record of no known type or above 256 MiB, and with the errors of w.
func WriteSnapshot(w io.Writer, records iter.Seq[fsm.Record]) error {
	s := snapshotWriter{w: w, buf: make([]byte, 0, fullChunk+fullChunk/4)}
	s.buf = append(s.buf, snapshotMagic...)
	s.buf = binary.BigEndian.AppendUint32(s.buf, snapshotFormat)
	for r := range records {
		if err := s.add(r); err != nil {
			return err
		}
	}
	return s.end()
}

// snapshotWriter gathers a chunk in buf, with room for its length in front. In the first chunk the magic stands before
// the length, so that every byte goes through the same sum.
type snapshotWriter struct {
	w     io.Writer
	buf   []byte
	start int // of the chunk's records in buf; 0: no chunk has begun
	sum   uint32
	count uint64
}

func (s *snapshotWriter) add(r fsm.Record) error {
	if s.start == 0 {
		s.buf = append(s.buf, 0, 0, 0, 0)
		s.start = len(s.buf)
	}
	e := NewEncoder(s.buf)
	err := encodeRecord(e, r)
	s.buf = e.Finish()
	if err != nil {
		return err
	}
	s.count++
	if len(s.buf)-s.start < fullChunk {
		return nil
	}
	return s.flush()
}

// flush writes the chunk that has begun.
func (s *snapshotWriter) flush() error {
	n := len(s.buf) - s.start
	if n > maxChunk {
		return fmt.Errorf("wire: snapshot: record of %d bytes, the limit is %d", n, maxChunk)
	}
	binary.BigEndian.PutUint32(s.buf[s.start-4:], uint32(n))
	return s.write()
}

func (s *snapshotWriter) end() error {
	if s.start > 0 {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.buf = append(s.buf, 0, 0, 0, 0)
	s.buf = binary.BigEndian.AppendUint64(s.buf, s.count)
	return s.write()
}

func (s *snapshotWriter) write() error {
	s.sum = crc32.Update(s.sum, castagnoli, s.buf)
	s.buf = binary.BigEndian.AppendUint32(s.buf, s.sum)
	_, err := s.w.Write(s.buf)
	s.sum = crc32.Update(s.sum, castagnoli, s.buf[len(s.buf)-4:])
	s.buf, s.start = s.buf[:0], 0
	return err
}

// ReadSnapshot reads what WriteSnapshot wrote, to the end of r. A record is yielded only once the sum over it is right.
// An error is yielded last, with no record: of r, ErrUnknown or ErrMalformed. Records that came before are of no use
// then. The sequence can be used once.
func ReadSnapshot(r io.Reader) iter.Seq2[fsm.Record, error] {
	return func(yield func(fsm.Record, error) bool) {
		s := snapshotReader{r: r}
		if err := s.read(func(r fsm.Record) bool { return yield(r, nil) }); err != nil && err != errStopped {
			yield(nil, fmt.Errorf("snapshot: %w", err))
		}
	}
}

// errStopped says that whoever takes the records wants no more.
var errStopped = errors.New("stopped")

type snapshotReader struct {
	r     io.Reader
	buf   bytes.Buffer
	sum   uint32
	count uint64
}

func (s *snapshotReader) read(yield func(fsm.Record) bool) error {
	head, err := s.take(len(snapshotMagic) + 4)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(head, []byte(snapshotMagic)) {
		return fmt.Errorf("%w: it does not begin like one", ErrMalformed)
	}
	if v := binary.BigEndian.Uint32(head[len(snapshotMagic):]); v > snapshotFormat {
		return fmt.Errorf("%w: format %d, %d is the newest known", ErrUnknown, v, snapshotFormat)
	} else if v == 0 {
		return fmt.Errorf("%w: format 0", ErrMalformed)
	}
	for {
		head, err := s.take(4)
		if err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(head)
		if n == 0 {
			return s.end()
		}
		if n > maxChunk {
			return fmt.Errorf("%w: chunk of %d bytes, the limit is %d", ErrMalformed, n, maxChunk)
		}
		if err := s.chunk(int(n), yield); err != nil {
			return err
		}
	}
}

func (s *snapshotReader) chunk(n int, yield func(fsm.Record) bool) error {
	data, err := s.take(n)
	if err != nil {
		return err
	}
	// The sum is read into memory of its own: data is still needed.
	if err := s.check(); err != nil {
		return err
	}
	d := NewDecoder(data)
	for d.Err() == nil && d.in.left() > 0 {
		r := decodeRecord(d)
		if d.Err() != nil {
			break
		}
		s.count++
		if !yield(r) {
			return errStopped
		}
	}
	return d.Finish()
}

func (s *snapshotReader) end() error {
	b, err := s.take(8)
	if err != nil {
		return err
	}
	n := binary.BigEndian.Uint64(b)
	if err := s.check(); err != nil {
		return err
	}
	if n != s.count {
		return fmt.Errorf("%w: %d records of %d", ErrMalformed, s.count, n)
	}
	if _, err := io.ReadFull(s.r, make([]byte, 1)); err == nil {
		return fmt.Errorf("%w: bytes after the end", ErrMalformed)
	} else if err != io.EOF {
		return err
	}
	return nil
}

// take reads n bytes, which are good until the next call. Memory grows with what arrives, not with n.
func (s *snapshotReader) take(n int) ([]byte, error) {
	s.buf.Reset()
	if _, err := io.CopyN(&s.buf, s.r, int64(n)); err != nil {
		return nil, truncated(err)
	}
	s.sum = crc32.Update(s.sum, castagnoli, s.buf.Bytes())
	return s.buf.Bytes(), nil
}

// check reads a sum and compares it.
func (s *snapshotReader) check() error {
	var b [4]byte
	if _, err := io.ReadFull(s.r, b[:]); err != nil {
		return truncated(err)
	}
	if binary.BigEndian.Uint32(b[:]) != s.sum {
		return fmt.Errorf("%w: wrong checksum after %d records", ErrMalformed, s.count)
	}
	s.sum = crc32.Update(s.sum, castagnoli, b[:])
	return nil
}

func truncated(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: it is cut off", ErrMalformed)
	}
	return err
}
