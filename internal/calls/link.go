package calls

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord/transport"
)

const (
	// portion is how many bytes are written between two looks at the urgent queue.
	portion = 256 << 10
	// keptBuffer is the largest buffer that a link keeps for its next run of frames.
	keptBuffer = 1 << 20
	// beats is how many times in a Timeout a link looks whether something has arrived, and pings if not. It is dead
	// when that many pings brought nothing; beats that a pause of this process swallowed do not count. Both ends do
	// so, each in the time of its own Timeout.
	beats = 4
)

var (
	errIdle   = errors.New("connection was idle")
	errSilent = errors.New("peer is silent")
	errSlow   = errors.New("peer reads too slowly")
)

// link is a connection, seen from either side: its queues, its reader and its writer. What the messages mean is the
// business of the outbound or inbound around it.
type link struct {
	x     *Exchange
	nc    *transport.Conn
	side  side
	ctx   context.Context // ends when the link is closed
	end   context.CancelFunc
	wake  chan struct{} // tells the writer that something is queued
	heard atomic.Uint64 // reads that brought something

	mu     sync.Mutex
	err    error // why it is closed; nil while it is not
	urgent frames
	normal frames
	queued int           // bytes in the queues and being written
	space  chan struct{} // closed when there is room again; nil: nobody waits

	// The writer's own: the last run of frames taken from each queue, and what of the normal one is yet to be written.
	urgentRun, normalRun, rest []byte
}

// side is what the outbound and the inbound do differently. All but beat are called by the reader.
type side interface {
	// handle takes a message that is no ping or pong; its body is good until it returns. An error closes the link.
	handle(m message) error
	// beat is called by the writer, now and then.
	beat()
	// lost is called last.
	lost(err error)
}

// open begins the link's life and its goroutines, unless the Exchange is closed; then nc is closed.
func (l *link) open(x *Exchange, nc *transport.Conn, s side) error {
	l.x, l.nc, l.side, l.wake = x, nc, s, make(chan struct{}, 1)
	l.ctx, l.end = context.WithCancel(x.ctx)
	x.mu.Lock()
	x.links[l] = struct{}{}
	x.mu.Unlock()
	if err := x.start(l.read, l.write); err != nil {
		l.close(err)
		nc.Close()
		x.forget(l)
		return err
	}
	return nil
}

// peerID is the id of the node at the other end.
func (l *link) peerID() string { return l.nc.Peer().Node }

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
	l.err = err
	l.end()
	_ = l.nc.SetDeadline(time.Unix(1, 0))
	l.urgent, l.normal = frames{}, frames{}
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

// enqueue adds a message to a queue. l.mu is held.
func (l *link) enqueue(m message, urgent bool) {
	q := &l.normal
	if urgent {
		q = &l.urgent
	}
	l.queued += q.add(m)
	select {
	case l.wake <- struct{}{}:
	default:
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
	if errors.Is(err, errFrame) || errors.Is(err, errSlow) {
		level = slog.LevelWarn
	}
	l.x.cfg.Logger.Log(l.ctx, level, "calls: connection closed", "peer", l.peerID(), "error", err)
	l.side.lost(err)
	l.x.forget(l)
}

func (l *link) readFrames() error {
	r := bufio.NewReaderSize(hearing{l}, 32<<10)
	var head [frameHead]byte
	var buf []byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		n, err := parseHead(head[:], l.x.cfg.MaxFrame)
		if err != nil {
			return err
		}
		if cap(buf) < n || cap(buf) > keptBuffer {
			buf = make([]byte, max(n, 4<<10))
		}
		if _, err := io.ReadFull(r, buf[:n]); err != nil {
			return err
		}
		if err := l.handleFrame(buf[:n]); err != nil {
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

// write is the writer.
func (l *link) write() {
	beat := time.NewTicker(l.x.cfg.Timeout / beats)
	defer beat.Stop()
	heard, silence := uint64(0), 0
	for {
		select {
		case <-l.wake:
		case <-beat.C:
			if now := l.heard.Load(); now != heard {
				heard, silence = now, 0
			} else if silence++; silence > beats {
				l.close(errSilent)
				return
			} else {
				l.send(message{kind: kindPing}, true)
			}
			l.side.beat()
		case <-l.ctx.Done():
			return
		}
		if err := l.flush(); err != nil {
			l.close(err)
			return
		}
	}
}

// flush writes all that is queued, urgent frames between the others.
func (l *link) flush() error {
	for {
		b := l.next()
		if len(b) == 0 {
			return nil
		}
		for at := 0; at < len(b); at += portion {
			if err := l.writePiece(b[at:min(at+portion, len(b))]); err != nil {
				return err
			}
		}
		l.written(len(b))
	}
}

// next returns the frames to write next.
func (l *link) next() (b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.urgent.b) > 0 {
		l.urgentRun = l.urgent.take(kept(l.urgentRun))
		return l.urgentRun
	}
	if len(l.rest) == 0 {
		l.normalRun = l.normal.take(kept(l.normalRun))
		l.rest = l.normalRun
	}
	b, l.rest = cutFrames(l.rest, portion)
	return b
}

// kept returns the memory of a run that has been written, if it is worth keeping.
func kept(b []byte) []byte {
	if cap(b) > keptBuffer {
		return nil
	}
	return b[:0]
}

func (l *link) writePiece(b []byte) error {
	if err := l.x.cfg.Switch.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	if err := l.nc.SetWriteDeadline(time.Now().Add(l.x.cfg.Timeout)); err != nil {
		return err
	}
	_, err := l.nc.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSlow
	}
	return err
}

// written makes room for those who wait for it.
func (l *link) written(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued -= n
	if l.space != nil && l.queued < l.x.cfg.MaxQueued {
		close(l.space)
		l.space = nil
	}
}
