package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// Propose appends one entry to the log and waits until this node has applied it. Any number may be under way at once;
// packing many commands into one entry is the caller's. What the entry did is said by the machine, not by Propose: the
// outcome counts for the caller that sees it applied, whatever is returned here.
//
// Errors: ErrNotProposed, wrapped, if the entry is certainly in no log (no leader, a transfer under way, raft too busy to
// take it for one election timeout): it may be proposed anew at once. ErrUnknown, wrapped, in every other case, with ctx's
// error or the reason of the stop if that is what happened. It never hangs: raft's futures can, and are not waited for
// alone.
func (n *Node) Propose(ctx context.Context, data []byte) error {
	n.proposing.Add(1) // before the look at transferring: a transfer sees it, or it sees the transfer
	if n.transferring.Load() {
		n.proposing.Add(-1)
		return fmt.Errorf("%w: leadership is being transferred", ErrNotProposed)
	}
	return n.await(ctx, func() error { // not called by a node that stops, which transfers nothing any more
		defer n.proposing.Add(-1)
		return n.raft.Load().Apply(data, n.cfg.ElectionTimeout).Error()
	})
}

func (n *Node) propose(ctx context.Context, data []byte) error {
	return n.await(ctx, func() error { return n.raft.Load().Apply(data, n.cfg.ElectionTimeout).Error() })
}

// Start is Propose for whoever has more to do: it returns as soon as raft has taken the entry, at the latest after one
// election timeout, and calls done, once, on another goroutine, with what Propose would return. A caller goes on to the
// next entry while this one is written.
func (n *Node) Start(data []byte, done func(error)) {
	fail := func(err error) {
		n.proposing.Add(-1)
		go done(fmt.Errorf("%w: %w", ErrNotProposed, err))
	}
	n.proposing.Add(1) // as in Propose
	if n.transferring.Load() {
		fail(errors.New("leadership is being transferred"))
		return
	}
	if !n.inflight.enter() {
		fail(n.stopReason())
		return
	}
	future := n.raft.Load().Apply(data, n.cfg.ElectionTimeout)
	answered := make(chan error, 1)
	go func() {
		err := future.Error()
		n.proposing.Add(-1)
		n.inflight.leave()
		answered <- err
	}()
	go func() {
		select {
		case err := <-answered:
			done(outcome(err))
		case <-n.stopped:
			done(fmt.Errorf("%w: %w", ErrUnknown, n.stopReason()))
		}
	}()
}

// await runs one call of raft's and waits for its future, for ctx, and for the end of the node. The call goes on when
// ctx ends; Shutdown waits for it.
func (n *Node) await(ctx context.Context, call func() error) error {
	if !n.inflight.enter() {
		return fmt.Errorf("%w: %w", ErrNotProposed, n.stopReason())
	}
	done := make(chan error, 1)
	go func() {
		err := call()
		n.inflight.leave()
		done <- err
	}()
	select {
	case err := <-done:
		return outcome(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	case <-n.stopped:
		return fmt.Errorf("%w: %w", ErrUnknown, n.stopReason())
	}
}

// outcome says which of raft's errors leave nothing behind. A shutdown is not among them: raft answers with the same
// error for what it never took and for what it had committed.
func outcome(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", ErrNotProposed, err)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// inflight counts the calls of raft that have not been answered.
type inflight struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when closed and n is 0
}

func (f *inflight) init() { f.idle = make(chan struct{}) }

// enter is false once close has been called.
func (f *inflight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.n++
	return true
}

func (f *inflight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	if f.closed && f.n == 0 {
		close(f.idle)
	}
}

// close lets no further call in; the channel that it returns is closed when the last one has left. Called once.
func (f *inflight) close() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.n == 0 {
		close(f.idle)
	}
	return f.idle
}
