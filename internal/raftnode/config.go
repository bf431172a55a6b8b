package raftnode

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coordcell/coord/internal/failstop"
)

// Config is everything a Node is made of. Open copies it. The stores and the Streams or Transport belong to the Node
// from Open to the end of Shutdown; the caller closes the stores afterwards, the Node closes the network side itself.
type Config struct {
	// ID is the node's id. It is raft's ServerID and, everywhere, its ServerAddress as well: votes and the known
	// leader go by address in raft, and an address that moved to another node would carry the vote along.
	ID string

	// Streams connects nodes by id: Dial gets a node id as its address, and Addr().String() is this node's id.
	// Exactly one of Streams and Transport is set; Transport serves tests and must implement raft.WithPreVote.
	Streams   raft.StreamLayer
	Transport raft.Transport

	// Logs and Stable must throw Switch before a call that failed returns, and must return from every call once it is
	// thrown. Logs.IsMonotonic should be true: a restart then cures a snapshot loop.
	Logs      raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore

	Machine Machine
	Switch  *failstop.Switch

	// ElectionTimeout is at once raft's heartbeat timeout, its leader lease and the limit of one RPC. At least 5 ms.
	ElectionTimeout time.Duration
	// CommitTimeout is how long an idle leader waits before it tells the followers its commit index; 10 ms if 0.
	CommitTimeout time.Duration

	// SnapshotThreshold entries after the last snapshot the next one is taken; TrailingLogs entries are kept behind
	// it for followers that lag. 65,536 each if 0.
	SnapshotThreshold, TrailingLogs uint64
	// SnapshotInterval is how often the threshold is looked at, stretched at random up to twice; 30 s if 0.
	SnapshotInterval time.Duration

	// TermStart encodes the entry that a new leader proposes before anything else. Machine.Apply hands the nonce back.
	TermStart func(nonce [16]byte) []byte
	// Activated is called on raft's FSM goroutine when this node's own TermStart has been applied, right before
	// ActiveTerm starts to report the term. Deactivated is called once for each Activated, later, on any goroutine.
	// The two never overlap. Neither may block or call a method of Node that waits. Both may be nil.
	Activated, Deactivated func(term uint64)

	// Now is the clock by which the age of evidence is told: one that counts the time while the machine sleeps, or what is
	// hours old would pass for fresh on waking. nil: one that does not.
	Now func() time.Duration

	Logger   *slog.Logger // nil: silent
	Observer Observer     // nil: nobody
}

// Machine is the replicated state. All its methods are called on raft's one FSM goroutine, except that the first
// Restore happens inside Open.
type Machine interface {
	// Apply applies one committed entry. If it holds a TermStart, started is its nonce. An error or a panic means that an
	// invariant is broken: the node stops, and nothing more is applied.
	Apply(index, term uint64, data []byte) (started *[16]byte, err error)
	// Snapshot captures the state in O(1); what it returns is written while entries go on being applied.
	Snapshot() (Snapshot, error)
	// Restore builds a new state from r and swaps it in. After an error the old state stays.
	Restore(r io.Reader) error
}

// Snapshot is one captured state. Persist runs on a goroutine of raft's, beside Apply; Release is always called last.
type Snapshot interface {
	Persist(w io.Writer) error
	Release()
}

const (
	defaultCommitTimeout    = 10 * time.Millisecond
	defaultSnapshotInterval = 30 * time.Second
	defaultLogs             = 65_536      // SnapshotThreshold and TrailingLogs
	maxAppendEntries        = 512         // entries in one AppendEntries, and proposals in one write of the log
	maxPooledStreams        = 3           // idle streams kept for each peer
	drainPatience           = time.Minute // longer than a store takes to give up a call that hangs
	logsCached              = 64          // newest entries kept in memory: the leader reads each one again for each follower
)

// withDefaults fills in what was left zero and reports everything that cannot work.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	need(c.ID != "", "ID is empty")
	need((c.Streams == nil) != (c.Transport == nil), "exactly one of Streams and Transport is needed")
	need(c.Logs != nil && c.Stable != nil && c.Snapshots != nil, "Logs, Stable and Snapshots are needed")
	need(c.Machine != nil, "Machine is needed")
	need(c.Switch != nil, "Switch is needed")
	need(c.TermStart != nil, "TermStart is needed")
	need(c.ElectionTimeout >= 5*time.Millisecond, fmt.Sprintf("ElectionTimeout is %v, at least 5ms", c.ElectionTimeout))
	if c.Transport != nil {
		_, ok := c.Transport.(raft.WithPreVote)
		need(ok, "Transport does not implement raft.WithPreVote")
	}
	if c.CommitTimeout == 0 {
		c.CommitTimeout = defaultCommitTimeout
	}
	if c.SnapshotInterval == 0 {
		c.SnapshotInterval = defaultSnapshotInterval
	}
	if c.SnapshotThreshold == 0 {
		c.SnapshotThreshold = defaultLogs
	}
	if c.TrailingLogs == 0 {
		c.TrailingLogs = defaultLogs
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(errs...); err != nil {
		return Config{}, fmt.Errorf("raftnode: config: %w", err)
	}
	return c, nil
}

// raftConfig is the setting of every knob that raft has and that we do not leave at its default.
func (c Config) raftConfig() *raft.Config {
	rc := raft.DefaultConfig()
	rc.LocalID = raft.ServerID(c.ID)
	// All three are the same: without the heartbeat fast path a follower may be slow to answer, and raft's lease
	// protects nothing here, since only quorum evidence is taken as proof of leadership.
	rc.HeartbeatTimeout, rc.ElectionTimeout, rc.LeaderLeaseTimeout = c.ElectionTimeout, c.ElectionTimeout, c.ElectionTimeout
	rc.CommitTimeout = c.CommitTimeout
	rc.MaxAppendEntries = maxAppendEntries
	rc.BatchApplyCh = false // with it the time limit of an enqueue would be void
	rc.ShutdownOnRemove = false
	rc.PreVoteDisabled = false
	rc.SnapshotThreshold, rc.SnapshotInterval, rc.TrailingLogs = c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs
	rc.NoLegacyTelemetry = true
	rc.Logger = newRaftLogger(c.Logger)
	return rc
}
