package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrFrameSize is what ReadFrame and WriteFrame return for a frame above the caller's limit.
var ErrFrameSize = errors.New("frame too large")

const (
	frameHeader = 4        // bytes of length, big endian
	frameStep   = 64 << 10 // bytes taken on the word of a peer
)

// WriteFrame writes the length of b, then b. It fails before it writes anything if b is longer than limit. It makes
// two small writes of one; w should be buffered.
func WriteFrame(w io.Writer, b []byte, limit int) error {
	if len(b) > limit || int64(len(b)) > math.MaxUint32 {
		return fmt.Errorf("%w: %d bytes, the most is %d", ErrFrameSize, len(b), limit)
	}
	var header [frameHeader]byte
	binary.BigEndian.PutUint32(header[:], uint32(len(b)))
	if _, err := w.Write(header[:]); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

// ReadFrame reads what WriteFrame wrote and returns it, in buf if it has the capacity and else in new memory, which
// it takes in proportion to what has really arrived. It returns io.EOF only if the stream ends between two frames.
// After any error the stream is of no more use.
func ReadFrame(r io.Reader, limit int, buf []byte) ([]byte, error) {
	if cap(buf) < frameHeader {
		buf = make([]byte, frameHeader, 512)
	}
	buf = buf[:frameHeader]
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(buf)
	if int64(length) > int64(limit) {
		return nil, fmt.Errorf("%w: %d bytes, the most is %d", ErrFrameSize, length, limit)
	}
	size := int(length)
	have := 0
	for {
		if cap(buf) < size && have == cap(buf) {
			grown := make([]byte, min(size, max(2*have, frameStep)))
			copy(grown, buf[:have])
			buf = grown
		}
		end := min(size, cap(buf))
		n, err := io.ReadFull(r, buf[have:end])
		have += n
		buf = buf[:have]
		switch {
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case have == size:
			return buf, nil
		}
	}
}
