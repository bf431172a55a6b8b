package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Node is one member of a raft group. It is safe for concurrent use, and all its methods may be called after Shutdown.
type Node struct {
	cfg      Config
	raft     atomic.Pointer[raft.Raft] // set once, in Open, before anything can ask for it
	machine  *machine
	evidence *evidence
	inbound  *inbound
	network  *transport
	streams  *streams // nil with Config.Transport
	inflight inflight

	observed     chan raft.Observation // wakes watch; capacity 1
	kicked       chan struct{}         // the same, from within; capacity 1
	transferring atomic.Bool
	proposing    atomic.Int64 // calls of Propose and Start that raft has not answered

	termMu sync.Mutex // orders Activated and Deactivated
	start  termStart
	active atomic.Uint64

	changeMu sync.Mutex
	changed  chan struct{} // closed and replaced at each change of seen
	seen     leadership

	life     context.Context // of the node's own goroutines, which must not wait for stopped; ends when Shutdown begins
	stop     context.CancelFunc
	stopping <-chan struct{} // life's Done
	stopped  chan struct{}   // closed when nothing of the node runs any more
	closing  atomic.Bool
	wg       sync.WaitGroup // the node's own goroutines
}

// Open starts raft on the state that the stores hold; an empty node waits for Bootstrap or for a leader that adds it.
// The machine has been restored from the latest snapshot when it returns; the log after that is applied as it commits.
func Open(cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg:      cfg,
		observed: make(chan raft.Observation, 1),
		kicked:   make(chan struct{}, 1),
		changed:  make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	n.life, n.stop = context.WithCancel(context.Background())
	n.stopping = n.life.Done()
	n.inflight.init()
	n.machine = newMachine(n)
	n.evidence = newEvidence(cfg.ID, n.latest)
	n.network = n.openNetwork()
	if cfg.Now != nil {
		n.evidence.clock, n.inbound.clock = cfg.Now, cfg.Now
	}
	late := overdue(cfg)
	r, err := newRaft(cfg, n.machine, n.network)
	if err != nil {
		n.closeNetwork()
		return nil, fmt.Errorf("raftnode: open: %w", err)
	}
	n.raft.Store(r)
	r.RegisterObserver(raft.NewObserver(n.observed, false, ofLeadership))
	n.wg.Go(n.inbound.run)
	n.wg.Go(n.watch)
	n.wg.Go(n.verify)
	n.wg.Go(n.guard)
	if late != 0 {
		n.wg.Go(func() { n.compact(late) })
	}
	return n, nil
}

// newRaft turns into an error what raft panics about while it reads its log.
func newRaft(cfg Config, fsm raft.FSM, t raft.Transport) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, fmt.Errorf("%v", p)
		}
	}()
	// What is in the cache was stored before: it gets there when the store has returned without an error, and leaves with
	// the next truncation. Of a store that has failed, and says nil for ever after, nothing leaves this node any more.
	logs, err := raft.NewLogCache(logsCached, cfg.Logs)
	if err != nil {
		return nil, err
	}
	return raft.NewRaft(cfg.raftConfig(), fsm, logs, cfg.Stable, cfg.Snapshots, t)
}

func (n *Node) openNetwork() *transport {
	inner := n.cfg.Transport
	if inner == nil {
		n.streams = newStreams(n.cfg.Streams)
		inner = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Logger:  newRaftLogger(n.cfg.Logger),
			Stream:  n.streams,
			MaxPool: maxPooledStreams,
			Timeout: n.cfg.ElectionTimeout,
		})
	}
	n.inbound = newInbound(n.cfg, inner.Consumer(), n.raft.Load)
	return &transport{
		inner:      inner,
		prevote:    inner.(raft.WithPreVote),
		id:         raft.ServerID(n.cfg.ID),
		sw:         n.cfg.Switch,
		evidence:   n.evidence,
		inbound:    n.inbound,
		superseded: n.kick,
		observer:   n.cfg.Observer,
	}
}

// Bootstrap makes the servers with these ids the first voters. Each of them, or just one, calls it, with the same ids,
// itself among them. It fails on a node that has any state.
func (n *Node) Bootstrap(ids []string) error {
	c := configurationOf(ids)
	err := n.await(context.Background(), func() error { return n.raft.Load().BootstrapCluster(c).Error() })
	if err != nil {
		return fmt.Errorf("raftnode: bootstrap: %w", err)
	}
	return nil
}

// ID is the node's id.
func (n *Node) ID() string { return n.cfg.ID }

// Applied is the last entry that this node's machine has applied, and its term. It goes back only when a snapshot of a
// leader replaces a state.
func (n *Node) Applied() (index, term uint64) { return n.machine.last() }

// Committed is the last index that this node knows to be committed.
func (n *Node) Committed() uint64 { return n.raft.Load().CommitIndex() }

// WaitApplied waits until the machine has applied index; entries that change the configuration count. It returns the
// reason of the stop, or ctx's error.
func (n *Node) WaitApplied(ctx context.Context, index uint64) error {
	return n.machine.wait(ctx, index)
}

// Snapshot takes a snapshot now and compacts the log. It is an error if there is nothing new.
func (n *Node) Snapshot(ctx context.Context) error {
	return n.await(ctx, func() error { return n.raft.Load().Snapshot().Error() })
}

// overdue is the last index of a log that is too long already when the node opens; 0 if it is not.
func overdue(cfg Config) uint64 {
	last, err := cfg.Logs.LastIndex()
	if err != nil {
		return 0 // raft will say so
	}
	snaps, err := cfg.Snapshots.List()
	if err != nil {
		return 0
	}
	covered := uint64(0)
	if len(snaps) > 0 {
		covered = snaps[0].Index
	}
	if last < covered+cfg.SnapshotThreshold {
		return 0
	}
	return last
}

// compact takes a snapshot once index has been applied. Raft looks at the length of its log only now and then, which a
// program that is restarted more often than that never lives to see: its log would grow without bound.
func (n *Node) compact(index uint64) {
	if n.WaitApplied(n.life, index) != nil {
		return
	}
	if err := n.Snapshot(n.life); err != nil {
		n.cfg.Logger.Debug("the log was not compacted", "id", n.cfg.ID, "error", err)
	}
}

// Done is closed when the node has stopped: after Shutdown, or after the switch was thrown.
func (n *Node) Done() <-chan struct{} { return n.stopped }

// Shutdown stops the node and waits until nothing of it runs. Proposals under way are given one election timeout to
// commit, and are then answered as unknown. It leaves the leadership where it is: see Transfer. Every call returns once
// the node has stopped.
func (n *Node) Shutdown() error {
	if n.closing.CompareAndSwap(false, true) {
		n.shutdown()
	}
	<-n.stopped
	return nil
}

// guard shuts the node down when the switch is thrown.
func (n *Node) guard() {
	select {
	case <-n.cfg.Switch.Tripped():
		err := n.cfg.Switch.Err()
		n.cfg.Logger.Error("node stops", "id", n.cfg.ID, "error", err)
		n.deactivate(err)
		n.machine.fail(err)
		go func() { _ = n.Shutdown() }() // it waits for this goroutine
	case <-n.stopping:
	}
}

// shutdown keeps to an order in which nothing is left waiting: raft forgets futures that are under way when it stops, so
// they are brought to an end before.
func (n *Node) shutdown() {
	n.stop()
	r := n.raft.Load()
	n.drain(r)
	n.deactivate(ErrStopped)
	done := r.Shutdown()
	n.closeNetwork() // ends the calls in which raft's goroutines wait
	_ = done.Error() // never fails
	close(n.inbound.stop)
	n.machine.fail(ErrStopped)
	n.wg.Wait()
	n.refresh()
	close(n.stopped)
}

// drain waits until raft has answered every call that is under way: on its own if it can, else because it is made to
// step down. Raft answers none of those that it has not even taken by the time it is shut down: their goroutines would
// be left. So a call of the store that hangs, and raft's main loop with it, is waited for until the store gives it up.
// Should raft lose a call all the same, drain gives up in the end, and who waits for that one is released by stopped.
func (n *Node) drain(r *raft.Raft) {
	idle := n.inflight.close()
	if n.cfg.Switch.Err() == nil {
		select {
		case <-idle:
			return
		case <-time.After(n.cfg.ElectionTimeout):
		case <-n.cfg.Switch.Tripped():
		}
	}
	limit := time.After(max(drainPatience, 10*n.cfg.ElectionTimeout))
	for {
		if r.State() == raft.Leader {
			n.inbound.resign(r.CurrentTerm())
		}
		select {
		case <-idle:
			return
		case <-limit:
			n.cfg.Logger.Error("raft did not answer every call before it was shut down", "id", n.cfg.ID)
			return
		case <-time.After(n.cfg.ElectionTimeout / 4):
		}
	}
}

func (n *Node) closeNetwork() {
	if c, ok := n.network.inner.(raft.WithClose); ok {
		_ = c.Close()
	}
	if n.streams != nil {
		n.streams.closeAll()
	}
}

// latest is raft's latest configuration, committed or not. The index that raft gives along is always 0.
func (n *Node) latest() raft.Configuration {
	r := n.raft.Load()
	if r == nil {
		return raft.Configuration{}
	}
	return r.GetConfiguration().Configuration()
}

var (
	// ErrNotActive: this node is not, or no longer, the active leader of the term in question.
	ErrNotActive = errors.New("raftnode: not the active leader")
	// ErrNotProposed: what was proposed is certainly in no log and never will be.
	ErrNotProposed = errors.New("raftnode: not proposed")
	// ErrUnknown: what was proposed may or may not be committed, now or later.
	ErrUnknown = errors.New("raftnode: outcome unknown")
	// ErrStopped: the node was shut down.
	ErrStopped = errors.New("raftnode: node has stopped")
)

// stopReason is why the node has stopped or is stopping; nil while it runs.
func (n *Node) stopReason() error {
	if err := n.cfg.Switch.Err(); err != nil {
		return err
	}
	select {
	case <-n.stopping:
		return ErrStopped
	default:
		return nil
	}
}

func (n *Node) notActive(term uint64) error {
	if err := n.stopReason(); err != nil {
		return err
	}
	if term == 0 {
		return ErrNotActive
	}
	return fmt.Errorf("%w: term %d has ended", ErrNotActive, term)
}
