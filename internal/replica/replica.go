package replica

import (
	"bufio"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/wire"
)

// Config says whom a Replica tells of what it does. Every function is called on raft's FSM goroutine, must not block,
// and may be nil.
type Config struct {
	// Applied is told what an entry did, after the state has changed and before any waiter hears of it.
	Applied func(index, term uint64, out *fsm.Output)
	// Restored is called when a snapshot has replaced the whole state.
	Restored func()
	// Hashed is told this server's hash at a checkpoint. Not on the FSM goroutine.
	Hashed func(index, hash uint64)
	// Mismatch is told that the leader's hash at a checkpoint is not ours. Not on the FSM goroutine.
	Mismatch func(index, ours, leaders uint64)
	// CheckEvery is how many entries lie between two checkpoints, the same at every server; 0: the constant.
	CheckEvery uint64
	// Now is the lease clock.
	Now func() time.Duration
}

// Replica is a server's copy of the state. It implements the machine that raft drives; every other method may be
// called concurrently.
type Replica struct {
	cfg Config

	mu       sync.RWMutex // held for writing by Apply, Restore and Clone
	state    *fsm.State
	timeline timeline

	waiting waiting
	checks  *checks
}

// New returns a replica of an empty cell. Close ends it.
func New(cfg Config) *Replica {
	r := &Replica{cfg: cfg, state: fsm.New()}
	r.timeline.reset(0, cfg.Now())
	r.checks = newChecks(cfg)
	return r
}

// Apply applies one committed entry. It returns the nonce of the TermStart in it, if there is one. An error means that
// the entry cannot be understood, and that this server must stop.
func (r *Replica) Apply(index, term uint64, data []byte) (*[16]byte, error) {
	cmds, err := wire.DecodeEntry(data)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", index, err)
	}
	r.mu.Lock()
	if point, due := r.checks.due(index); due {
		r.checks.hash(point, r.state.Clone())
	}
	out := r.state.Apply(index, term, cmds)
	r.timeline.note(r.state.Revision(), r.cfg.Now())
	r.mu.Unlock()

	if r.cfg.Applied != nil {
		r.cfg.Applied(index, term, &out)
	}
	for _, c := range out.Checks {
		r.checks.expect(c.Index, c.Hash)
	}
	for i := range out.Replies {
		r.waiting.answer(&out.Replies[i])
	}
	if out.Started == nil {
		return nil, nil
	}
	nonce := [16]byte(out.Started.Nonce)
	return &nonce, nil
}

// Snapshot is a copy of the state that is being written while entries go on being applied.
type Snapshot struct{ state *fsm.State }

// Snapshot takes a copy in O(1).
func (r *Replica) Snapshot() *Snapshot { return &Snapshot{state: r.Clone()} }

// Persist writes the copy.
func (s *Snapshot) Persist(w io.Writer) error {
	b := bufio.NewWriterSize(w, 256<<10)
	if err := wire.WriteSnapshot(b, s.state.Records()); err != nil {
		return err
	}
	return b.Flush()
}

// Release lets go of the copy.
func (s *Snapshot) Release() {}

// Restore replaces the state by a snapshot. Where it fails the old state stays.
func (r *Replica) Restore(src io.Reader) error {
	state, err := fsm.Restore(wire.ReadSnapshot(bufio.NewReaderSize(src, 256<<10)))
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	r.mu.Lock()
	r.state = state
	r.timeline.reset(state.Revision(), r.cfg.Now())
	r.mu.Unlock()
	r.checks.reset(state.Index())
	if r.cfg.Restored != nil {
		r.cfg.Restored()
	}
	return nil
}

// View runs read on the state as it is after some whole entry. read must be short, must not keep what it is given, and
// must not call the replica.
func (r *Replica) View(read func(*fsm.State)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	read(r.state)
}

// Clone returns a copy of the state, in O(1).
func (r *Replica) Clone() *fsm.State {
	r.mu.Lock() // marks the trees as shared, which is a write
	defer r.mu.Unlock()
	return r.state.Clone()
}

// Since says how long ago this server has seen the state reach rev, at most 100 ms too long for recent ones.
func (r *Replica) Since(rev fsm.Revision) time.Duration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.timeline.since(rev, r.cfg.Now())
}

// HashAt returns this server's hash at a checkpoint, if it still knows it.
func (r *Replica) HashAt(index uint64) (hash uint64, ok bool) { return r.checks.at(index) }

// Close waits for the hashing that is going on. Nothing must be applied any more.
func (r *Replica) Close() { r.checks.close() }
