package caller

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/coordcell/coord/internal/cancel"
)

// farewellStep bounds how long a node tries to end its sessions before it goes.
const farewellStep = 5 * time.Second

// Life is the life of a node, from its start until everything that it began has ended. Its methods may be called
// concurrently.
type Life struct {
	stop    context.Context
	halt    context.CancelFunc
	leaving chan struct{} // of one: the first Leave fills it, for good
	done    chan struct{}

	mu     sync.Mutex
	tasks  sync.WaitGroup // see Go
	ending bool           // no further tasks
	err    error          // why it has ended
}

// NewLife begins one.
func NewLife() *Life {
	l := &Life{leaving: make(chan struct{}, 1), done: make(chan struct{})}
	l.stop, l.halt = context.WithCancel(context.Background())
	return l
}

// Lasting is a context that ends when the node begins to stop.
func (l *Life) Lasting() context.Context { return l.stop }

// Go runs f on a goroutine that End waits for. False: the node is stopping, and f will not be run.
func (l *Life) Go(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		return false
	}
	l.tasks.Go(f)
	return true
}

// Stopping is closed when the node begins to stop.
func (l *Life) Stopping() <-chan struct{} { return l.stop.Done() }

// Done is closed when the node has stopped.
func (l *Life) Done() <-chan struct{} { return l.done }

// Err says why the node has stopped; nil while it has not.
func (l *Life) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// Stopped is the error of a call that finds the node stopping: ErrClosed, with the reason if there is another one.
func (l *Life) Stopped() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil && !errors.Is(l.err, ErrClosed) {
		return fmt.Errorf("%w: %w", ErrClosed, l.err)
	}
	return ErrClosed
}

// Leave does what a node does before it goes, once, so that nobody has to wait for what it holds to run out: c's sessions
// are ended, and then last is called, which may be nil, if ctx still lasts. Without a leader nothing can be said, and it
// does not try for long. A second call waits for ctx or for the end.
func (l *Life) Leave(ctx context.Context, c *Caller, last func(ctx context.Context)) error {
	select {
	case l.leaving <- struct{}{}:
	case <-l.stop.Done(): // the first call has done what could be done
		return nil
	case <-ctx.Done():
		return cancel.Reason(ctx)
	}
	if l.stop.Err() != nil {
		return nil
	}
	bounded, done := context.WithTimeout(ctx, max(farewellStep, 4*c.cfg.ElectionTimeout))
	defer done()
	c.Leave(bounded)
	if last != nil && ctx.Err() == nil {
		last(ctx)
	}
	if ctx.Err() != nil {
		return cancel.Reason(ctx)
	}
	return nil
}

// Halt ends Lasting. From then on calls that wait are let go.
func (l *Life) Halt() { l.halt() }

// End ends the life because of err, once, and waits until it has ended. stop has everybody stop who acts on what this
// process holds, and then calls Halt; release closes what the node consists of, when all that Go began has ended.
func (l *Life) End(err error, stop, release func()) {
	l.mu.Lock()
	first := !l.ending
	if first {
		l.err, l.ending = err, true
	}
	l.mu.Unlock()
	if first {
		stop()
		l.tasks.Wait()
		release()
		close(l.done)
	}
	<-l.done
}

// DefaultName is the host's name and a part of the node's id.
func DefaultName(id string) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	return host[:min(len(host), 100)] + "-" + id[:min(6, len(id))]
}

// HexID is how people see the id of a cell: "" before it has formed.
func HexID(id [16]byte) string {
	if id == [16]byte{} {
		return ""
	}
	return hex.EncodeToString(id[:])
}
