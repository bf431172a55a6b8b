package forming

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Bounds of what is decoded.
const (
	version    = 1    // first byte of every message and record
	maxString  = 1024 // bytes
	maxServers = 32   // ids in one set
	maxSets    = 24   // earlier sets of a record
)

var errMalformed = errors.New("forming: malformed message")

// encoder appends a message: numbers as uvarints, strings and lists with their length before them.
type encoder struct{ b []byte }

func newEncoder() *encoder { return &encoder{b: []byte{version}} }

func (e *encoder) number(n uint64) { e.b = binary.AppendUvarint(e.b, n) }

func (e *encoder) string(s string) {
	e.number(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) strings(list []string) {
	e.number(uint64(len(list)))
	for _, s := range list {
		e.string(s)
	}
}

// decoder reads a message. After the first error it returns zero values.
type decoder struct {
	b   []byte
	err error
}

func newDecoder(b []byte) *decoder {
	d := &decoder{b: b}
	switch {
	case len(b) == 0:
		d.err = errMalformed
	case b[0] != version:
		d.err = fmt.Errorf("forming: bytes of version %d, this program reads up to %d", b[0], version)
	default:
		d.b = b[1:]
	}
	return d
}

func (d *decoder) number() uint64 {
	if d.err != nil {
		return 0
	}
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.err = errMalformed
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) string() string {
	n := d.number()
	if d.err == nil && (n > maxString || n > uint64(len(d.b))) {
		d.err = errMalformed
	}
	if d.err != nil {
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

// count reads a length of at most limit.
func (d *decoder) count(limit int) int {
	n := d.number()
	if d.err == nil && n > uint64(limit) {
		d.err = errMalformed
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

func (d *decoder) strings() []string {
	var list []string
	for range d.count(maxServers) {
		list = append(list, d.string())
	}
	return list
}

// end returns the first error; bytes left over are one.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.err = errMalformed
	}
	return d.err
}
