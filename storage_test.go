package coord_test

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/store"
)

// stall is how long a call of the disk may take before the node gives up, and once more as long for the node to hand
// its leadership on.
const stall = 10 * time.Second

// badDisk is the disk of one server: as good as any until it breaks, for writes of the log.
type badDisk struct {
	mu    sync.Mutex
	write func() error // nil: works; may hang
	sync  func() error
	hung  chan struct{} // closed: calls that hang return
}

// set makes writes or syncs fail, or hang, from now on; with nil they work.
func (d *badDisk) set(write, sync func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.write, d.sync = write, sync
}

func (d *badDisk) faults() store.Faults {
	ask := func(which func() func() error) func(store.Op) error {
		return func(op store.Op) error {
			if op != store.OpStoreLogs {
				return nil
			}
			d.mu.Lock()
			f := which()
			d.mu.Unlock()
			if f == nil {
				return nil
			}
			return f()
		}
	}
	return store.Faults{
		Before: ask(func() func() error { return d.write }),
		Sync:   ask(func() func() error { return d.sync }),
	}
}

// storageFault is a way for a disk to fail.
type storageFault struct {
	fail  func(d *badDisk)
	says  string        // part of the reason
	after time.Duration // at most so long after the first write the node stops, and one second
	then  func(c *cell, victim int, d *badDisk)
}

func storageFaults() map[string]storageFault {
	return map[string]storageFault{
		"full": {
			fail: func(d *badDisk) { d.set(func() error { return syscall.ENOSPC }, nil) },
			says: syscall.ENOSPC.Error(),
			then: func(c *cell, victim int, d *badDisk) { // there is room again
				d.set(nil, nil)
				c.comesBack(victim)
			},
		},
		"a sync fails": {
			fail: func(d *badDisk) { d.set(nil, func() error { return syscall.EIO }) },
			says: syscall.EIO.Error(),
			then: func(c *cell, victim int, d *badDisk) { // what can be read may not be what is on the disk
				d.set(nil, nil)
				c.refused(victim, nil, "directory retired", syscall.EIO.Error(), "new, empty directory")
				c.lab.SetDisk(c.addr(victim), nil) // it is replaced, under the same name
				c.comesBack(victim)
			},
		},
		"it hangs": {
			fail:  func(d *badDisk) { d.set(func() error { <-d.hung; return nil }, nil) },
			says:  "stalled",
			after: 2 * stall,
			then: func(c *cell, victim int, d *badDisk) { // the call returns in the end
				c.refused(victim, coord.ErrDirInUse)
				close(d.hung)
				synctest.Wait()
				d.set(nil, nil)
				c.comesBack(victim)
			},
		},
	}
}

// A server whose disk fails stops and says why, whoever waits there is let go with the reason, its locks are lost for
// their holders, and the others go on without it. What becomes of the server then depends on what the disk did.
func TestG11_StorageFails(t *testing.T) {
	for name, fault := range storageFaults() {
		for _, leads := range []bool{true, false} {
			role := map[bool]string{true: ", of the leader", false: ", of a follower"}[leads]
			t.Run(name+role, func(t *testing.T) {
				inEmptyCell(t, 3, nil, func(t *testing.T, c *cell) {
					disks := make([]badDisk, 3)
					for i := range disks {
						disks[i].hung = make(chan struct{})
						c.lab.SetFaults(c.addr(i), disks[i].faults())
						c.start(i)
					}
					c.ready()
					victim := c.leader()
					if !leads {
						victim = c.others(victim)[0]
					}
					c.failsAndOthersGoOn(victim, &disks[victim], fault)
					fault.then(c, victim, &disks[victim])
				})
			})
		}
	}
}

// failsAndOthersGoOn breaks the disk of one server under load.
func (c *cell) failsAndOthersGoOn(victim int, d *badDisk, fault storageFault) {
	t := c.t
	t.Helper()
	other := c.others(victim)[0]
	mine, elsewhere := c.session(victim), c.session(other, coord.WithTTL(10*ttl))
	held, far := c.lock(mine, "here"), c.lock(elsewhere, "there")
	waiting := c.acquire(c.within(time.Hour), mine, "there")
	next := c.acquire(c.within(time.Hour), elsewhere, "here")
	watch := c.watch(victim, "k")
	time.Sleep(ttl)

	fault.fail(d)
	broken := time.Now()
	written := make(chan error, 1)
	n, healthy := c.nodes[victim], c.nodes[other]
	go func() {
		_, err := n.Put(c.within(time.Hour), "k", nil)
		written <- err
	}()
	if _, err := healthy.Put(c.within(time.Hour), "other", nil); err != nil {
		t.Errorf("a write on another server: %v", err)
	}
	if err := c.stops(victim); err == nil || !strings.Contains(err.Error(), fault.says) {
		t.Errorf("Err: %v, want %q", err, fault.says)
	}
	if d := time.Since(broken); d > fault.after+10*election { // with the election that the write above waited for
		t.Errorf("stopped after %v", d)
	}
	if err := held.Check(); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("Check: %v", err)
	}
	closedBecause := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, coord.ErrClosed) || !strings.Contains(err.Error(), fault.says) {
			t.Errorf("%s: %v; want ErrClosed, and %q", call, err, fault.says)
		}
	}
	closedBecause("a Lock that waited", (<-waiting).err)
	if err := <-written; err != nil { // a follower's may have been answered before its disk failed
		closedBecause("a Put under way", err)
	}
	for range watch.Batches() {
	}
	closedBecause("a Watch", watch.Err())
	_, err := n.Get(c.within(time.Minute), "k")
	closedBecause("a later Get", err)
	if err := n.WaitReady(c.within(time.Minute)); err == nil || !strings.Contains(err.Error(), fault.says) {
		t.Errorf("WaitReady: %v, want %q", err, fault.says)
	}
	c.nodes[victim] = nil

	if g := <-next; g.err != nil || g.lock.Token() <= held.Token() {
		t.Errorf("what the server held is not handed on: %v", g.err)
	}
	if d := time.Since(broken); d > fault.after+2*ttl+time.Second+10*election {
		t.Errorf("handed on after %v", d)
	}
	if _, err := healthy.Put(c.within(time.Minute), "k", nil); err != nil {
		t.Errorf("the others: %v", err)
	}
	if err := far.Check(); err != nil {
		t.Errorf("a lock of a session elsewhere: %v", err)
	}
}

// refused sees that a server cannot be started on its disk, and is told why.
func (c *cell) refused(i int, kind error, says ...string) {
	c.t.Helper()
	n, err := coord.Start(c.t.Context(), c.config(i))
	if err == nil {
		n.Close()
		c.t.Fatalf("server %d started on a disk that must not be used", i)
	}
	if kind != nil && !errors.Is(err, kind) {
		c.t.Errorf("Start: %v; want %v", err, kind)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			c.t.Errorf("Start: %v; want %q", err, text)
		}
	}
}

// comesBack starts a server that has stopped by itself, and sees that it knows what happened meanwhile.
func (c *cell) comesBack(i int) {
	c.t.Helper()
	rev, err := c.nodes[c.leader()].Put(c.within(time.Minute), "meanwhile", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.start(i)
	c.ready()
	kv, err := c.nodes[i].Get(c.within(time.Minute), "meanwhile")
	if err != nil || kv.Changed != rev {
		c.t.Errorf("server %d reads %+v, %v; want revision %v", i, kv, err, rev)
	}
}
