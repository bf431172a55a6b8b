package store

import (
	"fmt"
	"io/fs"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord/internal/failstop"
)

// guard runs the calls of one store: each on a worker goroutine, within a time limit, and none once the switch has been
// tripped. It trips the switch itself on the first error. Safe for concurrent use.
//
// A worker serves one call at a time and is kept for the next, because bbolt needs a deep stack and growing a new one
// for each call costs more than handing the call over. There are as many workers as there were concurrent calls.
type guard struct {
	sw      *failstop.Switch
	log     *slog.Logger
	faults  Faults
	limit   time.Duration
	onStall func()
	retire  func(error) // marks the directory; runs at most once, on the worker that met the error

	stalling atomic.Bool // a call has overrun
	retiring sync.Once

	mu      sync.Mutex
	idle    []*worker
	closed  bool
	hung    int // workers whose calls were abandoned and have not ended
	running sync.WaitGroup
}

type worker struct {
	calls     chan call
	done      chan error // of one, so that an abandoned worker can end
	timer     *time.Timer
	abandoned bool // under guard.mu
}

type call struct {
	op Op
	fn func() error
}

// do runs fn and reports whether it ended in time and without error. Otherwise the switch has been tripped by the time
// do returns, and what fn writes to must not be read. An outcome that is no failure of the disk, such as an entry that
// is not there, must not be an error of fn's.
func (g *guard) do(op Op, fn func() error) bool { return g.doWithin(g.limit, op, fn) }

func (g *guard) doWithin(limit time.Duration, op Op, fn func() error) bool {
	if g.sw.Err() != nil {
		return false
	}
	w := g.take()
	if w == nil {
		g.sw.Trip(fmt.Errorf("%s: %w", op, ErrClosed))
		return false
	}
	w.timer.Reset(limit)
	w.calls <- call{op, fn}
	select {
	case err := <-w.done:
		w.timer.Stop()
		g.put(w)
		return err == nil
	case <-w.timer.C:
		g.abandon(w)
		g.stalled(op, limit)
		return false
	}
}

// take returns an idle worker or a new one; nil after close.
func (g *guard) take() *worker {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	if n := len(g.idle); n > 0 {
		w := g.idle[n-1]
		g.idle = g.idle[:n-1]
		return w
	}
	w := &worker{calls: make(chan call, 1), done: make(chan error, 1), timer: time.NewTimer(g.limit)}
	g.running.Go(func() { g.serve(w) })
	return w
}

func (g *guard) put(w *worker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		close(w.calls)
		return
	}
	g.idle = append(g.idle, w)
}

// abandon gives up a worker whose call has overrun. It ends when the call does.
func (g *guard) abandon(w *worker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.abandoned = true
	g.hung++
	close(w.calls)
}

// serve is a worker's goroutine.
func (g *guard) serve(w *worker) {
	for c := range w.calls {
		err := g.run(c)
		if err != nil {
			g.fail(c.op, err)
		}
		w.done <- err
		if err != nil && retires(err) {
			g.retiring.Do(func() { g.retire(err) })
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.abandoned {
		g.hung--
	}
}

func (g *guard) run(c call) error {
	if g.faults.Before != nil {
		if err := g.faults.Before(c.op); err != nil {
			return &fs.PathError{Op: "write", Path: string(c.op), Err: err}
		}
	}
	if err := protect(g.log, c.fn); err != nil {
		return err
	}
	if g.faults.After != nil {
		return g.faults.After(c.op)
	}
	return nil
}

// fail trips the switch. A worker calls it before it answers.
func (g *guard) fail(op Op, err error) {
	if g.sw.Trip(fmt.Errorf("store: %s: %w", op, err)) {
		g.log.Error("the store has failed; this node is silent from now on", "call", op, "error", err)
	}
}

// stalled trips the switch after having told the owner, who has one more limit to do something about it while the node
// can still speak. Every caller returns only once the switch has been tripped. Nothing here waits on a mutex, which
// would stop virtual time.
func (g *guard) stalled(op Op, limit time.Duration) {
	if !g.stalling.CompareAndSwap(false, true) {
		<-g.sw.Tripped()
		return
	}
	if g.onStall != nil && g.sw.Err() == nil {
		told := make(chan struct{})
		go func() {
			defer close(told)
			g.onStall()
		}()
		timer := time.NewTimer(g.limit)
		defer timer.Stop()
		select {
		case <-told:
		case <-timer.C:
		}
	}
	g.fail(op, fmt.Errorf("%w: the call has not returned within %v", ErrStalled, limit))
}

// close lets no further call begin. It returns a channel that is closed when the last call has ended, and whether there
// are calls that may never end.
func (g *guard) close() (ended <-chan struct{}, hung bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, w := range g.idle {
		close(w.calls)
	}
	g.idle = nil
	done := make(chan struct{})
	go func() {
		g.running.Wait()
		close(done)
	}()
	return done, g.hung > 0
}

// protect turns a panic or a fault of fn into an error. bbolt panics about pages that make no sense, and reads through a
// memory map, where a page that the disk cannot give is a fault.
func protect(log *slog.Logger, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			log.Error("panic in the store", "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}()
	return fn()
}
