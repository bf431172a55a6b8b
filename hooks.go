package coord

import (
	"sync/atomic"
	"time"

	"github.com/coordcell/coord/fsm"
)

// Hooks are told what happens in the cell, as this node's replica learns it: for metrics and logs, not for decisions.
// They are called one after the other, in order, on one goroutine of the node, from a bounded queue: a hook that is slow
// delays no call and no other node, and what overflows meanwhile is left out and counted (Dropped of the next call that
// does come). On a client only LeaderChanged is called: it has no replica. They begin when the node has caught up with its cell: what lies before that in the log is not told. A hook must not end its node: Shutdown and Close wait for it.
type Hooks struct {
	Granted       func(GrantInfo)
	Released      func(ReleaseInfo)
	SessionEnded  func(SessionEndInfo)
	LeaderChanged func(LeaderInfo)
}

// GrantInfo tells of a grant.
type GrantInfo struct {
	Lock    string
	Session SessionID
	Label   string
	Token   Token
	Names   []string // of a LockAll: all of them; Lock is the first. Otherwise nil
	Shared  bool
	Slot    int
	Waited  time.Duration // as this node has seen it, within 100 ms
	Dropped uint64        // calls left out so far because the hooks were too slow
}

// ReleaseInfo tells of the end of a grant.
type ReleaseInfo struct {
	Lock    string
	Session SessionID
	Label   string
	Token   Token
	Held    time.Duration // as this node has seen it, within 100 ms
	Names   []string      // as in GrantInfo
	Reason  error         // ErrUnlocked (also when it was handed over), ErrSessionClosed, ErrSessionExpired, ErrLockExpired or ErrRevoked
	Dropped uint64
}

// SessionEndInfo tells of the end of a session.
type SessionEndInfo struct {
	Session SessionID
	Label   string
	Reason  error // ErrSessionClosed or ErrSessionExpired
	Dropped uint64
}

// LeaderInfo tells who leads the cell.
type LeaderInfo struct {
	Leader  string // its id; "" when nobody is known to
	Term    uint64
	Dropped uint64
}

// hooksQueued bounds the calls of hooks that wait.
const hooksQueued = 4096

// hookQueue carries calls of hooks from the goroutines on which things happen to the one on which hooks run.
type hookQueue struct {
	hooks   Hooks
	queue   chan func()
	dropped atomic.Uint64
}

func newHookQueue(h Hooks) *hookQueue {
	return &hookQueue{hooks: h, queue: make(chan func(), hooksQueued)}
}

// run calls hooks until the node has stopped, and then those that are still queued.
func (q *hookQueue) run(srv cell) {
	srv.Go(func() {
		for {
			select {
			case call := <-q.queue:
				call()
			case <-srv.Stopping():
				for {
					select {
					case call := <-q.queue:
						call()
					default:
						return
					}
				}
			}
		}
	})
}

func (q *hookQueue) push(call func()) {
	select {
	case q.queue <- call:
	default:
		q.dropped.Add(1)
	}
}

// applied is called for each entry that this node applies. An entry holds many changes: what it released and granted is
// told in the order of the log.
func (q *hookQueue) applied(out *fsm.Output, since func(fsm.Revision) time.Duration) {
	if q.hooks.Granted == nil && q.hooks.Released == nil && q.hooks.SessionEnded == nil {
		return
	}
	releases := releasesOf(out)
	told := 0 // releases
	for _, g := range out.Grants {
		for ; told < releases.before(g); told++ {
			q.released(&out.Releases[told], since)
		}
		q.granted(g, since)
	}
	for ; told < len(out.Releases); told++ {
		q.released(&out.Releases[told], since)
	}
	if q.hooks.SessionEnded != nil {
		for _, s := range out.Ended {
			if s.Internal {
				continue
			}
			info := SessionEndInfo{Session: s.Session, Label: s.Label, Reason: ErrSessionExpired}
			if s.Closed {
				info.Reason = ErrSessionClosed
			}
			q.push(func() { info.Dropped = q.dropped.Load(); q.hooks.SessionEnded(info) })
		}
	}
}

func (q *hookQueue) granted(g fsm.GrantEvent, since func(fsm.Revision) time.Duration) {
	if q.hooks.Granted == nil {
		return
	}
	info := GrantInfo{Lock: g.Name, Session: g.Session, Label: g.Label, Token: Token(g.Token), Names: g.Names, Shared: g.Shared, Slot: g.Slot}
	if g.Queued != 0 {
		info.Waited = since(g.Queued)
	}
	q.push(func() { info.Dropped = q.dropped.Load(); q.hooks.Granted(info) })
}

func (q *hookQueue) released(r *fsm.ReleaseEvent, since func(fsm.Revision) time.Duration) {
	if q.hooks.Released == nil {
		return
	}
	info := ReleaseInfo{
		Lock: r.Name, Session: r.Session, Label: r.Label, Token: Token(r.Token), Held: since(r.Token), Names: r.Names,
		Reason: releaseReason(r.Reason),
	}
	q.push(func() { info.Dropped = q.dropped.Load(); q.hooks.Released(info) })
}

// releaseOrder finds out which releases of an entry came before a grant: all up to that of the name's last holder. (Both
// lists are in the order of the log, and tokens rise.)
type releaseOrder struct {
	out    *fsm.Output
	byName map[string][]int
}

func releasesOf(out *fsm.Output) releaseOrder {
	o := releaseOrder{out: out}
	if len(out.Grants) > 0 && len(out.Releases) > 0 {
		o.byName = make(map[string][]int, len(out.Releases))
		for i, r := range out.Releases {
			o.byName[r.Name] = append(o.byName[r.Name], i)
		}
	}
	return o
}

// before is how many releases came before g, at least.
func (o releaseOrder) before(g fsm.GrantEvent) int {
	ofName := o.byName[g.Name]
	for k := len(ofName) - 1; k >= 0; k-- {
		if i := ofName[k]; o.out.Releases[i].Token < g.Token {
			return i + 1
		}
	}
	return 0
}

func (q *hookQueue) leaderChanged(leader string, term uint64) {
	if q.hooks.LeaderChanged != nil {
		info := LeaderInfo{Leader: leader, Term: term}
		q.push(func() { info.Dropped = q.dropped.Load(); q.hooks.LeaderChanged(info) })
	}
}

func releaseReason(r fsm.ReleaseReason) error {
	switch r {
	case fsm.Unlocked, fsm.HandedOver:
		return ErrUnlocked
	case fsm.LockExpired:
		return ErrLockExpired
	case fsm.GrantRevoked:
		return ErrRevoked
	case fsm.SessionClosed:
		return ErrSessionClosed
	default:
		return ErrSessionExpired
	}
}
