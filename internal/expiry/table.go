package expiry

import (
	"context"
	"iter"
	"math"
	"sync"
	"time"
)

// Config is what a Table of leases known by K needs from the node. All fields are required.
type Config[K comparable] struct {
	// Now is the lease clock.
	Now func() time.Duration
	// Evidence waits until a quorum of voters has answered something that was sent, in this term, after the call. It
	// may wait for as long as ctx, and returns soon after ctx has ended.
	Evidence func(ctx context.Context, term uint64) error
	// Compare orders the names of leases, so that an entry lists them in the same order however often it is proposed.
	Compare func(a, b K) int
	// Propose has the end of the leases written to the log, decided in term, and returns when that entry was applied
	// here, or with an error if it is not known to have been; and soon after ctx has ended. ids is the callee's. It may
	// be called by several goroutines at once.
	Propose func(ctx context.Context, term uint64, ids []K) error
}

// Table holds the deadlines of leases that a leader has given: of sessions, or of single locks. A lease that nobody
// renews is a delay: it ends a TTL after it was opened, or after a new leader's term began.
//
// Its methods may be called concurrently, and none of them waits for the network or the disk; but Start, Opened and Ended
// must come in the order of the log.
type Table[K comparable] struct {
	cfg   Config[K]
	terms sync.WaitGroup // the goroutines of every term

	mu     sync.Mutex
	closed bool
	stop   context.CancelFunc // ends the running term; nil while there is none
	term   uint64             // 0 while there is none

	live     map[K]*lease[K]
	expiring map[K]struct{} // marked, not yet ended; maxRound at most
	wheel    wheel[K]
	due      *lease[K] // a list of those whose deadline had passed when it was looked at
	pauses   pauses
}

// lease is what the leader remembers of one that lasts. There are many: of a session, 48 bytes.
type lease[K comparable] struct {
	id      K
	ttl     time.Duration
	renewed time.Duration // when the last renewal arrived, on the lease clock
	paused  time.Duration // pauses.total then
	number  uint64        // of the last renewal
	next    *lease[K]     // in its slot of the wheel
}

// New returns a table without a term.
func New[K comparable](cfg Config[K]) *Table[K] { return &Table[K]{cfg: cfg} }

// Start begins a term: from now on every session has a full TTL, whatever was before. It is called when this server,
// as the leader, has applied the first entry of its term.
func (t *Table[K]) Start(term uint64, sessions iter.Seq2[K, time.Duration]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
	if t.closed {
		return
	}
	now := t.cfg.Now()
	t.term = term
	t.live = make(map[K]*lease[K])
	t.expiring = make(map[K]struct{})
	t.wheel = newWheel[K](now)
	t.pauses = pauses{seen: now, shortest: math.MaxInt64}
	for id, ttl := range sessions {
		t.open(id, ttl, now)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.stop = cancel
	t.terms.Go(func() { t.watchClock(ctx) })
	t.terms.Go(func() { t.expire(ctx, term) })
}

// Stop ends the term: nothing is renewed and nobody expires until the next Start. It does not wait.
func (t *Table[K]) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
}

// Close stops the table for good, and returns when its goroutines have ended.
func (t *Table[K]) Close() {
	t.mu.Lock()
	t.closed = true
	t.end()
	t.mu.Unlock()
	t.terms.Wait()
}

// Opened says that an entry which opens a session was applied.
func (t *Table[K]) Opened(id K, ttl time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.term != 0 {
		t.open(id, ttl, t.look())
	}
}

// Ended says that an entry which ends a session was applied, in whatever way it ended.
func (t *Table[K]) Ended(id K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.live, id) // the wheel forgets it when its slot comes
	delete(t.expiring, id)
}

// Hasten says that there is nothing more to wait for: the end of the lease is proposed as soon as there is evidence,
// under the same rules.
func (t *Table[K]) Hasten(id K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.live[id]
	if !ok || s.ttl == 0 { // it was hastened before
		return
	}
	t.due = &lease[K]{id: id, renewed: t.look(), paused: t.pauses.total, number: s.number, next: t.due}
	t.live[id] = t.due // the wheel forgets the other when its slot comes
}

// Renew gives the session a full TTL from now. False: the renewal must not be acknowledged, because no term runs, the
// session is unknown or marked, or the number is not above the last one. True: it may be, once there is evidence from
// after the call, and if Expiring says false then.
//
// A message that was overtaken or comes twice lengthens nothing, and the newer one is acknowledged in its place.
func (t *Table[K]) Renew(id K, number uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.live[id]
	if s == nil || number <= s.number {
		return false
	}
	s.number = number
	s.renewed = t.look()
	s.paused = t.pauses.total
	return true
}

// Expiring reports whether the session is marked: its end is decided, and perhaps already written.
func (t *Table[K]) Expiring(id K) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, marked := t.expiring[id]
	return marked
}

// open gives a session its first TTL. Under mu, in a term.
func (t *Table[K]) open(id K, ttl, now time.Duration) {
	s := &lease[K]{id: id, ttl: ttl, renewed: now, paused: t.pauses.total}
	t.live[id] = s
	t.pauses.shortest = min(t.pauses.shortest, ttl)
	t.wheel.file(s, now+ttl)
}

// end ends the term, if there is one. Under mu.
func (t *Table[K]) end() {
	if t.stop != nil {
		t.stop()
	}
	t.stop, t.term, t.live, t.expiring, t.wheel, t.due = nil, 0, nil, nil, wheel[K]{}, nil
}

// look reads the clock, and notices a pause. Whoever acts on the time reads it here. Under mu, in a term.
func (t *Table[K]) look() time.Duration {
	now := t.cfg.Now()
	t.pauses.look(now)
	return now
}

// deadline is when a lease ends unless it is renewed. Under mu, in a term.
func (t *Table[K]) deadline(s *lease[K]) time.Duration {
	return t.pauses.deadline(s.renewed, s.ttl, s.paused)
}
