package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/wire"
)

const (
	partBytes    = 1 << 20          // of names and values in one part of an answer, but for a single larger one
	partKeys     = 512              // keys looked at in one step
	remnantsMost = 256              // answers that clients have read in part
	remnantsKept = 10 * time.Second // without being asked for
)

// answering cuts what a Read has found into parts that fit a frame. All are of the state at one moment.
type answering struct {
	state *fsm.State // of a list
	read  wire.Read
	left  int // of a list: keys up to its limit

	lock *wire.ReadAnswer // of a lock: what has not been sent
}

func (s *Server) answering(r wire.Read) *answering {
	a := &answering{read: r}
	if r.Kind == wire.ReadList {
		a.state, a.left = s.replica.Clone(), r.Limit
		if a.left == 0 {
			a.left = math.MaxInt
		}
		return a
	}
	found := s.look(r)
	a.lock = &found
	return a
}

// next is the next part, and whether it is the last one.
func (a *answering) next() (part wire.ReadAnswer, last bool) {
	if a.state != nil {
		return a.nextKeys()
	}
	part = *a.lock
	bytes, holders, waiters := 0, 0, 0
	for holders < len(part.Lock.Holders) && bytes < partBytes {
		bytes += holderBytes(part.Lock.Holders[holders])
		holders++
	}
	for waiters < len(part.Lock.Queue) && bytes < partBytes {
		bytes += waiterBytes(part.Lock.Queue[waiters])
		waiters++
	}
	rest := part
	rest.Locks, rest.Sessions, rest.Lock.Delayed = nil, nil, nil
	rest.Lock.Holders, rest.Held = part.Lock.Holders[holders:], part.Held[holders:]
	rest.Lock.Queue, rest.Waited = part.Lock.Queue[waiters:], part.Waited[waiters:]
	part.Lock.Holders, part.Held = part.Lock.Holders[:holders], part.Held[:holders]
	part.Lock.Queue, part.Waited = part.Lock.Queue[:waiters], part.Waited[:waiters]
	a.lock = &rest
	return part, len(rest.Lock.Holders)+len(rest.Lock.Queue) == 0
}

func (a *answering) nextKeys() (part wire.ReadAnswer, last bool) {
	part.Revision, part.More = a.state.Revision(), true
	for bytes := 0; part.More && a.left > 0 && bytes < partBytes; {
		var kvs []fsm.KeyValue
		kvs, part.More = a.state.List(a.read.Name, a.read.After, min(a.left, partKeys))
		for i, kv := range kvs {
			if size := len(kv.Key) + len(kv.Value); i == 0 || bytes+size <= partBytes {
				bytes += size + 16
				continue
			}
			kvs, part.More, bytes = kvs[:i], true, partBytes
			break
		}
		part.Keys = append(part.Keys, kvs...)
		a.left -= len(kvs)
		if len(kvs) > 0 {
			a.read.After = kvs[len(kvs)-1].Key
		}
	}
	return part, !part.More || a.left == 0
}

// remnants are answers of which clients have read a part. One that is lost the client reads from the beginning.
type remnants struct {
	mu      sync.Mutex
	all     map[uint64]*remnant
	looking bool // a goroutine removes what nobody asks for
}

type remnant struct {
	peer   string
	answer *answering
	used   time.Time
}

func (r *remnants) keep(id uint64, x *remnant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[uint64]*remnant)
	}
	x.used = time.Now()
	r.all[id] = x
	if len(r.all) <= remnantsMost {
		return
	}
	oldest := id
	for other, y := range r.all {
		if y.used.Before(r.all[oldest].used) {
			oldest = other
		}
	}
	delete(r.all, oldest)
}

// take removes what is left for a peer; nil: nothing.
func (r *remnants) take(id uint64, peer string) *remnant {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.all[id]
	if x == nil || x.peer != peer {
		return nil
	}
	delete(r.all, id)
	return x
}

// watch says whether the caller is to remove old ones from now on.
func (r *remnants) watch() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.looking
	r.looking = true
	return first
}

// sweep removes old ones. It reports whether there are others; if not, the watch is over.
func (r *remnants) sweep() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, x := range r.all {
		if time.Since(x.used) > remnantsKept {
			delete(r.all, id)
		}
	}
	r.looking = len(r.all) > 0
	return r.looking
}

// serveRead answers a client from this server's replica, when that is fresh or at once if that is enough.
func (s *Server) serveRead(ctx context.Context, req *calls.Request) {
	r, err := wire.DecodeRead(req.Payload)
	if err == nil && (r.Kind < wire.ReadKey || r.Kind > wire.ReadRevision) {
		err = fmt.Errorf("a read of kind %d", r.Kind)
	}
	if err != nil {
		req.Fail(err)
		return
	}
	s.later(req, func() ([]byte, error) {
		if !r.Stale {
			ctx, done := context.WithTimeout(ctx, 2*s.cfg.ElectionTimeout)
			defer done()
			if err := s.Fresh(ctx); err != nil {
				return nil, err
			}
		}
		return s.nextPart(&remnant{peer: req.Peer, answer: s.answering(r)}, rand.Uint64()|1), nil
	})
}

// errForgotten is why the rest of an answer cannot be had any more.
var errForgotten = errors.New("the rest of the answer has been forgotten")

func (s *Server) serveReadRest(req *calls.Request) {
	m, err := wire.DecodeReadRest(req.Payload)
	if err != nil {
		req.Fail(err)
		return
	}
	x := s.remnants.take(m.Rest, req.Peer)
	if x == nil {
		req.Fail(errForgotten)
		return
	}
	s.later(req, func() ([]byte, error) { return s.nextPart(x, m.Rest), nil })
}

// nextPart encodes the next part of an answer, and keeps what is left.
func (s *Server) nextPart(x *remnant, id uint64) []byte {
	part, last := x.answer.next()
	if !last {
		part.Rest = id
		s.remnants.keep(id, x)
		if s.remnants.watch() {
			s.Go(func() {
				for sleep(s.stop, remnantsKept/2); s.stop.Err() == nil && s.remnants.sweep(); sleep(s.stop, remnantsKept/2) {
				}
			})
		}
	}
	return part.Append(nil)
}
