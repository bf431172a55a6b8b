package calls

import (
	"io"
	"sync"
)

const (
	// smallBuffer is what a connection on which little arrives reads into.
	smallBuffer = 512
	// largeBuffer is what one reads into while much arrives. Only frames of a single message are larger.
	largeBuffer = 64 << 10
)

// intake cuts what arrives on a connection into frames. Between two frames, when no more waits, it holds no memory but
// its small buffer; a frame gets memory in proportion to what has arrived of it, whatever length it claims.
type intake struct {
	from     io.Reader
	maxFrame int
	large    *sync.Pool       // of *[largeBuffer]byte
	hold     func(change int) // is told of bytes taken beside the small buffer, and given back

	small  [smallBuffer]byte
	pooled *[largeBuffer]byte // where buf is, if it came from the pool
	buf    []byte             // what is read into
	begin  int                // buf[begin:end] has arrived and was not handed out
	end    int
	more   bool // the last read filled buf: more waits
}

// next waits for a frame and returns its messages, which are good until the next call.
func (in *intake) next() ([]byte, error) {
	head, err := in.need(frameHead)
	if err != nil {
		return nil, err
	}
	n, err := parseHead(head, in.maxFrame)
	if err != nil {
		return nil, err
	}
	b, err := in.need(frameHead + n)
	if err != nil {
		return nil, err
	}
	in.begin += frameHead + n
	return b[frameHead:], nil
}

// need waits for the next n bytes. They stay where they are.
func (in *intake) need(n int) ([]byte, error) {
	for in.end-in.begin < n {
		in.makeRoom(n)
		k, err := in.from.Read(in.buf[in.end:])
		in.end += k
		in.more = in.end == len(in.buf)
		if err != nil && in.end-in.begin < n {
			return nil, err
		}
	}
	return in.buf[in.begin : in.begin+n], nil
}

// makeRoom makes what has arrived of the next n bytes the front of a buffer that is not full, and of the right size.
func (in *intake) makeRoom(n int) {
	have := in.buf[in.begin:in.end]
	switch {
	case len(have) == 0 && (!in.more || len(in.buf) > largeBuffer):
		in.giveBack()
		in.buf = in.small[:]
	case len(in.buf) < largeBuffer && in.more:
		pooled := in.large.Get().(*[largeBuffer]byte)
		copy(pooled[:], have)
		in.pooled, in.buf = pooled, pooled[:]
		in.hold(largeBuffer)
	case len(have) == len(in.buf):
		grown := make([]byte, min(n, 2*len(in.buf)))
		copy(grown, have)
		in.giveBack()
		in.buf = grown
		in.hold(len(grown))
	case in.begin > 0:
		copy(in.buf, have)
	}
	in.begin, in.end = 0, len(have)
}

// giveBack gives up all but the small buffer.
func (in *intake) giveBack() {
	if in.pooled != nil {
		in.large.Put(in.pooled)
		in.pooled = nil
	}
	if len(in.buf) > smallBuffer {
		in.hold(-len(in.buf))
	}
	in.buf = nil
}
