package raftnode

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Shutdown beside a call of the store that hangs, with calls before raft's main loop that it has not even taken: it waits
// until the store gives up, and then ends, with nothing left.
func TestG12_ShutdownWhileTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		hang := make(chan struct{})
		l.store.set(func(s *memStore) { s.hang = hang })
		go func() { _ = l.Propose(context.Background(), []byte("stuck")) }()
		time.Sleep(election / 10)
		if err := l.WaitEvidence(t.Context(), l.ActiveTerm(), l.Stamp(), true); err != nil { // asks raft, which does not listen
			t.Fatal(err)
		}
		time.Sleep(election / 10)
		time.AfterFunc(30*time.Second, func() {
			l.sw.Trip(errors.New("the call has not returned"))
			close(hang)
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = l.Shutdown()
		}()
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			t.Fatal("Shutdown hangs")
		}
	})
}
