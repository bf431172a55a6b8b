package coord_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// grant is how a Lock that ran in the background ended.
type grant struct {
	lock *coord.Lock
	err  error
}

// acquire locks name in the background.
func (c *cell) acquire(ctx context.Context, s *coord.Session, name string, opts ...coord.LockOption) <-chan grant {
	got := make(chan grant, 1)
	go func() {
		l, err := s.Lock(ctx, name, opts...)
		got <- grant{l, err}
	}()
	return got
}

// referee sees every grant of one name, as its holder gets it.
type referee struct {
	t *testing.T

	mu     sync.Mutex
	grants []*coord.Lock
	doubly int // moments at which two of them could act
	back   int // tokens that were not above the last one
}

// granted takes note of a grant. From its moment on no earlier one may act, and none ever will again.
func (r *referee) granted(l *coord.Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.Check() == nil {
		for _, earlier := range r.grants {
			if earlier.Check() == nil {
				r.doubly++
			}
		}
	}
	if n := len(r.grants); n > 0 && l.Token() <= r.grants[n-1].Token() {
		r.back++
	}
	r.grants = append(r.grants, l)
}

// count is how many grants there were.
func (r *referee) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.grants)
}

// verdict fails the test if anything was wrong.
func (r *referee) verdict() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.doubly > 0 || r.back > 0 {
		r.t.Errorf("of %d grants %d were given while another holder could act, %d had a token not above the last", len(r.grants), r.doubly, r.back)
	}
}

// contenders lock and unlock a name on every server again and again, whatever becomes of the servers, until stop is
// called, which returns when they have ended.
func (c *cell) contenders(r *referee, name string, perServer int) (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var all sync.WaitGroup
	for i := range c.size * perServer {
		all.Go(func() { c.contend(ctx, r, i%c.size, name) })
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func (c *cell) contend(ctx context.Context, r *referee, server int, name string) {
	var s *coord.Session
	for ctx.Err() == nil {
		n := c.node(server)
		if n == nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if s == nil || s.Err() != nil {
			var err error
			if s, err = n.NewSession(ctx, coord.WithTTL(ttl)); err != nil {
				c.expected(ctx, err)
				time.Sleep(20 * time.Millisecond)
				continue
			}
		}
		l, err := s.Lock(ctx, name)
		if err != nil {
			c.expected(ctx, err)
			continue
		}
		r.granted(l)
		time.Sleep(rand.N(200 * time.Millisecond))
		if err := l.Unlock(ctx); err != nil && !errors.Is(err, coord.ErrNotHeld) {
			c.expected(ctx, err)
		}
	}
}

// expected complains of errors that faults alone do not explain.
func (c *cell) expected(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil, errors.Is(err, coord.ErrSessionExpired), errors.Is(err, coord.ErrClosed):
	default:
		c.t.Errorf("under faults: %v", err)
	}
}
