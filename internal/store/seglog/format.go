package seglog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/hashicorp/raft"
)

const (
	magic      = "coordlog"
	version    = 1
	sectorSize = 512 // the header has one to itself, which is written once
	headerSize = 64
	frameSize  = 40 // of a frame's header
	markSize   = 8
	timeSize   = 16
	entrySize  = 29 + timeSize // of an entry without extensions and data
	maxPayload = 1 << 30
)

// What a frame is.
const (
	frameEntries = 1 + iota // the entries First to Last
	frameKeep               // the log is what it was from First to Last; empty if First > Last
	frameSeal               // the next segment goes on
)

var (
	ErrDamaged = errors.New("damaged")
	ErrNewer   = errors.New("written by a newer version")
)

// header begins a segment.
type header struct {
	Magic       [8]byte
	Version     uint32
	Salt        uint32
	Segment     uint64
	Number      uint64 // of the first frame
	First, Last uint64 // of the log before it
	Step        uint32 // the file grows by multiples of it
	Unused      uint64
}

func (h header) encode() []byte {
	copy(h.Magic[:], magic)
	h.Version = version
	b, _ := binary.Append(nil, binary.LittleEndian, h) // fails for types without a fixed size only
	return binary.LittleEndian.AppendUint32(b, sum(0, b))
}

// decodeHeader fails for anything but a header of this version, of the given segment.
func decodeHeader(b []byte, segment uint64) (h header, err error) {
	if len(b) < sectorSize || string(b[:len(magic)]) != magic {
		return header{}, fmt.Errorf("%w: it does not begin as a segment of a log", ErrDamaged)
	}
	b, stored := b[:headerSize-4], binary.LittleEndian.Uint32(b[headerSize-4:])
	if computed := sum(0, b); stored != computed {
		return header{}, fmt.Errorf("%w: its header has checksum %08x, not %08x", ErrDamaged, computed, stored)
	}
	if _, err := binary.Decode(b, binary.LittleEndian, &h); err != nil {
		return header{}, err
	}
	switch {
	case h.Version > version:
		return header{}, fmt.Errorf("%w: version %d, this program reads up to %d", ErrNewer, h.Version, version)
	case h.Segment != segment, h.First == 0, h.First > h.Last && h.Last != 0, h.Step < 2*sectorSize, h.Step%sectorSize != 0:
		return header{}, fmt.Errorf("%w: its header is of segment %d, with a log from %d and steps of %d bytes", ErrDamaged, h.Segment, h.First, h.Step)
	}
	return h, nil
}

// frame is the header of a frame, behind its own checksum.
type frame struct {
	Sum         uint32 // of the payload
	Number      uint64
	Kind        uint32
	Size        uint32 // of the payload
	First, Last uint64
}

// length is what the frame takes in the file, with its mark.
func (f frame) length() int { return frameSize + (int(f.Size)+7)&^7 + markSize }

// newFrame begins a buffer for a frame, in buf if that is large enough. The payload, of that size, is appended to it.
func newFrame(buf []byte, size int) []byte {
	buf = slices.Grow(buf[:0], frame{Size: uint32(size)}.length())[:frameSize]
	clear(buf)
	return buf
}

// finish fills in the header of a frame whose payload is in buf, and leaves its mark at zero.
func (f frame) finish(buf []byte, salt uint32) []byte {
	payload := buf[frameSize:]
	f.Size, f.Sum = uint32(len(payload)), sum(salt, payload)
	binary.Encode(buf[4:], binary.LittleEndian, f) // has the room
	binary.LittleEndian.PutUint32(buf, sum(salt, buf[4:frameSize]))
	return append(buf, make([]byte, f.length()-len(buf))...)
}

// decodeFrame reads the header at the beginning of b; false if there is none. The payload is not looked at.
func decodeFrame(b []byte, salt uint32) (f frame, ok bool) {
	if len(b) < frameSize || sum(salt, b[4:frameSize]) != binary.LittleEndian.Uint32(b) {
		return frame{}, false
	}
	binary.Decode(b[4:frameSize], binary.LittleEndian, &f) // has the size
	return f, f.Kind >= frameEntries && f.Kind <= frameSeal && f.Size <= maxPayload
}

// mark is what the end of a frame holds once it has been synced: the low half of its number, and a checksum.
func mark(number uint64, salt uint32) uint64 {
	s := sum(salt, binary.LittleEndian.AppendUint64(nil, number))
	return uint64(s)<<32 | uint64(uint32(number))
}

// isMark reports whether b begins with the mark of a frame from number on.
func isMark(b []byte, number uint64, salt uint32) bool {
	if len(b) < markSize {
		return false
	}
	m := binary.LittleEndian.Uint64(b)
	ahead := uint32(m) - uint32(number)
	return ahead < 1<<24 && m == mark(number+uint64(ahead), salt)
}

func sizeOf(e *raft.Log) int { return entrySize + len(e.Extensions) + len(e.Data) }

func appendEntry(b []byte, e *raft.Log, salt uint32) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(sizeOf(e)))
	b = binary.LittleEndian.AppendUint64(b, e.Index)
	b = binary.LittleEndian.AppendUint64(b, e.Term)
	b = append(b, byte(e.Type))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Extensions)))
	var appended [timeSize]byte
	if _, err := e.AppendedAt.AppendBinary(appended[:0]); err != nil { // a zone that has no binary form
		clear(appended[:])
	}
	b = append(b, appended[:]...)
	b = append(b, e.Extensions...)
	b = append(b, e.Data...)
	binary.LittleEndian.PutUint32(b[start:], sum(salt, b[start+4:]))
	return b
}

// entryLength is how many bytes the entry of this index at the beginning of b takes; 0 if there is none.
func entryLength(b []byte, index uint64) int {
	if len(b) < entrySize || binary.LittleEndian.Uint64(b[8:]) != index {
		return 0
	}
	if n := int64(binary.LittleEndian.Uint32(b[4:])); n >= entrySize && n <= int64(len(b)) {
		return int(n)
	}
	return 0
}

// decodeEntry reads the entry of this index, which b holds and nothing besides. The entry shares b's memory.
func decodeEntry(b []byte, index uint64, salt uint32) (raft.Log, error) {
	if n := entryLength(b, index); n == 0 || n != len(b) {
		return raft.Log{}, fmt.Errorf("%w: it is another entry, or of another size", ErrDamaged)
	}
	if stored, computed := binary.LittleEndian.Uint32(b), sum(salt, b[4:]); stored != computed {
		return raft.Log{}, fmt.Errorf("%w: checksum %08x, not %08x", ErrDamaged, computed, stored)
	}
	body, extensions := b[entrySize:], int64(binary.LittleEndian.Uint32(b[25:]))
	if extensions > int64(len(body)) {
		return raft.Log{}, fmt.Errorf("%w: %d bytes of extensions", ErrDamaged, extensions)
	}
	e := raft.Log{Index: index, Term: binary.LittleEndian.Uint64(b[16:]), Type: raft.LogType(b[24])}
	if appended := b[29:entrySize]; appended[0] == 1 { // the first byte is the form's version
		e.AppendedAt.UnmarshalBinary(appended[:timeSize-1])
	} else if appended[0] != 0 {
		e.AppendedAt.UnmarshalBinary(appended)
	}
	if extensions > 0 {
		e.Extensions = body[:extensions:extensions]
	}
	if body = body[extensions:]; len(body) > 0 {
		e.Data = body
	}
	return e, nil
}

func sum(salt uint32, b []byte) uint32 {
	return crc32.Update(salt, crc32.MakeTable(crc32.Castagnoli), b)
}
