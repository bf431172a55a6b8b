// Package lab is what a whole cell in one process stands on in tests: an in-memory network, disks that outlive the
// servers that use them, and the pace of idle leaders.
package lab

import (
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/raftnode"
	"github.com/coordcell/coord/internal/store"
	"github.com/coordcell/coord/transport"
)

// Lab is a Network for the servers of one test; pass it as Config.Transport, with InMemory. Its faults are those of
// transport.Memory. All methods may be called concurrently.
type Lab struct {
	*transport.Memory
	commitTimeout time.Duration

	mu         sync.Mutex
	checkEvery uint64
	threshold  uint64
	interval   time.Duration
	observer   func(addr string) raftnode.Observer
	states     map[string]func() *fsm.State
	disks      map[string]*store.Disk
	faults     map[string]store.Faults
}

// New returns a lab. An idle leader tells its followers of a commit within commitTimeout; 0 is production's. A bubble
// that is idle for long passes several times faster with 50 ms.
func New(commitTimeout time.Duration) *Lab {
	return &Lab{
		Memory: transport.NewMemory(), commitTimeout: commitTimeout,
		disks: make(map[string]*store.Disk), faults: make(map[string]store.Faults), states: make(map[string]func() *fsm.State),
	}
}

// Disk is the disk of the server that listens on addr: what it wrote, it finds there when it is started again.
func (l *Lab) Disk(addr string) *store.Disk {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.disks[addr]
	if d == nil {
		d = store.NewDisk()
		l.disks[addr] = d
	}
	return d
}

// SetDisk gives the server at addr another disk from its next start on: a copy of the old one as a crash left it, one
// that was another server's, or with nil a new one.
func (l *Lab) SetDisk(addr string, d *store.Disk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d == nil {
		delete(l.disks, addr)
		return
	}
	l.disks[addr] = d
}

// SetFaults gives the disk of the server at addr faults from its next start on. With the zero value there are none.
func (l *Lab) SetFaults(addr string, f store.Faults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults[addr] = f
}

// Faults are those of the disk of the server at addr.
func (l *Lab) Faults(addr string) store.Faults {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults[addr]
}

// SetSnapshots makes servers that are started from now on look every interval, stretched at random up to twice, whether
// so many entries have come since the last snapshot; then they take one, and keep so many entries behind it. 0 is
// production's.
func (l *Lab) SetSnapshots(threshold uint64, interval time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.threshold, l.interval = threshold, interval
}

// Snapshots are raft's SnapshotThreshold, also its TrailingLogs, and its SnapshotInterval.
func (l *Lab) Snapshots() (threshold uint64, interval time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.threshold, l.interval
}

// CommitTimeout is raft's.
func (l *Lab) CommitTimeout() time.Duration { return l.commitTimeout }

// SetCheckEvery sets how many entries lie between two checks that the servers agree, for those that start later.
func (l *Lab) SetCheckEvery(entries uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkEvery = entries
}

// CheckEvery is how many entries lie between two such checks; 0 is production's number.
func (l *Lab) CheckEvery() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checkEvery
}

// SetObserver has the servers that are started from now on observed.
func (l *Lab) SetObserver(of func(addr string) raftnode.Observer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observer = of
}

// Observer is who observes the server at addr; nil: nobody.
func (l *Lab) Observer(addr string) raftnode.Observer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.observer == nil {
		return nil
	}
	return l.observer(addr)
}

// Opened is called by a server that starts: state is a copy of its replica at the moment of the call.
func (l *Lab) Opened(addr string, state func() *fsm.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states[addr] = state
}

// State is the replica of the server that was started at addr last; nil: none was.
func (l *Lab) State(addr string) *fsm.State {
	l.mu.Lock()
	state := l.states[addr]
	l.mu.Unlock()
	if state == nil {
		return nil
	}
	return state()
}
