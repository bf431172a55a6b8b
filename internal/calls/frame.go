package calls

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A frame is the length of its messages, uint32 in big-endian; the version of the format, one byte; the messages.
// A message is its kind, one byte, and then, as unsigned varints where they are numbers:
//
//	request  id, method, length, payload      asks
//	cancel   id                               wants no (further) reply
//	reply    id, length, payload              one of several
//	last     id, length, payload              the only reply, or the last of several
//	end      id, status, length, text         there is no (further) reply; the status says why
//	ping                                      wants a pong
//	pong                                      answers a ping
//
// The first two are sent by the side that dialled, the next three by the other one, pings and pongs by both. Ids of
// requests begin at 1; an end of 0 refuses the connection, and nothing that was asked on it has been done.
const (
	frameVersion = 1
	frameHead    = 5
	// fullFrame is the size at which a frame is closed; one message may be larger, and then makes a frame of its own.
	fullFrame = 64 << 10
	// maxOverhead is the most bytes that a message takes beside its payload.
	maxOverhead = 1 + 3*binary.MaxVarintLen64
)

type kind uint8

const (
	kindRequest kind = 1
	kindCancel  kind = 2
	kindReply   kind = 3
	kindLast    kind = 4
	kindEnd     kind = 5
	kindPing    kind = 6
	kindPong    kind = 7
)

type message struct {
	kind kind
	id   uint64
	arg  uint64 // of a request its method, of an end its status
	body []byte
}

var errFrame = errors.New("bad frame")

// frames is a run of frames under construction.
type frames struct {
	b    []byte
	head int // where the last frame begins
}

// add appends a message, and returns by how much the run has grown. The body is copied.
func (f *frames) add(m message) int {
	before := len(f.b)
	if before == 0 || before-f.head+maxOverhead+len(m.body) > frameHead+fullFrame {
		f.seal()
		f.head = len(f.b)
		f.b = append(f.b, 0, 0, 0, 0, frameVersion)
	}
	f.b = append(f.b, byte(m.kind))
	switch m.kind {
	case kindPing, kindPong:
		return len(f.b) - before
	}
	f.b = binary.AppendUvarint(f.b, m.id)
	switch m.kind {
	case kindCancel:
		return len(f.b) - before
	case kindRequest, kindEnd:
		f.b = binary.AppendUvarint(f.b, m.arg)
	}
	f.b = binary.AppendUvarint(f.b, uint64(len(m.body)))
	f.b = append(f.b, m.body...)
	return len(f.b) - before
}

// seal fills in the length of the last frame.
func (f *frames) seal() {
	if len(f.b) > 0 {
		binary.BigEndian.PutUint32(f.b[f.head:], uint32(len(f.b)-f.head-frameHead))
	}
}

// run returns what has been added, sealed. Nothing may be added any more.
func (f *frames) run() []byte {
	f.seal()
	return f.b
}

// clear begins a new run in the memory of the last one.
func (f *frames) clear() { f.b, f.head = f.b[:0], 0 }

// cutFrames cuts whole frames off the front of a sealed run: at least one, and otherwise at most size bytes.
func cutFrames(run []byte, size int) (front, rest []byte) {
	n := 0
	for n < len(run) {
		next := n + frameHead + int(binary.BigEndian.Uint32(run[n:]))
		if n > 0 && next > size {
			break
		}
		n = next
	}
	return run[:n], run[n:]
}

// parseHead reads the head of a frame.
func parseHead(head []byte, maxFrame int) (length int, err error) {
	n := binary.BigEndian.Uint32(head)
	if v := head[4]; v != frameVersion {
		return 0, fmt.Errorf("%w: version %d, this program reads up to %d", errFrame, v, frameVersion)
	}
	if n == 0 || uint64(n) > uint64(maxFrame) {
		return 0, fmt.Errorf("%w: %d bytes, the limit is %d", errFrame, n, maxFrame)
	}
	return int(n), nil
}

// parseMessage cuts a message off the front of b. Its body is part of b.
func parseMessage(b []byte) (m message, rest []byte, err error) {
	if len(b) == 0 {
		return m, nil, errFrame
	}
	m.kind, b = kind(b[0]), b[1:]
	numbers := [3]uint64{} // id, arg, length
	var want [3]bool
	switch m.kind {
	case kindPing, kindPong:
		return m, b, nil
	case kindCancel:
		want = [3]bool{true, false, false}
	case kindRequest, kindEnd:
		want = [3]bool{true, true, true}
	case kindReply, kindLast:
		want = [3]bool{true, false, true}
	default:
		return m, nil, fmt.Errorf("%w: message of kind %d", errFrame, m.kind)
	}
	for i, wanted := range want {
		if !wanted {
			continue
		}
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return m, nil, fmt.Errorf("%w: number cut off", errFrame)
		}
		numbers[i], b = v, b[n:]
	}
	n := numbers[2]
	if n > uint64(len(b)) {
		return m, nil, fmt.Errorf("%w: %d bytes announced, %d left", errFrame, n, len(b))
	}
	m.id, m.arg = numbers[0], numbers[1]
	if n > 0 {
		m.body = b[:n:n]
	}
	return m, b[n:], nil
}
