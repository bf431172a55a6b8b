package bareraft

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// Kinds of requests and answers.
const (
	kindOK = iota
	kindError
	kindApply
	kindVerify
	kindLeads // an error unless the server leads
)

// frame is a request, or the answer of the same id. On the wire: four bytes of length, eight of id, one of kind, payload.
type frame struct {
	id      uint64
	kind    byte
	payload []byte
}

const headSize, mostPayload = 13, 1 << 20

func (f frame) write(w *bufio.Writer) error {
	var head [headSize]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(f.payload)))
	binary.BigEndian.PutUint64(head[4:], f.id)
	head[12] = f.kind
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(f.payload)
	return err
}

func readFrame(r *bufio.Reader) (frame, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > mostPayload {
		return frame{}, fmt.Errorf("a frame of %d bytes: at most %d", n, mostPayload)
	}
	f := frame{id: binary.BigEndian.Uint64(head[4:]), kind: head[12], payload: make([]byte, n)}
	_, err := io.ReadFull(r, f.payload)
	return f, err
}

// writeFrames writes what comes until done is closed, and flushes when there is nothing more. If it can't, it closes the
// connection, which ends whoever reads from it.
func writeFrames(conn net.Conn, frames <-chan frame, done <-chan struct{}) {
	w := bufio.NewWriterSize(conn, 64<<10)
	for {
		var f frame
		select {
		case f = <-frames:
		default:
			if w.Flush() != nil {
				_ = conn.Close()
				return
			}
			select {
			case f = <-frames:
			case <-done:
				return
			}
		}
		if f.write(w) != nil {
			_ = conn.Close()
			return
		}
	}
}
