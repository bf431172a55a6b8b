package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What users of other systems ran into, where it can be shown on a raft group alone. docs/FAULTS.md has the table.

// Saw: a server that was removed while it was cut off comes back, does not know, and disturbs one election after the
// other.
// Here: nobody listens to it. The leader and its term stay.
func TestFault_raft524_RemovedServerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 4, 0, nil)
		l := c.leader()
		gone := c.others(l)[0]
		c.cut(gone, c.others(gone)...)
		_, index := l.Configuration()
		if err := l.Remove(t.Context(), gone.ID(), index); err != nil {
			t.Fatal(err)
		}
		term := l.ActiveTerm()
		time.Sleep(20 * election)
		c.heal()
		for range 50 {
			time.Sleep(election)
			l.propose(t, "x")
		}
		if now := l.ActiveTerm(); now != term {
			t.Errorf("term %d is active, not %d", now, term)
		}
		if gone.ActiveTerm() != 0 {
			t.Error("it leads")
		}
	})
}

// Saw: a leadership transfer was under way when the leader lost its leadership; its flag was never cleared, and when the
// same server led again it refused every write.
// Here: whenever the cut comes, a server that leads again takes writes.
func TestFault_raft696_TransferWhileTheLeaderIsCutOff(t *testing.T) {
	for _, wait := range []time.Duration{0, latency, 5 * latency, election / 2, election} {
		t.Run(wait.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCell(t, 3, 0, nil)
				l := c.leader()
				f := c.others(l)[0]
				c.cut(f, l)
				l.propose(t, "x") // f lacks it: the transfer waits for it
				transferred := make(chan error, 1)
				go func() { transferred <- l.Transfer(t.Context(), f.ID()) }()
				time.Sleep(wait)
				c.cut(l, c.others(l)...)
				n := c.leader(l)
				n.propose(t, "y")
				<-transferred
				c.heal()
				eventually(t, "it has caught up", func() bool { return l.machine.has("y") })
				if err := n.Transfer(t.Context(), l.ID()); err != nil {
					t.Fatal(err)
				}
				eventually(t, "it leads again", func() bool { return l.ActiveTerm() != 0 })
				for i := range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), election)
					if err := l.Propose(ctx, fmt.Append(nil, "z", i)); err != nil {
						t.Errorf("it refuses writes: %v", err)
					}
					cancel()
				}
			})
		})
	}
}

// Saw: a leader that removed itself shut Raft down, while the process lived on and hung.
// Here: it stays a follower without a vote, says so to whoever proposes, and the others go on.
func TestFault_optimism18699_LeaderRemovesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		_, index := l.Configuration()
		if err := l.Remove(t.Context(), l.ID(), index); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		c.leader(l).propose(t, "x")
		if d := time.Since(began); d > 10*election {
			t.Errorf("the others took %v", d)
		}
		time.Sleep(10 * election)
		select {
		case <-l.Done():
			t.Error("it has shut itself down")
		default:
		}
		if err := l.Propose(t.Context(), []byte("y")); !errors.Is(err, ErrNotProposed) {
			t.Errorf("a proposal there: %v", err)
		}
	})
}

// unreadable is a Machine that cannot read snapshots, once it is told so.
type unreadable struct {
	*recorder
	err error
}

func (u *unreadable) Restore(r io.Reader) error {
	if u.err != nil {
		_, _ = io.CopyN(io.Discard, r, 10) // it notices in the middle
		return u.err
	}
	return u.recorder.Restore(r)
}

// Saw: a record of the snapshot was unknown, reading ended there without an error, and the server went on with half of
// the state.
// Here: a server that cannot read a snapshot stops and says why, whether it is its own or was sent to it.
func TestFault_nomad24412_SnapshotIsNotUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machines := map[int]*unreadable{}
		c := startCell(t, 3, 0, func(i int, cfg *Config) {
			machines[i] = &unreadable{recorder: cfg.Machine.(*recorder)}
			cfg.Machine, cfg.TrailingLogs = machines[i], 1
		})
		l := c.leader()
		away := c.others(l)[0]
		c.cut(away, c.others(away)...)
		for i := range 20 {
			l.propose(t, fmt.Sprint(i))
		}
		if err := l.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		applied := len(away.machine.list())
		away.cfg.Machine.(*unreadable).err = errors.New("record of type 99")
		c.heal()
		select {
		case <-away.Done():
		case <-time.After(time.Minute):
			t.Fatal("it tries for ever")
		}
		if err := away.sw.Err(); err == nil || !strings.Contains(err.Error(), "record of type 99") {
			t.Errorf("it stopped for %v", err)
		}
		if n := len(away.machine.list()); n != applied {
			t.Errorf("it has applied %d entries more", n-applied)
		}
		l.propose(t, "the others go on")

		cfg := l.cfg
		cfg.Machine = &unreadable{recorder: &recorder{}, err: errors.New("record of type 99")}
		cfg.Switch, cfg.Activated, cfg.Deactivated = newSwitch(), nil, nil
		cfg.Transport = newWire("again")
		if n, err := Open(cfg); err == nil {
			_ = n.Shutdown()
			t.Error("it started without what is in its snapshot")
		}
	})
}

// Saw: the log is never cut when the process is restarted before it gets around to it, and the disk fills up.
// Here: what a start finds beyond the threshold is compacted as soon as it has been applied.
func TestFault_openbao3342_ShortLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const threshold = 50
		c := startCell(t, 1, 0, func(_ int, cfg *Config) { cfg.SnapshotThreshold, cfg.TrailingLogs = threshold, threshold })
		l := c.leader()
		most := uint64(0)
		for range 20 {
			for range threshold / 2 {
				c.leader().propose(t, "x")
			}
			time.Sleep(election) // far less than SnapshotInterval
			first, _ := l.store.FirstIndex()
			last, _ := l.store.LastIndex()
			most = max(most, last-first)
			if err := l.Shutdown(); err != nil {
				t.Fatal(err)
			}
			c.restart(l)
		}
		if most > 4*threshold {
			t.Errorf("%d entries in the log, a snapshot is taken after %d", most, threshold)
		}
		if snaps, err := l.snaps.List(); err != nil || len(snaps) == 0 || snaps[0].Index < 19*threshold/2-threshold {
			t.Errorf("snapshots %v, %v", snaps, err)
		}
	})
}
