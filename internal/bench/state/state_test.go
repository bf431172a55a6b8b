package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/replica"
	"github.com/coordcell/coord/internal/wire"
)

// machine is the copy of the state that a server keeps, driven by entries as they come out of the log.
type machine struct {
	tb    testing.TB
	r     *replica.Replica
	index uint64
	took  []time.Duration // each Apply, where somebody wants to know
}

func newMachine(tb testing.TB) *machine {
	start := time.Now()
	m := &machine{tb: tb, r: replica.New(replica.Config{Now: func() time.Duration { return time.Since(start) }, CheckEvery: 1 << 62})}
	tb.Cleanup(m.r.Close)
	m.apply(fsm.Generation{First: true}, fsm.TermStart{Nonce: fsm.Nonce{7}, Format: wire.Format})
	return m
}

func (m *machine) apply(cmds ...fsm.Command) {
	entry, err := wire.AppendEntry(nil, cmds)
	if err != nil {
		m.tb.Fatal(err)
	}
	m.index++
	begin := time.Now()
	if _, err := m.r.Apply(m.index, 1, entry); err != nil {
		m.tb.Fatal(err)
	}
	if m.took != nil {
		m.took = append(m.took, time.Since(begin))
	}
}

const pack = 256 // commands in one entry

// batches applies n commands in entries of pack.
func (m *machine) batches(n int, command func(i int) fsm.Command) {
	cmds := make([]fsm.Command, 0, pack)
	for i := range n {
		cmds = append(cmds, command(i))
		if len(cmds) == pack || i == n-1 {
			m.apply(cmds...)
			cmds = cmds[:0]
		}
	}
}

// openSessions opens n sessions of four nodes, and returns their ids.
func (m *machine) openSessions(n int) []fsm.SessionID {
	m.batches(n, func(i int) fsm.Command {
		c := fsm.OpenSession{TTL: int64(12 * time.Second), Node: fmt.Sprintf("%032x", i%4)}
		binary.BigEndian.PutUint64(c.Nonce[:], rand.Uint64())
		binary.BigEndian.PutUint64(c.Nonce[8:], rand.Uint64())
		return c
	})
	ids := make([]fsm.SessionID, 0, n)
	m.r.View(func(s *fsm.State) {
		for v := range s.Sessions() {
			ids = append(ids, v.ID)
		}
	})
	return ids
}

// lockAll has the sessions take n locks in turn, in the order of names given; each acknowledges its last result with its next
// command, as nodes do.
func (m *machine) lockAll(ids []fsm.SessionID, n int, name func(i int) string) {
	m.batches(n, func(i int) fsm.Command {
		c := fsm.Lock{Change: fsm.Change{Session: ids[i%len(ids)], Seq: uint64(i/len(ids)) + 1}, Name: name(i)}
		if c.Seq > 1 {
			c.Acks = []uint64{c.Seq - 1}
		}
		return c
	})
}

// scattered is a name of 24 bytes; those of neighbouring numbers lie far apart.
func scattered(i int) string { return fmt.Sprintf("lock/%010x/%08d", uint32(i)*2654435761, i) }

// ascending is a name of 24 bytes; they ascend with their numbers.
func ascending(i int) string { return fmt.Sprintf("lock/%019d", i) }

// heap is what lives after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // frees what the first one has found to be pooled only
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// perItem is the live heap that n things made by fill take, each.
func perItem(n int, fill func()) float64 {
	before := heap()
	fill()
	return float64(heap()-before) / float64(n)
}

// The bounds hold whatever the machine: they count bytes.
const (
	mostBytesPerLock    = 250 // live heap
	mostBytesPerSession = 400
	mostDiskPerLock     = 150 // in a snapshot
)

func TestMemoryOfLocks(t *testing.T) {
	const locks, sessions = 100_000, 1_000
	for _, order := range []struct {
		name  string
		names func(int) string
	}{{"scattered", scattered}, {"ascending", ascending}} {
		t.Run(order.name, func(t *testing.T) {
			m := newMachine(t)
			ids := m.openSessions(sessions)
			bytes := perItem(locks, func() { m.lockAll(ids, locks, order.names) })
			t.Logf("%.0f bytes of live heap a lock", bytes)
			if bytes > mostBytesPerLock {
				t.Errorf("%.0f bytes of live heap a lock, want %d at most", bytes, mostBytesPerLock)
			}
			var w counter
			if err := m.r.Snapshot().Persist(&w); err != nil {
				t.Fatal(err)
			}
			disk := float64(w) / locks
			t.Logf("%.0f bytes a lock in a snapshot", disk)
			if disk > mostDiskPerLock {
				t.Errorf("%.0f bytes a lock in a snapshot, want %d at most", disk, mostDiskPerLock)
			}
			runtime.KeepAlive(m)
		})
	}
}

func TestMemoryOfSessions(t *testing.T) {
	const sessions = 100_000
	m := newMachine(t)
	bytes := perItem(sessions, func() { m.openSessions(sessions) })
	t.Logf("%.0f bytes of live heap a session", bytes)
	if bytes > mostBytesPerSession {
		t.Errorf("%.0f bytes of live heap a session, want %d at most", bytes, mostBytesPerSession)
	}
	runtime.KeepAlive(m)
}

type counter int

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }

// holding is a state with n locks of 24-byte names, held by 12 sessions for each hundred.
func holding(b *testing.B, locks int) *machine {
	b.Helper()
	m := newMachine(b)
	begin := time.Now()
	m.lockAll(m.openSessions(locks*12/100), locks, scattered)
	b.ReportMetric(float64(time.Since(begin).Nanoseconds())/float64(locks), "ns/lock")
	return m
}

func BenchmarkState(b *testing.B) {
	for _, locks := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("%dlocks", locks), func(b *testing.B) { benchmarkState(b, locks) })
	}
}

func benchmarkState(b *testing.B, locks int) {
	var m *machine
	b.Run("Fill", func(b *testing.B) {
		for b.Loop() {
			m = holding(b, locks)
		}
	})
	b.Run("Snapshot", func(b *testing.B) {
		for b.Loop() {
			m.r.Snapshot().Release()
		}
	})
	var snapshot bytes.Buffer
	b.Run("Persist", func(b *testing.B) {
		for b.Loop() {
			snapshot.Reset()
			if err := m.r.Snapshot().Persist(&snapshot); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(snapshot.Len())/float64(locks), "B/lock")
	})
	b.Run("Restore", func(b *testing.B) {
		for b.Loop() {
			other := newMachine(b)
			if err := other.r.Restore(bytes.NewReader(snapshot.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Hash", func(b *testing.B) {
		state := m.r.Clone()
		for b.Loop() {
			state.Hash()
		}
	})
	b.Run("ApplyDuringPersist", func(b *testing.B) { applyDuringPersist(b, m) })
}

// applyDuringPersist compares the time that an entry of one lock takes before and while a snapshot is written.
func applyDuringPersist(b *testing.B, m *machine) {
	var ids []fsm.SessionID
	m.r.View(func(s *fsm.State) {
		for v := range s.Sessions() {
			ids = append(ids, v.ID)
		}
	})
	ids = ids[:1000]
	seq := uint64(1_000_000)
	pair := func() {
		seq++
		id := ids[rand.N(len(ids))]
		m.apply(fsm.Lock{Change: fsm.Change{Session: id, Seq: seq}, Name: scattered(int(seq))})
	}
	p99 := func() time.Duration {
		d := slices.Sorted(slices.Values(m.took))
		return d[len(d)*99/100]
	}
	var before, during time.Duration
	for b.Loop() {
		m.took = make([]time.Duration, 0, 1<<20)
		for range 100_000 {
			pair()
		}
		before = p99()
		m.took = m.took[:0]
		done := make(chan error, 1)
		go func() { done <- m.r.Snapshot().Persist(io.Discard) }()
		for writing := true; writing; {
			for range 100 {
				pair()
			}
			select {
			case err := <-done:
				if err != nil {
					b.Fatal(err)
				}
				writing = false
			default:
			}
		}
		during = p99()
	}
	b.ReportMetric(float64(before.Nanoseconds()), "p99-before-ns")
	b.ReportMetric(float64(during.Nanoseconds()), "p99-during-ns")
	b.ReportMetric(float64(during)/float64(before), "ratio")
}
