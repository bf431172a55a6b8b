package wire

import "github.com/vmihailenco/msgpack/v5"

// Encoder appends values to a byte slice. It is for one goroutine, and for one slice: Finish ends its use.
type Encoder struct {
	mp  *msgpack.Encoder
	out sink
}

// room is what a slice of the encoder's own begins with: most messages are shorter.
const room = 128

// NewEncoder returns an encoder that appends to dst, which may be nil.
func NewEncoder(dst []byte) *Encoder {
	if dst == nil {
		dst = make([]byte, 0, room)
	}
	e := &Encoder{mp: msgpack.GetEncoder(), out: sink{dst}}
	e.mp.Reset(&e.out)
	return e
}

// Finish returns the slice with all that was appended.
func (e *Encoder) Finish() []byte {
	msgpack.PutEncoder(e.mp)
	e.mp = nil
	return e.out.b
}

// Open begins a versioned message: an array of the version and that many fields, which the caller encodes next.
func (e *Encoder) Open(version uint64, fields int) {
	e.Array(1 + fields)
	e.Uint(version)
}

// The errors of the msgpack encoder are those of its writer, and a sink has none.

// Array begins an array of n items, which the caller encodes next.
func (e *Encoder) Array(n int) { _ = e.mp.EncodeArrayLen(n) }

// Uint encodes an unsigned number.
func (e *Encoder) Uint(v uint64) { _ = e.mp.EncodeUint(v) }

// Int encodes a signed number.
func (e *Encoder) Int(v int64) { _ = e.mp.EncodeInt(v) }

// Bool encodes a truth value.
func (e *Encoder) Bool(v bool) { _ = e.mp.EncodeBool(v) }

// String encodes a string, of whatever bytes.
func (e *Encoder) String(s string) { _ = e.mp.EncodeString(s) }

// Bytes encodes a byte slice; nil as an empty one.
func (e *Encoder) Bytes(b []byte) {
	_ = e.mp.EncodeBytesLen(len(b))
	e.out.b = append(e.out.b, b...)
}

// sink is the writer behind an Encoder.
type sink struct{ b []byte }

func (s *sink) Write(p []byte) (int, error) {
	s.b = append(s.b, p...)
	return len(p), nil
}

func (s *sink) WriteByte(c byte) error {
	s.b = append(s.b, c)
	return nil
}

// encodeUints encodes a list of numbers.
func encodeUints[T ~uint64](e *Encoder, list []T) {
	e.Array(len(list))
	for _, v := range list {
		e.Uint(uint64(v))
	}
}
