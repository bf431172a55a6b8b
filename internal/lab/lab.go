// Package lab is what a whole cell in one process stands on in tests: an in-memory network, disks that outlive the
// servers that use them, and the pace of idle leaders.
package lab

import (
	"sync"
	"time"

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
	disks      map[string]*store.Disk
	faults     map[string]store.Faults
}

// New returns a lab. An idle leader tells its followers of a commit within commitTimeout; 0 is production's. A bubble
// that is idle for long passes several times faster with 50 ms.
func New(commitTimeout time.Duration) *Lab {
	return &Lab{
		Memory: transport.NewMemory(), commitTimeout: commitTimeout,
		disks: make(map[string]*store.Disk), faults: make(map[string]store.Faults),
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

// SetSnapshotThreshold makes servers that are started from now on compact their logs after so many entries, so that a
// test can make one fall behind them; 0 is production's.
func (l *Lab) SetSnapshotThreshold(entries uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.threshold = entries
}

// SnapshotThreshold is raft's, and its TrailingLogs.
func (l *Lab) SnapshotThreshold() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.threshold
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
