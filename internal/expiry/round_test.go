package expiry

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/fsm"
)

// A renewal that comes while the leader, who has found the session's time up, waits for evidence, is in time: the
// session has not been marked.
func TestG8_RenewedWhileTheLeaderWaitsForEvidence(t *testing.T) {
	leading(t, func(t *testing.T, c *cell, table *Table[fsm.SessionID]) {
		const ttl = time.Second
		back := c.loseQuorum()
		table.Start(1, numbered(2, ttl))
		pass(ttl + 500*time.Millisecond)
		if c.countAsked() == 0 {
			t.Fatal("the leader does not wait for evidence: this test proves nothing")
		}
		if !table.Renew(1, 1) {
			t.Fatal("a renewal is refused before the session was marked")
		}
		renewed := c.now()
		back()
		pass(ttl / 2)
		if _, ended := c.endOf(1); ended || table.Expiring(1) || !table.Renew(1, 2) {
			t.Errorf("a session was ended %v after its renewal", c.now()-renewed)
		}
		if _, ended := c.endOf(2); !ended {
			t.Error("the one that was not renewed lives on")
		}
	})
}

// An end whose proposal failed is proposed again, although nobody else's time is up, until it has been applied.
func TestG8_AnEndIsProposedUntilItIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, start := 0, time.Now()
		var table *Table[fsm.SessionID]
		table = New(Config[fsm.SessionID]{
			Now:      func() time.Duration { return time.Since(start) },
			Compare:  cmp.Compare[fsm.SessionID],
			Evidence: func(context.Context, uint64) error { return nil },
			Propose: func(_ context.Context, _ uint64, ids []fsm.SessionID) error {
				if tries++; tries < 5 {
					return errors.New("not written")
				}
				for _, id := range ids {
					table.Ended(id)
				}
				return nil
			},
		})
		defer table.Close()
		table.Start(1, numbered(1, time.Second))
		pass(10 * time.Second)
		if tries != 5 || table.Expiring(1) {
			t.Errorf("proposed %d times, want 5; still marked: %v", tries, table.Expiring(1))
		}
	})
}

// Evidence of an old term that came at its very end, to a goroutine that was not run for long, ends nobody in the new
// term.
func TestG8_EvidenceOfAnOldTermDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		start, proposed := time.Now(), 0
		evidence := map[uint64]chan struct{}{1: make(chan struct{}), 2: make(chan struct{})}
		table := New(Config[fsm.SessionID]{
			Now:      func() time.Duration { return time.Since(start) },
			Compare:  cmp.Compare[fsm.SessionID],
			Evidence: func(_ context.Context, term uint64) error { <-evidence[term]; return nil },
			Propose:  func(context.Context, uint64, []fsm.SessionID) error { proposed++; return nil },
		})
		defer table.Close()
		table.Start(1, numbered(1, ttl))
		pass(ttl + 500*time.Millisecond)
		table.Start(2, numbered(1, ttl))
		pass(ttl + 500*time.Millisecond) // its time is up in either term
		close(evidence[1])
		pass(500 * time.Millisecond)
		if table.Expiring(1) || proposed != 0 || !table.Renew(1, 1) {
			t.Errorf("marked: %v, proposed %d times", table.Expiring(1), proposed)
		}
		close(evidence[2])
	})
}
