package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/wire"
)

// machine drives a replica as raft would.
type machine struct {
	t     *testing.T
	r     *Replica
	index uint64
	seq   uint64
	now   time.Duration
	told  []string
}

func newMachine(t *testing.T, tune func(*Config)) *machine {
	m := &machine{t: t}
	cfg := Config{
		Applied:  func(index, _ uint64, out *fsm.Output) { m.told = append(m.told, fmt.Sprint("applied ", index)) },
		Restored: func() { m.told = append(m.told, "restored") },
		Now:      func() time.Duration { return m.now },
	}
	if tune != nil {
		tune(&cfg)
	}
	m.r = New(cfg)
	t.Cleanup(m.r.Close)
	m.apply(fsm.Generation{First: true}, fsm.TermStart{Nonce: fsm.Nonce{7}, Format: wire.Format}, fsm.OpenSession{TTL: int64(time.Minute)})
	m.told = nil
	return m
}

func (m *machine) apply(cmds ...fsm.Command) *[16]byte {
	m.t.Helper()
	entry, err := wire.AppendEntry(nil, cmds)
	if err != nil {
		m.t.Fatal(err)
	}
	m.index++
	nonce, err := m.r.Apply(m.index, 1, entry)
	if err != nil {
		m.t.Fatal(err)
	}
	return nonce
}

func (m *machine) put(key, value string) (seq uint64) {
	m.seq++
	c := fsm.Change{Session: 1, Seq: m.seq}
	m.r.View(func(s *fsm.State) {
		for v := range s.Sessions() {
			c.Session = v.ID
		}
	})
	if m.seq > 1 {
		c.Acks = []uint64{m.seq - 1}
	}
	m.apply(fsm.Put{Change: c, Key: key, Value: []byte(value)})
	return m.seq
}

func (m *machine) session() (id fsm.SessionID) {
	m.r.View(func(s *fsm.State) {
		for v := range s.Sessions() {
			id = v.ID
		}
	})
	return id
}

func TestApply_TellsInOrder(t *testing.T) {
	m := newMachine(t, nil)
	for seq := range uint64(3) {
		m.r.Await(Key{Session: m.session(), Seq: seq + 1}, func(res fsm.Result) { m.told = append(m.told, fmt.Sprint("answered ", seq+1, res.Code)) })
	}
	gaveUp := m.r.Await(Key{Session: m.session(), Seq: 2}, func(fsm.Result) { t.Error("gave up") })
	twice := m.r.Await(Key{Session: m.session(), Seq: 2}, func(fsm.Result) { m.told = append(m.told, "a second waiter") })
	gaveUp()
	gaveUp()
	for range 3 {
		m.put("a", "1")
	}
	twice()
	want := []string{"applied 2", "answered 1 1", "applied 3", "answered 2 1", "a second waiter", "applied 4", "answered 3 1"}
	if !slices.Equal(m.told, want) {
		t.Errorf("got  %q\nwant %q", m.told, want)
	}
	if n := m.r.Waiting(); n != 0 {
		t.Errorf("%d are waited for", n)
	}
	forget := m.r.Await(Key{Nonce: fsm.Nonce{1}}, func(fsm.Result) {})
	if n := m.r.Waiting(); n != 1 {
		t.Errorf("%d are waited for, want 1", n)
	}
	forget()
	if n := m.r.Waiting(); n != 0 {
		t.Errorf("%d are waited for after giving up", n)
	}
	if nonce := m.apply(fsm.TermStart{Nonce: fsm.Nonce{9}, Format: wire.Format}); nonce == nil || *nonce != [16]byte{9} {
		t.Errorf("TermStart: %v", nonce)
	}
}

func TestApply_WhatCannotBeUnderstood(t *testing.T) {
	m := newMachine(t, nil)
	m.put("a", "1")
	before := m.r.Clone().Hash()
	for _, entry := range [][]byte{nil, {0xff}, []byte("nonsense"), {0x92, 0x02}} {
		if _, err := m.r.Apply(m.index+1, 1, entry); err == nil {
			t.Errorf("%q was understood", entry)
		}
	}
	if m.r.Clone().Hash() != before {
		t.Error("and has changed the state")
	}
}

// A snapshot is what the state was when it was taken, and a restored replica is the same in every respect.
func TestG10_SnapshotAndRestore(t *testing.T) {
	m := newMachine(t, nil)
	m.put("a", "1")
	snap, hash := m.r.Snapshot(), m.r.Clone().Hash()
	defer snap.Release()
	m.put("a", "2")
	m.put("b", "3")
	var b bytes.Buffer
	if err := snap.Persist(&b); err != nil {
		t.Fatal(err)
	}
	other := newMachine(t, nil)
	other.put("c", "other")
	if err := other.r.Restore(bytes.NewReader(b.Bytes())); err != nil {
		t.Fatal(err)
	}
	if got := other.r.Clone().Hash(); got != hash {
		t.Errorf("hash %x, want %x", got, hash)
	}
	if last := other.told[len(other.told)-1]; last != "restored" {
		t.Errorf("last told: %s", last)
	}
	before := m.r.Clone().Hash()
	for n := range b.Len() {
		if err := m.r.Restore(bytes.NewReader(b.Bytes()[:n])); err == nil {
			t.Errorf("%d of %d bytes were restored", n, b.Len())
		}
	}
	if m.r.Clone().Hash() != before {
		t.Error("a restore that failed has changed the state")
	}
	if err := snap.Persist(failing{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("persist to a full disk: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// Two replicas are hashed at the same index; one that differs learns it whichever comes first, its own hash or the
// leader's.
func TestG10_Checkpoints(t *testing.T) {
	type difference struct{ index, ours, leaders uint64 }
	for _, leaderFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var hashed []uint64
			var mismatches []difference
			m := newMachine(t, func(c *Config) {
				c.Hashed = func(index, _ uint64) { hashed = append(hashed, index) }
				c.Mismatch = func(index, ours, leaders uint64) {
					mismatches = append(mismatches, difference{index, ours, leaders})
				}
			})
			check := func(hash uint64) {
				m.apply(fsm.Check{Index: CheckEvery, Hash: hash})
				synctest.Wait()
			}
			m.put("a", "1")
			clean := m.r.Clone().Hash()
			if leaderFirst {
				check(1)
			}
			m.index = CheckEvery // entries of raft's own lie between
			m.put("a", "2")      // the first beyond the checkpoint
			synctest.Wait()
			ours, ok := m.r.HashAt(CheckEvery)
			if !ok || !slices.Equal(hashed, []uint64{CheckEvery}) || !leaderFirst && ours != clean {
				t.Errorf("hashed %v: %x, %v, want %x", hashed, ours, ok, clean)
			}
			if !leaderFirst {
				check(ours)
				if len(mismatches) != 0 {
					t.Errorf("the same: %v", mismatches)
				}
				check(1)
			}
			if want := []difference{{CheckEvery, ours, 1}}; !slices.Equal(mismatches, want) {
				t.Errorf("got %v, want %v", mismatches, want)
			}
		})
	}
}

// A checkpoint that comes while another is being hashed is left out. It is not made up for once the hashing is done: the
// state has moved on by then, and its hash under the checkpoint's index would set servers that agree against each other.
func TestG10_ACheckpointIsNotMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hashed []uint64
		m := newMachine(t, func(c *Config) {
			c.Hashed = func(index, _ uint64) { hashed = append(hashed, index) }
		})
		hashing := func(on bool) {
			m.r.checks.mu.Lock()
			defer m.r.checks.mu.Unlock()
			m.r.checks.running = on
		}
		hashing(true)
		m.index = CheckEvery
		m.put("a", "1")
		hashing(false)
		m.put("a", "2")
		synctest.Wait()
		if _, ok := m.r.HashAt(CheckEvery); ok || len(hashed) != 0 {
			t.Errorf("the state after entry %d was hashed as that of checkpoints %v", m.index, hashed)
		}
		m.index = 2 * CheckEvery
		m.put("a", "3")
		synctest.Wait()
		if !slices.Equal(hashed, []uint64{2 * CheckEvery}) {
			t.Errorf("hashed %v, want the next checkpoint", hashed)
		}
	})
}

func TestG10_CheckpointsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, nil)
		for point := range uint64(checksKept + 3) {
			m.index = point * CheckEvery
			m.put("a", "1")
			synctest.Wait()
		}
		if n := len(m.r.checks.ours); n > checksKept {
			t.Errorf("%d hashes are kept", n)
		}
		if _, ok := m.r.HashAt((checksKept + 2) * CheckEvery); !ok {
			t.Error("the newest is not")
		}
		var b bytes.Buffer
		if err := m.r.Snapshot().Persist(&b); err != nil {
			t.Fatal(err)
		}
		if err := m.r.Restore(&b); err != nil {
			t.Fatal(err)
		}
		if _, ok := m.r.HashAt((checksKept + 2) * CheckEvery); ok {
			t.Error("hashes of a state that was replaced")
		}
	})
}

func TestTimeline(t *testing.T) {
	var line timeline
	line.reset(10, 0)
	step := 7 * time.Millisecond
	const steps = 200_000
	for i := 1; i <= steps; i++ {
		line.note(10+fsm.Revision(i), time.Duration(i)*step)
	}
	now := time.Duration(steps+1) * step
	if len(line.samples) > timelineMost {
		t.Fatalf("%d samples", len(line.samples))
	}
	for i := 1; i <= steps; i++ {
		truth := now - time.Duration(i)*step
		got := line.since(10+fsm.Revision(i), now)
		off := truth / 5 // what is long ago is thinned out
		if i > steps-1000 {
			off = timelineStep
		}
		if got < truth-off || got > truth+off {
			t.Fatalf("revision %d: %v ago, was %v", i, got, truth)
		}
	}
	for rev, want := range map[fsm.Revision]time.Duration{0: now, 10: now, 10 + steps + 1: 0} {
		if got := line.since(rev, now); got != want {
			t.Errorf("revision %d: %v, want %v", rev, got, want)
		}
	}
}

func TestSince(t *testing.T) {
	m := newMachine(t, nil)
	m.now = time.Minute
	m.put("a", "1")
	rev := m.r.Clone().Revision()
	m.now += 5 * time.Second
	if d := m.r.Since(rev); d != 5*time.Second {
		t.Errorf("%v", d)
	}
}
