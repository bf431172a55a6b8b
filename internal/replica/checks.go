package replica

import (
	"sync"

	"github.com/coordcell/coord/fsm"
)

const (
	// CheckEvery is how many entries lie between two checkpoints, unless Config says otherwise.
	CheckEvery = 10_000
	// checksKept is how many checkpoints a server remembers, for servers that are behind and ask.
	checksKept = 8
)

// checks hashes the state at every checkpoint and compares the hash with the leader's. A checkpoint n is the state
// after every entry up to n·every; it is recognised when the first entry beyond it is about to be applied, since
// entries of raft's own never reach the state machine.
type checks struct {
	every    uint64
	hashed   func(index, hash uint64)
	mismatch func(index, ours, leaders uint64)

	mu       sync.Mutex
	last     uint64 // the newest checkpoint that has gone by, taken or left out
	ours     map[uint64]uint64
	expected map[uint64]uint64
	running  bool // one hashing at a time; a checkpoint that comes meanwhile is left out
	closed   bool
	idle     sync.WaitGroup
}

func newChecks(cfg Config) *checks {
	every := cfg.CheckEvery
	if every == 0 {
		every = CheckEvery
	}
	return &checks{
		every: every, hashed: cfg.Hashed, mismatch: cfg.Mismatch,
		ours: make(map[uint64]uint64), expected: make(map[uint64]uint64),
	}
}

// due says whether the state before entry next is a checkpoint that has not been taken. One that comes while another is
// being hashed is left out for good: with the next entry the state is no longer that of the checkpoint.
func (c *checks) due(next uint64) (point uint64, due bool) {
	if next == 0 {
		return 0, false
	}
	point = (next - 1) / c.every * c.every
	c.mu.Lock()
	defer c.mu.Unlock()
	if point <= c.last {
		return 0, false
	}
	c.last = point
	if c.running || c.closed {
		return 0, false
	}
	c.running = true
	c.idle.Add(1)
	return point, true
}

// hash computes the hash of a clone beside the FSM goroutine. It follows a due that answered true.
func (c *checks) hash(point uint64, state *fsm.State) {
	go func() {
		defer c.idle.Done()
		h := state.Hash()
		c.mu.Lock()
		c.running = false
		c.ours[point] = h
		c.forgetOld(c.ours, point)
		leaders, asked := c.expected[point]
		c.mu.Unlock()
		if c.hashed != nil {
			c.hashed(point, h)
		}
		if asked && leaders != h && c.mismatch != nil {
			c.mismatch(point, h, leaders)
		}
	}()
}

// expect takes the leader's hash out of the log.
func (c *checks) expect(point, leaders uint64) {
	c.mu.Lock()
	c.expected[point] = leaders
	c.forgetOld(c.expected, point)
	ours, known := c.ours[point]
	c.mu.Unlock()
	if known && ours != leaders && c.mismatch != nil {
		c.mismatch(point, ours, leaders)
	}
}

func (c *checks) at(point uint64) (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.ours[point]
	return h, ok
}

// reset forgets what was hashed of a state that a snapshot has replaced.
func (c *checks) reset(index uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = index / c.every * c.every
	clear(c.ours)
	clear(c.expected)
}

func (c *checks) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.idle.Wait()
}

func (c *checks) forgetOld(m map[uint64]uint64, newest uint64) {
	for point := range m {
		if point+checksKept*c.every <= newest {
			delete(m, point)
		}
	}
}
