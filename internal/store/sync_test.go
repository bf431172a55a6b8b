package store

import (
	"syscall"
	"testing"
)

// A sync that failed is not tried again, although the second one would report success: a system that could not write a
// page may drop it, and know nothing of it any more.
func TestG11_AFailedSyncIsNotRepeated(t *testing.T) {
	d := NewDisk()
	prepare(t, mustMount(t, d, Options{}))
	syncs := 0
	s := mustMount(t, d, Options{Faults: Faults{Sync: func(op Op) error {
		if op != OpStoreLogs {
			return nil
		}
		if syncs++; syncs == 1 {
			return syscall.EIO
		}
		return nil
	}}})
	must(t, s.Logs().StoreLog(entry(21, 2)))
	wantTripped(t, s, syscall.EIO)
	must(t, s.Logs().StoreLog(entry(21, 2)))
	if syncs != 1 {
		t.Errorf("%d syncs", syncs)
	}
	must(t, s.Close())
}
