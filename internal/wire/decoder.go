package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

var (
	// ErrUnknown is met where a newer program wrote what this one cannot read.
	ErrUnknown = errors.New("wire: written by a newer version")
	// ErrMalformed is met where the bytes are not what any version wrote.
	ErrMalformed = errors.New("wire: malformed")
)

// Decoder reads values from a byte slice. Its first error sticks: from then on every method returns a zero value, so a
// caller may read a whole message and ask Finish once. Nothing it returns shares memory with the slice. It is for one
// goroutine; Finish ends its use.
type Decoder struct {
	mp  *msgpack.Decoder
	in  source
	err error
}

// NewDecoder returns a decoder of data, which must not change before Finish.
func NewDecoder(data []byte) *Decoder {
	d := &Decoder{mp: msgpack.GetDecoder(), in: source{data: data}}
	d.mp.Reset(&d.in)
	return d
}

// Finish returns the first error; bytes that were not read are one.
func (d *Decoder) Finish() error {
	if d.err == nil && d.in.left() > 0 {
		d.Fail("%d bytes after the end", d.in.left())
	}
	if d.mp != nil {
		msgpack.PutDecoder(d.mp)
		d.mp = nil
	}
	return d.err
}

// Err returns the first error so far.
func (d *Decoder) Err() error { return d.err }

// Fail makes what was read malformed, unless there is an error already.
func (d *Decoder) Fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: at byte %d: %s", ErrMalformed, d.in.off, fmt.Sprintf(format, args...))
	}
}

// Open reads the head of a versioned message and returns its version: fields[0] is how many fields version 1 has,
// fields[1] those of version 2, and so on. A version above len(fields) is ErrUnknown.
func (d *Decoder) Open(fields ...int) uint64 {
	n := d.Array(1)
	if d.err == nil && n == 0 {
		d.Fail("message without a version")
	}
	return d.version(n-1, fields...)
}

// version reads the version of a message in which n fields follow it.
func (d *Decoder) version(n int, fields ...int) uint64 {
	v := d.Uint()
	switch {
	case d.err != nil:
		return 0
	case v == 0:
		d.Fail("version 0")
		return 0
	case v > uint64(len(fields)):
		d.unknown("version %d, %d is the newest known", v, len(fields))
		return 0
	case n != fields[v-1]:
		d.Fail("%d fields where version %d has %d", n, v, fields[v-1])
		return 0
	}
	return v
}

// Array reads the head of an array and returns its length; size is the least number of bytes that an item takes.
func (d *Decoder) Array(size int) int {
	at := d.in.off
	if d.err != nil || !d.check(d.peek(isArray), "an array") {
		return 0
	}
	n, err := d.mp.DecodeArrayLen()
	if !d.done(err, at, headLen(n, 15, -1)) {
		return 0
	}
	if size = max(size, 1); n > d.in.left()/size {
		d.Fail("%d items of at least %d bytes in %d bytes", n, size, d.in.left())
		return 0
	}
	return n
}

// Uint reads an unsigned number.
func (d *Decoder) Uint() uint64 {
	at := d.in.off
	if d.err != nil || !d.check(d.peek(isUint), "an unsigned number") {
		return 0
	}
	v, err := d.mp.DecodeUint64()
	if !d.done(err, at, uintLen(v)) {
		return 0
	}
	return v
}

// Int reads a signed number.
func (d *Decoder) Int() int64 {
	at := d.in.off
	if d.err != nil {
		return 0
	}
	if d.peek(isUint) {
		v := d.Uint()
		if v > math.MaxInt64 {
			d.Fail("number %d out of range", v)
			return 0
		}
		return int64(v)
	}
	if !d.check(d.peek(isInt), "a number") {
		return 0
	}
	v, err := d.mp.DecodeInt64()
	if !d.done(err, at, intLen(v)) {
		return 0
	}
	return v
}

// Small reads an unsigned number that is at most limit.
func (d *Decoder) Small(limit uint64) uint64 {
	v := d.Uint()
	if v > limit {
		d.Fail("number %d above %d", v, limit)
		return 0
	}
	return v
}

// Bool reads a truth value.
func (d *Decoder) Bool() bool {
	if d.err != nil || !d.check(d.peek(isBool), "a truth value") {
		return false
	}
	v, err := d.mp.DecodeBool()
	return d.done(err, d.in.off, 0) && v
}

// String reads a string.
func (d *Decoder) String() string { return string(d.span(isString, "a string", 31)) }

// Bytes reads a byte slice; an empty one as nil.
func (d *Decoder) Bytes() []byte { return bytes.Clone(d.span(isBytes, "bytes", -1)) }

// Fixed reads a byte slice of exactly len(dst) bytes into dst.
func (d *Decoder) Fixed(dst []byte) {
	b := d.span(isBytes, "bytes", -1)
	if d.err == nil && len(b) != len(dst) {
		d.Fail("%d bytes where %d belong", len(b), len(dst))
		return
	}
	copy(dst, b)
}

// span reads a string or a byte slice without copying it; short is the longest that fits a one-byte head.
func (d *Decoder) span(is func(byte) bool, what string, short int) []byte {
	at := d.in.off
	if d.err != nil || !d.check(d.peek(is), what) {
		return nil
	}
	n, err := d.mp.DecodeBytesLen()
	if !d.done(err, at, headLen(n, short, math.MaxUint8)) {
		return nil
	}
	if n > d.in.left() {
		d.Fail("%d bytes announced, %d left", n, d.in.left())
		return nil
	}
	if n == 0 {
		return nil
	}
	d.in.off += n
	return d.in.data[d.in.off-n : d.in.off]
}

// done notes err. It fails a head that began at and took more than size bytes: there is a shorter one.
func (d *Decoder) done(err error, at, size int) bool {
	if err != nil {
		d.Fail("%v", err)
		return false
	}
	if size > 0 && d.in.off-at != size {
		d.Fail("%d bytes where %d do", d.in.off-at, size)
		return false
	}
	return true
}

func (d *Decoder) unknown(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: at byte %d: %s", ErrUnknown, d.in.off, fmt.Sprintf(format, args...))
	}
}

func (d *Decoder) check(ok bool, what string) bool {
	switch {
	case ok:
		return true
	case d.in.left() == 0:
		d.Fail("the end where %s belongs", what)
	default:
		d.Fail("code %#x where %s belongs", d.in.data[d.in.off], what)
	}
	return false
}

// peek reports whether the next code is one of those that is accepts.
func (d *Decoder) peek(is func(byte) bool) bool { return d.in.left() > 0 && is(d.in.data[d.in.off]) }

func isArray(c byte) bool {
	return msgpcode.IsFixedArray(c) || c == msgpcode.Array16 || c == msgpcode.Array32
}
func isString(c byte) bool {
	return msgpcode.IsFixedString(c) || c >= msgpcode.Str8 && c <= msgpcode.Str32
}
func isBytes(c byte) bool { return c >= msgpcode.Bin8 && c <= msgpcode.Bin32 }
func isBool(c byte) bool  { return c == msgpcode.False || c == msgpcode.True }
func isUint(c byte) bool {
	return c <= msgpcode.PosFixedNumHigh || c >= msgpcode.Uint8 && c <= msgpcode.Uint64
}
func isInt(c byte) bool {
	return c >= msgpcode.NegFixedNumLow || c >= msgpcode.Int8 && c <= msgpcode.Int64
}

// headLen is the length of the shortest head for n items, where one byte serves up to short, two bytes up to middle.
func headLen(n, short, middle int) int {
	switch {
	case n <= short:
		return 1
	case n <= middle:
		return 2
	case n <= math.MaxUint16:
		return 3
	}
	return 5
}

func uintLen(v uint64) int {
	switch {
	case v <= math.MaxInt8:
		return 1
	case v <= math.MaxUint8:
		return 2
	case v <= math.MaxUint16:
		return 3
	case v <= math.MaxUint32:
		return 5
	}
	return 9
}

func intLen(v int64) int {
	switch {
	case v >= -32:
		return 1
	case v >= math.MinInt8:
		return 2
	case v >= math.MinInt16:
		return 3
	case v >= math.MinInt32:
		return 5
	}
	return 9
}

// source is the reader behind a Decoder.
type source struct {
	data []byte
	off  int
}

func (s *source) left() int { return len(s.data) - s.off }

func (s *source) Read(p []byte) (int, error) {
	if s.left() == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	n := copy(p, s.data[s.off:])
	s.off += n
	return n, nil
}

func (s *source) ReadByte() (byte, error) {
	if s.left() == 0 {
		return 0, io.EOF
	}
	s.off++
	return s.data[s.off-1], nil
}

func (s *source) UnreadByte() error {
	s.off--
	return nil
}

// decodeList reads an array; size is the least number of bytes that an item takes.
func decodeList[T any](d *Decoder, size int, item func(*Decoder) T) []T {
	n := d.Array(size)
	if n == 0 {
		return nil
	}
	list := make([]T, 0, n)
	for range n {
		v := item(d)
		if d.err != nil {
			return nil
		}
		list = append(list, v)
	}
	return list
}

func decodeUint[T ~uint64](d *Decoder) T { return T(d.Uint()) }
