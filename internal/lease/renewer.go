package lease

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
)

const (
	// maxInFlight bounds the messages that have not been answered. One more displaces the oldest.
	maxInFlight = 4
	// minRetry and maxRetry bound the time after which a renewal that failed, or was not answered, is sent again.
	// In between it is a tenth of the TTL.
	minRetry = 50 * time.Millisecond
	maxRetry = 10 * time.Second
)

// Reply is the cell's answer to a renewal message. A session of the message that is in neither list was acknowledged.
type Reply struct {
	Dead  []fsm.SessionID // sessions that the cell knows have ended
	Again []fsm.SessionID // sessions about which the cell says nothing yet: neither acknowledged nor ended
	Marks []fsm.Mark      // what holders have to stop; whoever sends sees to that before the Renewer gets the answer
}

// Send carries one renewal message to the cell and waits for the answer. number is above that of every earlier message.
// It returns soon after ctx has ended. It may be called by several goroutines at once; ids is the callee's.
type Send func(ctx context.Context, number uint64, ids []fsm.SessionID) (Reply, error)

// Renewer renews the leases of one node: all with one message an interval, three times a TTL. Its methods may be called
// concurrently.
type Renewer struct {
	now  func() time.Duration
	send Send
	wake chan struct{} // holds one: look again at who is due

	mu       sync.Mutex
	sessions map[fsm.SessionID]*session
	next     time.Duration // when Run will look again at who is due, on the lease clock
	number   uint64        // of the last message
	failures int           // messages that failed since the last one that did not
	inFlight []*message    // oldest first; the displaced ones included until their Send has returned
}

// session is one lease that is kept alive.
type session struct {
	id    fsm.SessionID
	lease *Lease
	due   time.Duration // when it must travel next
	acked time.Duration // when the newest acknowledged message was sent
	last  uint64        // number of the last message that it travelled in
}

// message is one renewal message on its way.
type message struct {
	number   uint64
	sent     time.Duration
	sessions []*session
	ctx      context.Context // of its Send
	cancel   context.CancelFunc
}

// NewRenewer returns a renewer that sends nothing before Run. now is the lease clock.
func NewRenewer(now func() time.Duration, send Send) *Renewer {
	return &Renewer{now: now, send: send, wake: make(chan struct{}, 1), sessions: make(map[fsm.SessionID]*session)}
}

// Run sends renewals until ctx ends, and returns when the last Send has returned. It is called once.
func (r *Renewer) Run(ctx context.Context) {
	var sends sync.WaitGroup
	defer sends.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.wake:
		}
		m, next := r.gather(ctx)
		if m != nil {
			sends.Go(func() { r.carry(m) })
		}
		timer.Reset(next)
	}
}

// Add starts to renew the lease of session id, and stops by itself when the lease has ended.
func (r *Renewer) Add(id fsm.SessionID, l *Lease) {
	acked, ok := l.renewed()
	if !ok {
		return
	}
	s := &session{id: id, lease: l, due: acked + interval(l.ttl), acked: acked}
	r.mu.Lock()
	r.sessions[id] = s
	sooner := s.due < r.next
	r.mu.Unlock()
	if sooner { // not always: to look is to look at all of them, and a process may open thousands of sessions a second
		r.kick()
	}
}

// Remove stops to renew session id. Its lease is the caller's to end, before.
func (r *Renewer) Remove(id fsm.SessionID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, id)
}

// Tick ends the leases whose time is up and sends what is due. The node calls it every 100 ms: timers stand still while
// the machine sleeps.
func (r *Renewer) Tick() {
	now := r.now()
	due := false
	r.mu.Lock()
	for id, s := range r.sessions {
		if !s.lease.Tick() {
			delete(r.sessions, id)
		}
		due = due || s.due <= now
	}
	r.mu.Unlock()
	if due {
		r.kick()
	}
}

// gather returns the next message, nil if nobody is due, and how long to wait before asking again.
//
// Whoever is due takes along all who would be due within half an interval, its own or theirs, whichever is shorter.
// Sessions that were opened at different moments so come to travel together after two rounds, and stay together, and a
// long session does not travel as often as a short one.
func (r *Renewer) gather(ctx context.Context) (*message, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.now()                             // before anything is sent: the lease counts from here
	next, longest := maxRetry, time.Duration(0) // longest: of the TTLs of those who are due
	for id, s := range r.sessions {
		if !s.lease.Tick() {
			delete(r.sessions, id)
			continue
		}
		next = min(next, s.due-sent)
		if s.due <= sent {
			longest = max(longest, s.lease.ttl)
		}
	}
	if next > 0 {
		return nil, r.lookIn(next, sent)
	}
	if !r.makeRoom() {
		return nil, r.lookIn(maxRetry, sent) // the end of a Send wakes us
	}
	r.number++
	m := &message{number: r.number, sent: sent}
	m.ctx, m.cancel = context.WithCancel(ctx)
	r.inFlight = append(r.inFlight, m)
	next = maxRetry
	for _, s := range r.sessions {
		if s.due-min(s.lease.ttl, longest)/6 <= sent {
			m.sessions = append(m.sessions, s)
			s.last = m.number
			s.due = sent + jitter(retry(s.lease.ttl)) // unless it is acknowledged before
		}
		next = min(next, s.due-sent)
	}
	return m, r.lookIn(next, sent)
}

// lookIn notes that Run looks again that long after now, and returns what to set its timer to. Under mu.
func (r *Renewer) lookIn(next, now time.Duration) time.Duration {
	next = wait(next)
	r.next = now + next
	return next
}

// makeRoom reports whether one more message may be sent; if not it has displaced the oldest. A Send that is stuck so
// never keeps a session from being renewed.
func (r *Renewer) makeRoom() bool {
	if len(r.inFlight) < maxInFlight {
		return true
	}
	r.inFlight[0].cancel()
	return false
}

// carry sends one message and applies its answer.
func (r *Renewer) carry(m *message) {
	defer m.cancel()
	ids := make([]fsm.SessionID, len(m.sessions))
	for i, s := range m.sessions {
		ids[i] = s.id
	}
	reply, err := r.send(m.ctx, m.number, ids)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight = slices.DeleteFunc(r.inFlight, func(f *message) bool { return f == m })
	if err != nil {
		r.failures++
		r.failed(m)
	} else {
		r.failures = 0
		r.answered(m, reply)
	}
	r.kick()
}

// answered applies the answer to a message. Under mu.
func (r *Renewer) answered(m *message, reply Reply) {
	refused := make(map[fsm.SessionID]error, len(reply.Dead)+len(reply.Again))
	for _, id := range reply.Again {
		refused[id] = nil
	}
	for _, id := range reply.Dead {
		refused[id] = ErrExpired
	}
	for _, s := range m.sessions {
		cause, named := refused[s.id]
		switch {
		case cause != nil:
			s.lease.End(cause)
		case named:
			// It is due again by the time set when the message left.
		case s.lease.Renewed(m.sent) && m.sent > s.acked:
			s.acked = m.sent
			s.due = m.sent + interval(s.lease.ttl)
		}
	}
}

// failed makes the sessions of a message that got no answer due again soon, unless they travel in a later one by now:
// sooner after the first failure than after many. Under mu.
func (r *Renewer) failed(m *message) {
	backoff := minRetry << min(r.failures-1, 16)
	now := r.now()
	for _, s := range m.sessions {
		if s.last == m.number {
			s.due = now + jitter(min(backoff, retry(s.lease.ttl)))
		}
	}
}

func (r *Renewer) kick() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// interval is the time between two renewals: a third of the TTL, and up to a tenth of that less, so that clients which
// came at the same moment do not renew at the same moment for ever.
func interval(ttl time.Duration) time.Duration {
	return ttl/3 - rand.N(ttl/30+1)
}

// retry is the longest time between two tries to renew.
func retry(ttl time.Duration) time.Duration {
	return min(max(ttl/10, minRetry), maxRetry)
}

// jitter takes up to a quarter off d.
func jitter(d time.Duration) time.Duration { return d - rand.N(d/4+1) }
