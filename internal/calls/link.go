package calls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord/transport"
)

const (
	// portion is how many bytes are written between two looks at the urgent queue.
	portion = 256 << 10
	// keptBuffer is the largest buffer that is kept for other runs of frames.
	keptBuffer = 1 << 20
)

var (
	errIdle   = errors.New("connection was idle")
	errSilent = errors.New("peer is silent")
	errSlow   = errors.New("peer reads too slowly")
)

// link is a connection, seen from either side: its queues, its reader and its writer. What the messages mean is the
// business of the outbound or inbound around it.
//
// There may be tens of thousands, most of them with nothing to do. Such a one is a parked goroutine, the reader, and
// little else: the writer lives while there is something to write, queues take their memory from a pool and give it
// back, and one goroutine of the Exchange looks after all of them.
type link struct {
	x     *Exchange
	nc    *transport.Conn
	node  string // id of the node at the other end
	side  side
	ctx   context.Context // ends when the link is closed
	end   context.CancelFunc
	in    intake        // the reader's own
	heard atomic.Uint64 // reads that brought something
	moved atomic.Uint64 // pieces that have been written

	slot, place int // where the Exchange has it; guarded by Exchange.mu

	mu      sync.Mutex
	err     error // why it is closed; nil while it is not
	client  bool  // the peer is a client
	held    int   // bytes that the peer makes this node hold
	urgent  *frames
	normal  *frames       // nil: nothing is queued
	queued  int           // bytes in the queues and being written
	writing bool          // there is a writer, or there was one and it failed
	space   chan struct{} // closed when there is room again; nil: nobody waits
	pulse   pulse

	// The writer's own: the run of frames taken from each queue, and what of the normal one is yet to be written.
	urgentRun, normalRun *frames
	rest                 []byte
}

// side is what the outbound and the inbound do differently.
type side interface {
	// handle takes a message that is no ping or pong; its body is good until it returns. An error closes the link. It
	// is called by the reader.
	handle(m message) error
	// beat is called now and then, and tells whether the peer owes no answer, so that its silence means little. link.mu
	// is held.
	beat() (calm bool)
	// lost is called last, by the reader.
	lost(err error)
}

// open begins the link's life and its reader, unless the Exchange is closed; then nc is closed.
func (l *link) open(x *Exchange, nc *transport.Conn, s side) error {
	l.x, l.nc, l.node, l.side = x, nc, nc.Peer().Node, s
	l.in = intake{from: hearing{l}, maxFrame: x.cfg.MaxFrame, large: &x.large, hold: l.hold}
	l.ctx, l.end = context.WithCancel(x.ctx)
	x.mu.Lock()
	err := x.err
	if err == nil {
		x.watch(l)
		x.tasks.Go(l.read)
	}
	x.mu.Unlock()
	if err != nil {
		l.close(err)
		nc.Close()
	}
	return err
}

// close closes the link. Only the first reason counts. It never waits, as closing a stream under a layer of encryption
// may: a deadline that has passed ends reads and writes, and the reader does the rest.
func (l *link) close(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeLocked(err)
}

func (l *link) closeLocked(err error) {
	if l.err != nil {
		return
	}
	l.holdLocked(-l.held)
	l.err = err
	l.end()
	_ = l.nc.SetDeadline(time.Unix(1, 0))
	l.urgent, l.normal = nil, nil
}

// send is enqueue for messages that cannot wait: a link on which too much has gathered is closed.
func (l *link) send(m message, urgent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sendLocked(m, urgent)
}

func (l *link) sendLocked(m message, urgent bool) {
	if l.err != nil {
		return
	}
	l.enqueue(m, urgent)
	if l.queued > l.x.cfg.MaxReplies {
		l.closeLocked(errSlow)
	}
}

// enqueue adds a message to a queue of a link that is open. l.mu is held.
func (l *link) enqueue(m message, urgent bool) {
	q := &l.normal
	if urgent {
		q = &l.urgent
	}
	if *q == nil {
		*q = l.x.runs.Get().(*frames)
	}
	n := (*q).add(m)
	l.queued += n
	l.holdLocked(n)
	if !l.writing {
		l.writing = true
		l.x.tasks.Add(1) // the reader or the beats are still there, so that Close waits
		go l.write()
	}
}

// full returns nil if a caller may enqueue, and otherwise what to wait for before asking again. l.mu is held.
func (l *link) full() <-chan struct{} {
	if l.queued < l.x.cfg.MaxQueued {
		return nil
	}
	if l.space == nil {
		l.space = make(chan struct{})
	}
	return l.space
}

// read is the reader.
func (l *link) read() {
	err := l.readFrames()
	l.close(err)
	l.nc.Close()
	l.mu.Lock()
	err = l.err
	l.mu.Unlock()
	level := slog.LevelDebug
	if errors.Is(err, errFrame) || errors.Is(err, errSlow) || errors.Is(err, errGreedy) {
		level = slog.LevelWarn
	}
	l.x.cfg.Logger.Log(l.ctx, level, "calls: connection closed", "peer", l.node, "error", err)
	l.side.lost(err)
	l.x.forget(l)
}

func (l *link) readFrames() error {
	for {
		b, err := l.in.next()
		if err != nil {
			return err
		}
		if err := l.handleFrame(b); err != nil {
			return err
		}
	}
}

func (l *link) handleFrame(b []byte) error {
	for len(b) > 0 {
		m, rest, err := parseMessage(b)
		if err != nil {
			return err
		}
		switch m.kind {
		case kindPing:
			l.send(message{kind: kindPong}, true)
		case kindPong:
		default:
			if err := l.side.handle(m); err != nil {
				return err
			}
		}
		b = rest
	}
	return nil
}

// hearing counts the reads that brought something.
type hearing struct{ l *link }

func (h hearing) Read(b []byte) (int, error) {
	n, err := h.l.nc.Read(b)
	if n > 0 {
		h.l.heard.Add(1)
	}
	return n, err
}

// write is the writer: it writes all that is queued, urgent frames between the others, and ends.
func (l *link) write() {
	defer l.x.tasks.Done()
	for b := l.next(0); len(b) > 0; b = l.next(len(b)) {
		for at := 0; at < len(b); at += portion {
			if err := l.writePiece(b[at:min(at+portion, len(b))]); err != nil {
				l.close(err)
				return
			}
		}
	}
}

// next returns the frames to write next, after the given number of bytes has been written; none: the writer ends.
func (l *link) next(written int) (b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written(written)
	l.urgentRun = l.recycle(l.urgentRun)
	if l.urgent != nil {
		l.urgentRun, l.urgent = l.urgent, nil
		return l.urgentRun.run()
	}
	if len(l.rest) == 0 {
		l.normalRun = l.recycle(l.normalRun)
		if l.normal == nil {
			l.writing = false
			return nil
		}
		l.normalRun, l.normal = l.normal, nil
		l.rest = l.normalRun.run()
	}
	b, l.rest = cutFrames(l.rest, portion)
	return b
}

// recycle gives back the memory of a run that has been written, if it is worth keeping.
func (l *link) recycle(f *frames) *frames {
	if f != nil && cap(f.b) <= keptBuffer {
		f.clear()
		l.x.runs.Put(f)
	}
	return nil
}

func (l *link) writePiece(b []byte) error {
	if err := l.x.cfg.Switch.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	_, err := l.nc.Write(b)
	l.moved.Add(1)
	return err
}

// written makes room for those who wait for it. l.mu is held.
func (l *link) written(n int) {
	l.queued -= n
	l.holdLocked(-n)
	if l.space != nil && l.queued < l.x.cfg.MaxQueued {
		close(l.space)
		l.space = nil
	}
}
