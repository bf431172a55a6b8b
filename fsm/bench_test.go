package fsm

import (
	"fmt"
	"runtime"
	"testing"
)

// acknowledging is a session whose every change acknowledges the one before.
type acknowledging struct {
	id  SessionID
	seq uint64
}

func (a *acknowledging) next() Change {
	a.seq++
	c := Change{Session: a.id, Seq: a.seq}
	if a.seq > 1 {
		c.Acks = []uint64{a.seq - 1}
	}
	return c
}

func BenchmarkLockUnlock(b *testing.B) {
	r := newReplica(b)
	a := acknowledging{id: r.open("a")}
	b.ReportAllocs()
	for b.Loop() {
		token := r.do(Lock{Change: a.next(), Name: "l"}).Grants[0].Token
		r.do(Unlock{Change: a.next(), Name: "l", Token: token})
	}
}

// BenchmarkHandover unlocks a lock that 200 sessions wait for; the former holder goes to the end of the queue.
func BenchmarkHandover(b *testing.B) {
	r := newReplica(b)
	sessions := map[SessionID]*acknowledging{}
	for i := range 201 {
		a := &acknowledging{id: r.open(fmt.Sprint(i))}
		sessions[a.id] = a
		r.do(Lock{Change: a.next(), Name: "l"})
	}
	holder := r.Lookup("l").Holders[0]
	b.ReportAllocs()
	for b.Loop() {
		a := sessions[holder.Session]
		// The Lock in the same Change as the acknowledgement of the last: two entries a turn.
		g := r.do(Unlock{Change: a.next(), Name: "l", Token: holder.Token}).Grants[0]
		r.do(Lock{Change: a.next(), Name: "l"})
		holder = Holder{Session: g.Session, Token: g.Token}
	}
}

func BenchmarkPut(b *testing.B) {
	r := newReplica(b)
	a := acknowledging{id: r.open("a")}
	value := make([]byte, 100)
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("services/%d", i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r.do(Put{Change: a.next(), Key: keys[i%len(keys)], Value: value})
		i++
	}
}

// BenchmarkExpire ends a session with 10 locks and 2 keys.
func BenchmarkExpire(b *testing.B) {
	r := newReplica(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		b.StopTimer()
		i++
		a := acknowledging{id: r.open(fmt.Sprint(i))}
		for j := range 10 {
			r.do(Lock{Change: a.next(), Name: fmt.Sprint("l", j)})
		}
		r.do(Put{Change: a.next(), Key: "a", Ephemeral: true}, Put{Change: a.next(), Key: "b", Ephemeral: true})
		b.StartTimer()
		r.do(Expire{Term: 1, Sessions: []SessionID{a.id}})
	}
}

// BenchmarkMillionLocks reports what a held lock costs in memory, and how long the whole state takes to be hashed,
// copied into records and restored. One thousand sessions hold them, and have acknowledged all.
func BenchmarkMillionLocks(b *testing.B) {
	const locks = 1_000_000
	r := newReplica(b)
	var sessions []*acknowledging
	for i := range 1000 {
		sessions = append(sessions, &acknowledging{id: r.open(fmt.Sprint(i))})
	}
	before := liveHeap()
	for i := range locks {
		// Names of 24 bytes, in no order.
		r.do(Lock{Change: sessions[i%1000].next(), Name: fmt.Sprintf("locks/%018d", i*7919%locks)})
	}
	perLock := float64(liveHeap()-before) / locks
	for b.Loop() {
		r.Clone().Hash()
	}
	b.ReportMetric(perLock, "B/lock")
	runtime.KeepAlive(r)
}

// BenchmarkSessions reports what an open session costs whose newest result is still kept.
func BenchmarkSessions(b *testing.B) {
	const sessions = 120_000
	r := newReplica(b)
	r.do(Generation{First: true, Params: Params{HistoryEvents: 16}})
	before := liveHeap()
	for i := range sessions {
		o := OpenSession{TTL: 10e9, Label: fmt.Sprintf("worker-%d", i), Node: fmt.Sprintf("node-%012d", i)}
		copy(o.Nonce[:], fmt.Sprint(i*7919%sessions))
		id := r.result(r.do(o)).Session
		r.do(Put{Change: Change{Session: id, Seq: 1}, Key: "k"})
		r.do(Put{Change: Change{Session: id, Seq: 2, Acks: []uint64{1}}, Key: "k"})
	}
	perSession := float64(liveHeap()-before) / sessions
	for b.Loop() {
		r.Clone().Hash()
	}
	b.ReportMetric(perSession, "B/session")
	runtime.KeepAlive(r)
}

func BenchmarkClone(b *testing.B) {
	r := newReplica(b)
	for b.Loop() {
		r.Clone()
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
