package transport

import (
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// memStream is a stream of a Memory, whose lock guards it: two ends, and what is under way between them.
type memStream struct {
	m    *Memory
	ends [2]memConn // that of the dialler, that of the accepter
}

func newMemStream(dialler, accepter *memEndpoint, near string) *memStream {
	m := dialler.m
	s := &memStream{m: m}
	here, there := memAddr(near), memAddr(accepter.addr)
	s.ends[0] = memConn{s: s, ep: dialler, peer: &s.ends[1], local: here, remote: there}
	s.ends[1] = memConn{s: s, ep: accepter, peer: &s.ends[0], local: there, remote: here}
	for i := range s.ends {
		c := &s.ends[i]
		c.cond = sync.NewCond(&m.mu)
		c.out = flow{from: c, to: c.peer}
		c.ep.ends[c] = struct{}{}
	}
	m.streams[s] = struct{}{}
	m.follow(s)
	return s
}

// tear loses what is under way, but for a reset, and resets both ends.
func (s *memStream) tear() {
	for i := range s.ends {
		if f := &s.ends[i].out; !f.reset {
			f.discardUnderWay()
			f.end(syscall.ECONNRESET)
		}
	}
}

// timeOut breaks both ends at once.
func (s *memStream) timeOut() {
	for i := range s.ends {
		s.ends[i].abort(syscall.ETIMEDOUT)
	}
}

// memConn is one end of a stream.
type memConn struct {
	s             *memStream
	ep            *memEndpoint
	peer          *memConn
	local, remote memAddr
	cond          *sync.Cond // anything that Read or Write may wait for
	out           flow       // to the peer; what comes in is peer.out

	closed     bool
	readErr    error // once what has arrived is read
	writeErr   error
	losesReply bool
	reading    memDeadline
	writing    memDeadline
}

func (c *memConn) LocalAddr() net.Addr  { return c.local }
func (c *memConn) RemoteAddr() net.Addr { return c.remote }

func (c *memConn) Read(b []byte) (int, error) {
	c.s.m.mu.Lock()
	defer c.s.m.mu.Unlock()
	in := &c.peer.out
	for {
		switch {
		case c.closed:
			return 0, c.fail("read", net.ErrClosed)
		case c.reading.passed():
			return 0, c.fail("read", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		case c.ep.paused:
		case in.landed > 0:
			n := in.take(b)
			c.peer.cond.Broadcast()
			return n, nil
		case c.readErr == io.EOF:
			return 0, io.EOF
		case c.readErr != nil:
			return 0, c.fail("read", c.readErr)
		}
		c.cond.Wait()
	}
}

func (c *memConn) Write(b []byte) (int, error) {
	m := c.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(b) > 0 && !c.out.ended && (c.losesReply || m.chance(c.out.faults().drop)) {
		c.s.tear()
	}
	for n := 0; ; {
		switch room := streamWindow - c.out.size; {
		case c.closed:
			return n, c.fail("write", net.ErrClosed)
		case c.writing.passed():
			return n, c.fail("write", os.ErrDeadlineExceeded)
		case c.writeErr != nil:
			return n, c.fail("write", c.writeErr)
		case c.out.ended: // torn, and this end has not heard of it yet
			return len(b), nil
		case room >= len(b)-n:
			c.out.push(append([]byte(nil), b[n:]...))
			return len(b), nil
		case room > 0:
			c.out.push(append([]byte(nil), b[n:n+room]...))
			n += room
			continue
		}
		c.cond.Wait()
	}
}

// Close sends what was written, then the end of the stream; or a reset, if something that has arrived was not read.
func (c *memConn) Close() error {
	c.s.m.mu.Lock()
	defer c.s.m.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	c.shut(false)
	return nil
}

func (c *memConn) SetDeadline(t time.Time) error      { return c.setDeadlines(t, &c.reading, &c.writing) }
func (c *memConn) SetReadDeadline(t time.Time) error  { return c.setDeadlines(t, &c.reading) }
func (c *memConn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.writing) }

func (c *memConn) setDeadlines(t time.Time, deadlines ...*memDeadline) error {
	c.s.m.mu.Lock()
	defer c.s.m.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	for _, d := range deadlines {
		d.set(t, c.wake)
	}
	c.cond.Broadcast()
	return nil
}

// wake is what a deadline's timer calls.
func (c *memConn) wake() {
	c.s.m.mu.Lock()
	defer c.s.m.mu.Unlock()
	c.cond.Broadcast()
}

// shut closes this end.
func (c *memConn) shut(reset bool) {
	in := &c.peer.out
	if reset || in.landed > 0 {
		c.out.end(syscall.ECONNRESET)
	} else {
		c.out.end(io.EOF)
	}
	c.closed = true
	c.reading.stop()
	c.writing.stop()
	in.discardLanded()
	delete(c.ep.ends, c)
	c.cond.Broadcast()
	if c.peer.closed {
		delete(c.s.m.streams, c.s)
		c.out.discardUnderWay()
		in.discardUnderWay()
	}
	c.peer.cond.Broadcast()
}

// abort makes this end useless at once, except for Close. A reset that is on its way to the peer still gets there.
func (c *memConn) abort(err error) {
	if !c.out.reset {
		c.out.discardUnderWay()
	}
	c.out.ended = true
	if c.readErr == nil {
		c.readErr = err
	}
	if c.writeErr == nil {
		c.writeErr = err
	}
	c.cond.Broadcast()
}

func (c *memConn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "memory", Source: c.local, Addr: c.remote, Err: err}
}

// memDeadline is one deadline of a memConn.
type memDeadline struct {
	at    time.Time // zero: none
	timer *time.Timer
}

func (d *memDeadline) set(t time.Time, wake func()) {
	d.at = t
	d.stop()
	switch wait := time.Until(t); {
	case t.IsZero() || wait <= 0:
	case d.timer == nil:
		d.timer = time.AfterFunc(wait, wake)
	default:
		d.timer.Reset(wait)
	}
}

func (d *memDeadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *memDeadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// flow is one direction of a stream: segments that have landed at the far end and were not read yet, then those
// in flight, then those that wait to leave, because the link is cut or the sender is paused.
type flow struct {
	from, to *memConn
	queue    []segment
	landed   int // queue[:landed] can be read
	flown    int // queue[landed:flown] is in flight
	size     int // bytes in the queue
	timer    *time.Timer
	stalled  time.Time // since when the link has been cut; zero: it is not
	ended    bool      // nothing is written any more
	reset    bool      // and the end is a reset
}

type segment struct {
	data []byte
	end  error     // instead of data: io.EOF, or ECONNRESET
	at   time.Time // when it lands, once in flight, unless an earlier one is later
}

// push takes ownership of data.
func (f *flow) push(data []byte) {
	if len(data) == 0 {
		return
	}
	f.queue = append(f.queue, segment{data: data})
	f.size += len(data)
	f.launch(time.Now())
}

// end puts the stream's end behind what was written.
func (f *flow) end(err error) {
	if f.reset || f.ended && err == io.EOF {
		return
	}
	f.ended, f.reset = true, err != io.EOF
	f.queue = append(f.queue, segment{end: err})
	f.launch(time.Now())
}

// follow adapts to a change of the link or of the sender, and tells whether the link is cut since just now.
func (f *flow) follow(now time.Time) (stalled bool) {
	if !f.faults().cut {
		f.stalled = time.Time{}
		f.launch(now)
		return false
	}
	if !f.stalled.IsZero() {
		return false
	}
	f.stalled = now
	f.flown = f.landed
	f.arm(now)
	return true
}

// launch sends what waits to leave, if it can.
func (f *flow) launch(now time.Time) {
	if f.flown == len(f.queue) || f.from.ep.paused || !f.stalled.IsZero() {
		return
	}
	at := now.Add(f.faults().delay)
	for ; f.flown < len(f.queue); f.flown++ {
		f.queue[f.flown].at = at
	}
	f.arm(now)
}

// arm sets the timer for the next segment in flight.
func (f *flow) arm(now time.Time) {
	switch {
	case f.landed == f.flown:
		if f.timer != nil {
			f.timer.Stop()
		}
	case f.timer == nil:
		f.timer = time.AfterFunc(f.queue[f.landed].at.Sub(now), f.land)
	default:
		f.timer.Reset(f.queue[f.landed].at.Sub(now))
	}
}

// land is what the timer calls.
func (f *flow) land() {
	f.from.s.m.mu.Lock()
	defer f.from.s.m.mu.Unlock()
	now := time.Now()
	for f.landed < f.flown && !f.queue[f.landed].at.After(now) {
		f.landOne()
	}
	f.arm(now)
	f.to.cond.Broadcast()
}

func (f *flow) landOne() {
	s := f.queue[f.landed]
	if s.end == nil && !f.to.closed {
		f.landed++
		return
	}
	f.queue = slices.Delete(f.queue, f.landed, f.landed+1)
	f.flown--
	f.size -= len(s.data)
	switch {
	case s.end == nil: // nobody reads it any more: the sender is told
		f.to.out.end(syscall.ECONNRESET)
		f.from.cond.Broadcast()
	case s.end == io.EOF:
		if f.to.readErr == nil {
			f.to.readErr = io.EOF
		}
	default:
		f.to.abort(s.end)
	}
}

// take moves what has landed into b.
func (f *flow) take(b []byte) (n int) {
	for n < len(b) && f.landed > 0 {
		s := &f.queue[0]
		k := copy(b[n:], s.data)
		n += k
		f.size -= k
		if s.data = s.data[k:]; len(s.data) == 0 {
			f.queue[0] = segment{}
			f.queue = f.queue[1:]
			f.landed--
			f.flown--
		}
	}
	return n
}

func (f *flow) discardLanded() {
	f.discard(0, f.landed)
	f.landed = 0
}

func (f *flow) discardUnderWay() {
	f.discard(f.landed, len(f.queue))
	f.arm(time.Now())
	f.from.cond.Broadcast()
}

func (f *flow) discard(from, to int) {
	for _, s := range f.queue[from:to] {
		f.size -= len(s.data)
	}
	f.queue = slices.Delete(f.queue, from, to)
	f.flown = max(f.flown-(to-from), from)
}

func (f *flow) faults() linkFaults {
	return f.from.s.m.summary(f.from.ep.addr, f.to.ep.addr)
}
