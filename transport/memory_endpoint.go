package transport

import (
	"context"
	"errors"
	"hash/fnv"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// memEndpoint is one endpoint of a Memory, whose lock guards it.
type memEndpoint struct {
	m     *Memory
	addr  string // where it listens, or, if it only dials, what the faults go by
	clock *memClock
	cond  *sync.Cond // something for Accept or ReadPacket, or the end

	onlyDials bool

	closed  bool
	done    chan struct{} // closed with it, for dials
	paused  bool
	ends    map[*memConn]struct{} // open ends of streams, those in the backlog included
	backlog []*memConn
	packets []memPacket // arrived
	held    []memPacket // written while paused
	flying  int         // written and neither arrived nor lost
}

type memPacket struct {
	data     []byte
	from, to string
}

func newMemEndpoint(m *Memory, addr string, clock *memClock) *memEndpoint {
	return &memEndpoint{
		m:     m,
		addr:  addr,
		clock: clock,
		cond:  sync.NewCond(&m.mu),
		done:  make(chan struct{}),
		ends:  make(map[*memConn]struct{}),
	}
}

func (e *memEndpoint) Addr() string {
	if e.onlyDials {
		return ""
	}
	return e.addr
}

func (e *memEndpoint) Accept() (net.Conn, error) {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	for !e.closed && (e.paused || len(e.backlog) == 0) {
		e.cond.Wait()
	}
	if e.closed {
		return nil, e.fail("accept", "", net.ErrClosed)
	}
	c := e.backlog[0]
	e.backlog = e.backlog[1:]
	return c, nil
}

// Dial takes one round trip. Nobody at the other end refuses it; a cut link keeps it waiting.
func (e *memEndpoint) Dial(ctx context.Context, addr string) (net.Conn, error) {
	to, err := canonical(addr)
	if err != nil {
		return nil, e.fail("dial", addr, err)
	}
	for {
		c, err := e.dialOnce(ctx, to)
		switch {
		case err != nil:
			return nil, e.fail("dial", to, err)
		case c != nil:
			return c, nil
		}
		if err := e.sleep(ctx, synRetry, nil); err != nil {
			return nil, e.fail("dial", to, err)
		}
	}
}

// dialOnce returns nil, nil if the far backlog is full.
func (e *memEndpoint) dialOnce(ctx context.Context, to string) (net.Conn, error) {
	if err := e.cross(ctx, e.addr, to); err != nil {
		return nil, err
	}
	if err := e.cross(ctx, to, e.addr); err != nil {
		return nil, err
	}
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	far := e.m.endpoints[to]
	switch {
	case e.closed:
		return nil, net.ErrClosed
	case far == nil || far.onlyDials || e.m.summary(e.addr, to).refuse:
		return nil, syscall.ECONNREFUSED
	case len(far.backlog) >= backlogSize:
		return nil, nil
	}
	near := net.JoinHostPort(hostOf(e.addr), strconv.Itoa(e.m.nextPort()))
	s := newMemStream(e, far, near)
	far.backlog = append(far.backlog, &s.ends[1])
	far.cond.Broadcast()
	return &s.ends[0], nil
}

// cross takes as long as something small takes from one address to the other on e's behalf, and waits while the
// link is cut or e is paused.
func (e *memEndpoint) cross(ctx context.Context, from, to string) error {
	for flown := false; ; {
		e.m.mu.Lock()
		faults := e.m.summary(from, to)
		blocked := faults.cut || e.paused
		changed := e.m.changed
		e.m.mu.Unlock()
		var err error
		switch {
		case blocked:
			flown = false
			err = e.sleep(ctx, -1, changed)
		case flown:
			return nil
		default:
			err = e.sleep(ctx, faults.delay, nil)
			flown = true
		}
		if err != nil {
			return err
		}
	}
}

// sleep waits for d (for ever if negative) or for wake, unless ctx or e ends first.
func (e *memEndpoint) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	var over <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return nil
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.done:
		return net.ErrClosed
	}
}

func (e *memEndpoint) WritePacket(b []byte, addr string) error {
	to, err := canonical(addr)
	if err == nil && len(b) > maxPacketSize {
		err = syscall.EMSGSIZE
	}
	if err != nil {
		return e.fail("write packet", addr, err)
	}
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	switch {
	case e.closed:
		return e.fail("write packet", addr, net.ErrClosed)
	case e.onlyDials:
		return e.fail("write packet", addr, errOnlyDials)
	}
	p := memPacket{data: append([]byte(nil), b...), from: e.addr, to: to}
	if !e.paused {
		e.launch(p)
	} else if len(e.held) < packetQueueSize {
		e.held = append(e.held, p)
	}
	return nil
}

// launch sends a packet on its way; it may be lost at either end of it.
func (e *memEndpoint) launch(p memPacket) {
	faults := e.m.summary(p.from, p.to)
	if faults.cut || e.m.chance(faults.drop) {
		return
	}
	e.fly(p, faults.delay)
	if e.m.chance(faults.duplicate) {
		e.fly(p, faults.delay+time.Duration(1+e.m.random.Int64N(int64(faults.delay))))
	}
}

func (e *memEndpoint) fly(p memPacket, d time.Duration) {
	if e.flying >= packetQueueSize {
		return
	}
	e.flying++
	time.AfterFunc(d, func() {
		e.m.mu.Lock()
		defer e.m.mu.Unlock()
		e.flying--
		far := e.m.endpoints[p.to]
		if far == nil || far.onlyDials || e.m.summary(p.from, p.to).cut || len(far.packets) >= packetQueueSize {
			return
		}
		far.packets = append(far.packets, p)
		far.cond.Broadcast()
	})
}

// ReadPacket cuts a packet short that is longer than b, as UDP does.
func (e *memEndpoint) ReadPacket(b []byte) (n int, from string, err error) {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	for !e.closed && (e.paused || len(e.packets) == 0) {
		e.cond.Wait()
	}
	if e.closed {
		return 0, "", e.fail("read packet", "", net.ErrClosed)
	}
	p := e.packets[0]
	e.packets = e.packets[1:]
	return copy(b, p.data), p.from, nil
}

func (e *memEndpoint) Now() time.Duration {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	return e.clock.read(time.Now())
}

func (e *memEndpoint) Close() error {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	if !e.closed {
		e.shut(false)
	}
	return nil
}

// shut ends the endpoint and its streams, by a reset if killed.
func (e *memEndpoint) shut(killed bool) {
	e.closed, e.paused = true, false
	close(e.done)
	delete(e.m.endpoints, e.addr)
	for c := range e.ends {
		c.shut(killed)
	}
	for s := range e.m.streams { // ends closed while it was paused
		e.m.follow(s)
	}
	e.backlog, e.packets, e.held = nil, nil, nil
	e.cond.Broadcast()
}

func (e *memEndpoint) setPaused(paused bool) {
	e.paused = paused
	if paused {
		return
	}
	for _, p := range e.held {
		e.launch(p)
	}
	e.held = nil
	e.cond.Broadcast()
	for c := range e.ends {
		c.cond.Broadcast()
	}
}

// at tells whether name, an address or a host, means this endpoint.
func (e *memEndpoint) at(name string) bool {
	name = place(name)
	return name == e.addr || name == hostOf(e.addr)
}

func (e *memEndpoint) fail(op, addr string, err error) error {
	opErr := &net.OpError{Op: op, Net: "memory", Source: memAddr(e.addr), Err: err}
	if addr != "" {
		opErr.Addr = memAddr(addr)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		opErr.Source = nil // it says no more than that the caller gave up
	}
	return opErr
}

// memClock is the lease clock of an address, or of the host of endpoints that only dial.
type memClock struct {
	base time.Duration // what it showed at since
	at   time.Time
	rate float64
}

// clock returns the clock of a place. Each starts from a value of its own: who compares two clocks shall see it.
func (m *Memory) clock(place string) *memClock {
	c := m.clocks[place]
	if c == nil {
		h := fnv.New32a()
		h.Write([]byte(place))
		c = &memClock{base: time.Duration(h.Sum32()) * time.Millisecond, at: time.Now(), rate: 1}
		m.clocks[place] = c
	}
	return c
}

func (c *memClock) read(now time.Time) time.Duration {
	passed := now.Sub(c.at)
	if c.rate == 1 {
		return c.base + passed
	}
	return c.base + time.Duration(float64(passed)*c.rate)
}

func (c *memClock) setRate(now time.Time, rate float64) {
	c.base, c.at, c.rate = c.read(now), now, rate
}
