//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord"
)

// lockName is a name of 24 bytes; those of neighbouring numbers lie far apart.
func lockName(i int) string { return fmt.Sprintf("lock/%08x/%010d", uint32(i)*2654435761, i) }

// lock takes locks under the sessions of this process in turn.
func (s *server) lock(ctx context.Context, o order) (report, error) {
	taken := make([]*coord.Lock, o.N)
	times, failed, err := together(o.Callers, o.N, func(i int) (err error) {
		taken[i], err = s.sessions[i%len(s.sessions)].Lock(ctx, lockName(o.First+i))
		return err
	})
	s.locks = append(s.locks, taken...)
	return report{Time: times, Done: o.N - failed, Failed: failed}, err
}

// release frees the first locks that were taken.
func (s *server) release(ctx context.Context, o order) (report, error) {
	n := min(o.N, len(s.locks))
	times, failed, err := together(o.Callers, n, func(i int) error { return s.locks[i].Unlock(ctx) })
	s.locks = s.locks[n:]
	return report{Time: times, Done: n - failed, Failed: failed}, err
}

// waitersPerSession keeps a session below the changes that it may have outstanding.
const waitersPerSession = 1024

// wait starts waiters, and returns when all have been started.
func (s *server) wait(ctx context.Context, o order) error {
	var x *coord.Session
	for i := range o.N * o.Each {
		if i%waitersPerSession == 0 {
			var err error
			if x, err = s.node.NewSession(ctx, coord.WithTTL(o.TTL)); err != nil {
				return err
			}
		}
		session, name := x, lockName(o.First+i%o.N)
		go func() { // ends with the grant, or the process
			l, err := session.Lock(ctx, name)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.grants = append(s.grants, time.Now().UnixNano())
			s.mu.Unlock()
			if o.Pass {
				_ = l.Unlock(ctx)
			}
		}()
	}
	return nil
}

// granted says how many waiters have a grant, and how long after Since they got it.
func (s *server) granted(o order) report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := report{Done: len(s.grants)}
	var took []time.Duration
	for _, at := range s.grants {
		took = append(took, time.Duration(at-o.Since))
		r.Last = max(r.Last, at)
	}
	r.Time = summarize(took)
	return r
}

// probe is a caller that is not part of the load: what it sees is what others see.
type probe struct {
	end  context.CancelFunc
	over sync.WaitGroup
	mu   sync.Mutex
	seen []probed
}

type probed struct {
	at   int64
	took time.Duration
	err  error
}

// probePause is the longest pause between two calls of a probe; on average it is half of that.
const probePause = 20 * time.Millisecond

func (s *server) startProbe(ctx context.Context) error {
	x, err := s.node.NewSession(ctx, coord.WithTTL(time.Minute))
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	p := &probe{end: end}
	s.probe = p
	name := fmt.Sprint("probe/", s.Number)
	p.over.Go(func() {
		for ctx.Err() == nil {
			begin := time.Now()
			l, err := x.Lock(ctx, name)
			if ctx.Err() != nil {
				return
			}
			p.mu.Lock()
			p.seen = append(p.seen, probed{begin.UnixNano(), time.Since(begin), err})
			p.mu.Unlock()
			if err == nil {
				_ = l.Unlock(ctx)
			}
			_ = wait(ctx, rand.N(probePause))
		}
	})
	return nil
}

// stop says how long the calls took that began after o.Since and, if it is not 0, within o.For from then.
func (p *probe) stop(o order) report {
	p.end()
	p.over.Wait()
	var r report
	var took []time.Duration
	for _, c := range p.seen {
		switch {
		case c.at < o.Since || o.For > 0 && c.at > o.Since+int64(o.For):
		case c.err != nil:
			r.Failed++
		default:
			took = append(took, c.took)
		}
	}
	r.Time, r.Done = summarize(took), len(took)
	return r
}

// ends looks at the number of sessions every few milliseconds.
type ends struct {
	done        chan struct{}
	over        sync.WaitGroup
	first, last int64 // when it shrank; Unix times in nanoseconds
	ended       int
}

func newEnds(node *coord.Node) *ends {
	e := &ends{done: make(chan struct{})}
	e.over.Go(func() {
		before := node.Status().Sessions
		for {
			select {
			case <-time.After(2 * time.Millisecond):
			case <-e.done:
				return
			}
			now := node.Status().Sessions
			if now < before {
				e.ended += before - now
				e.last = time.Now().UnixNano()
				if e.first == 0 {
					e.first = e.last
				}
			}
			before = now
		}
	})
	return e
}

func (e *ends) stop() report {
	close(e.done)
	e.over.Wait()
	return report{First: e.first, Last: e.last, Done: e.ended}
}

// load is callers that want as much as they can get, each a lock of its own.
func (s *server) load(ctx context.Context, o order) (report, error) {
	ctx, cancel := context.WithTimeout(ctx, o.For)
	defer cancel()
	var done, limited, failed atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for i := range o.N {
		x, name := s.sessions[i%len(s.sessions)], lockName(o.First+i)
		wg.Go(func() {
			for ctx.Err() == nil {
				begin := time.Now()
				l, err := x.Lock(ctx, name)
				if err == nil {
					err = l.Unlock(ctx)
				}
				switch {
				case ctx.Err() != nil:
				case errors.Is(err, coord.ErrLimit):
					limited.Add(1)
				case err != nil:
					failed.Add(1)
				default:
					done.Add(1)
					mu.Lock()
					took = append(took, time.Since(begin))
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return report{Time: summarize(took), Done: int(done.Load()), Limited: int(limited.Load()), Failed: int(failed.Load())}, nil
}
