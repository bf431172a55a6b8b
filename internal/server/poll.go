package server

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/hub"
	"github.com/coordcell/coord/internal/wire"
)

// pollBytes bounds the keys and values in one answer to a Poll, but for those of a single event.
const pollBytes = 1 << 20

// poll is a client's question for changes. It waits without a goroutine: the hub says when there may be something, and a
// turn of the hub's pump looks.
type poll struct {
	s     *Server
	req   *calls.Request
	ask   wire.Poll
	until time.Time

	mu     sync.Mutex
	cursor *hub.Cursor
	stop   func() bool // of what ends it when the client's connection is gone
	over   bool
}

// servePoll takes a client's question for changes.
func (s *Server) servePoll(ctx context.Context, req *calls.Request) {
	m, err := wire.DecodePoll(req.Payload)
	if err != nil {
		req.Fail(err)
		return
	}
	req.Payload = nil
	p := &poll{s: s, req: req, ask: m}
	if m.Wait {
		p.until = time.Now().Add(caller.PollWait(s.cfg.ElectionTimeout))
	}
	turn := s.hub.Pump().Turn(p.look)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cursor, err = s.hub.Watch(hub.Options{Key: m.Key, Prefix: m.Prefix, Previous: m.Previous, From: m.From, HasFrom: true}, turn.Wake)
	if err != nil {
		p.over = true
		p.say(wire.PollAnswer{}, err)
		return
	}
	p.stop = context.AfterFunc(ctx, p.gone)
	turn.Wake()
}

// look pulls what there is, and answers if that is something or if the time is up.
func (p *poll) look() hub.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := wire.PollAnswer{Next: p.ask.From}
	for size := 0; !p.over && size < pollBytes && !a.Partial; {
		b, err := p.cursor.Next()
		switch {
		case err != nil:
			p.finish(a, err)
		case b == nil && size == 0 && p.ask.Wait:
			return hub.Done
		case b == nil:
			p.finish(a, nil)
		case len(b.Events) == 0:
			if a.Next = max(a.Next, b.Revision+1); size > 0 || !time.Now().Before(p.until) {
				p.finish(a, nil)
			}
		default:
			size += p.add(&a, b)
		}
	}
	p.finish(a, nil)
	return hub.Done
}

// add adds a batch to an answer, or a part of one that is too large.
func (p *poll) add(a *wire.PollAnswer, b *hub.Batch) (size int) {
	skip := 0
	if b.Revision == p.ask.From {
		skip = min(p.ask.Skip, len(b.Events))
	}
	a.Next = b.Revision + 1
	if size = b.Size(); skip == 0 && size <= pollBytes {
		a.Batches = append(a.Batches, b.Frame(frameOf))
		return size + 1
	}
	size = 0
	events := b.Events[skip:]
	for i := range events {
		n := len(events[i].Key) + len(events[i].Value) + len(events[i].Previous)
		if i > 0 && size+n > pollBytes {
			events, a.Partial, a.Next = events[:i], true, b.Revision
			break
		}
		size += n
	}
	if len(a.Batches) > 0 { // it begins an answer of its own
		a.Partial, a.Next = false, b.Revision
		return pollBytes
	}
	a.Batches = append(a.Batches, wire.PollBatch{Revision: b.Revision, Events: events}.Append(nil))
	return size + 1
}

// frameOf is the frame of a batch, the same for all who ask for it.
func frameOf(b *hub.Batch) []byte {
	return wire.PollBatch{Revision: b.Revision, Events: b.Events}.Append(nil)
}

// finish answers, once. Under mu.
func (p *poll) finish(a wire.PollAnswer, err error) {
	if p.over {
		return
	}
	p.over = true
	p.stop()
	p.cursor.Close()
	if err != nil && len(a.Batches) > 0 {
		err = nil // the next one is told
	}
	p.say(a, err)
}

func (p *poll) say(a wire.PollAnswer, err error) {
	switch {
	case errors.Is(err, hub.ErrCompacted):
		a.Compacted = true
	case err != nil:
		p.req.Fail(err)
		return
	}
	a.Age = p.s.EvidenceAge()
	p.req.Reply(a.Append(nil))
}

// gone is called when the client's connection is gone.
func (p *poll) gone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.over = true
		p.cursor.Close()
	}
}

// servePollLock tells a client who holds a lock, when that is somebody else than it knows.
func (s *Server) servePollLock(ctx context.Context, req *calls.Request) {
	m, err := wire.DecodePollLock(req.Payload)
	if err != nil {
		req.Fail(err)
		return
	}
	s.later(req, func() ([]byte, error) {
		o := s.hub.Observe(m.Name)
		defer o.Close()
		ctx, done := context.WithTimeout(ctx, caller.PollWait(s.cfg.ElectionTimeout))
		defer done()
		view, err := o.Next(ctx, nil)
		for err == nil && digest(view) == m.Known {
			view, err = o.Next(ctx, func(before, after fsm.LockView) bool { return digest(before) != digest(after) })
		}
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
		a := wire.PollLockAnswer{Digest: digest(view), Freeing: view.Freeing, Holders: view.Holders}
		if err != nil { // the time is up, and nothing has changed
			a = wire.PollLockAnswer{Digest: m.Known}
		}
		return a.Append(nil), nil
	})
}

// digest tells two holders of a lock apart, and two of its data.
func digest(v fsm.LockView) uint64 {
	h := fnv.New64a()
	var b [8]byte
	number := func(n uint64) {
		binary.BigEndian.PutUint64(b[:], n)
		_, _ = h.Write(b[:])
	}
	if v.Freeing {
		number(1)
	}
	for _, x := range v.Holders {
		number(uint64(x.Session))
		number(uint64(x.Token))
		number(uint64(len(x.Data)))
		_, _ = h.Write(x.Data)
	}
	return max(h.Sum64(), 1)
}
