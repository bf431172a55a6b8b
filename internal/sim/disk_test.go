package sim

import (
	"strings"
	"sync"
	"syscall"

	"github.com/coordcell/coord/internal/lab"
	"github.com/coordcell/coord/internal/store"
)

// disk is what is wrong with the disk of a slot.
type disk struct {
	mu     sync.Mutex
	plan   plan
	broken bool          // a fault has struck, and the server is about to stop or has
	retire bool          // what is on the disk cannot be trusted any more
	left   *store.Disk   // what a death under way has left
	hung   chan struct{} // calls that hang wait for it
}

// plan is a fault that strikes at a call of the store to come.
type plan struct {
	what  string // "": nothing
	calls int    // so many calls of the store from now
}

// The faults of a disk.
const (
	diesBefore = "dies before a call of the store"
	diesAfter  = "dies after a call of the store"
	losesSync  = "dies before a sync, power lost"
	tears      = "dies in a write, power lost"
	fills      = "disk full"
	failsSync  = "sync fails"
	hangs      = "store hangs"
)

// arm has a fault strike at a later call.
func (d *disk) arm(what string, calls int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan = plan{what, calls}
}

// disarm takes back what has not struck yet, and gives a full disk room again.
func (d *disk) disarm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan = plan{}
}

// faults are those of the disk at addr, for as long as the slot exists.
func (d *disk) faults(l *lab.Lab, addr string) store.Faults {
	at := func(stage ...string) func(store.Op) error {
		return func(op store.Op) error { return d.strike(l, addr, op, stage) }
	}
	return store.Faults{
		Before: at(diesBefore, fills, hangs),
		Sync:   at(losesSync, tears, failsSync),
		After:  at(diesAfter),
	}
}

// strike is called around each call of the store.
func (d *disk) strike(l *lab.Lab, addr string, op store.Op, stages []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := false
	for _, s := range stages {
		at = at || d.plan.what == s
	}
	if !at {
		return nil
	}
	if d.plan.calls--; d.plan.calls >= 0 {
		return nil
	}
	switch d.plan.what {
	case fills:
		if !strings.HasPrefix(string(op), "Store") && !strings.HasPrefix(string(op), "Set") && !strings.HasPrefix(string(op), "Write") {
			return nil
		}
		d.broken = true
		return syscall.ENOSPC // as long as it is full
	case failsSync:
		d.plan, d.broken, d.retire = plan{}, true, true
		return syscall.EIO
	case hangs:
		d.plan, d.broken = plan{}, true
		hung := make(chan struct{})
		d.hung = hung
		d.mu.Unlock()
		<-hung
		d.mu.Lock()
		return nil
	default: // the process dies here
		if d.left == nil {
			if d.plan.what == tears {
				d.left = l.Disk(addr).Tear(1)
			} else {
				d.left = l.Disk(addr).Crash(d.plan.what == losesSync)
			}
			l.Kill(addr)
		}
		d.broken = true
		return errCrash
	}
}

// explains says whether what was done to the disk is why a server has stopped.
func (d *disk) explains(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, reason := range []string{syscall.EIO.Error(), syscall.ENOSPC.Error(), "stalled"} {
		if d.broken && strings.Contains(err.Error(), reason) {
			return true
		}
	}
	return false
}

// crashed is what a death in a call of the store has left on the disk, once.
func (d *disk) crashed() *store.Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := d.left
	d.left = nil
	return left
}

// heal ends what is wrong, but for what is on the disk.
func (d *disk) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan, d.broken = plan{}, false
}

// release lets calls that hang return, as they do when their process dies.
func (d *disk) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hung != nil {
		close(d.hung)
		d.hung = nil
	}
}

// lost says whether the disk may be refused by the server that is to use it.
func (d *disk) lost() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.retire
}

func (d *disk) replaced() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retire = false
}
