package fence

import (
	"context"
	"sync"
)

// Memory is a Guard for state that lives in this process, and is lost with it.
//
// Writes to one resource run one at a time; writes to different resources do not wait for each other. A token counts as
// accepted from the moment before its write runs, whether or not the write then fails or panics: what a later holder
// has begun, a former one must not finish.
//
// It keeps a few words for each name it has ever accepted a token for: it could forget one only by letting former holders
// in again. Use it with a set of names that is bounded.
type Memory struct {
	mu        sync.Mutex
	resources map[string]*resource
}

type resource struct {
	turn    chan struct{} // holds one element while nobody has the turn
	highest Token         // belongs to whoever has the turn
}

var _ Guard = (*Memory)(nil)

// NewMemory returns a guard that has accepted nothing yet.
func NewMemory() *Memory { return &Memory{resources: make(map[string]*resource)} }

// Do implements Guard. While write runs, the resource is locked and ctx is write's to honour.
func (m *Memory) Do(ctx context.Context, name string, t Token, write func(ctx context.Context) error) error {
	if t == 0 {
		return ErrNoToken
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r := m.resource(name)
	select {
	case <-r.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { r.turn <- struct{}{} }()

	if err := ctx.Err(); err != nil { // select takes either case when both are ready
		return err
	}
	if t < r.highest {
		return &StaleError{Resource: name, Got: t, Highest: r.highest}
	}
	r.highest = t
	return write(ctx)
}

func (m *Memory) resource(name string) *resource {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.resources[name]
	if r == nil {
		r = &resource{turn: make(chan struct{}, 1)}
		r.turn <- struct{}{}
		m.resources[name] = r
	}
	return r
}
