package bench

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// sideBySide measures two things in turn, so that a machine whose speed drifts slows both down, and reports the medians
// and their ratio. It takes b.N rounds.
func sideBySide(b *testing.B, bare, ours func()) {
	b.Helper()
	var bares, our []time.Duration
	for b.Loop() {
		t0 := time.Now()
		bare()
		t1 := time.Now()
		ours()
		bares, our = append(bares, t1.Sub(t0)), append(our, time.Since(t1))
	}
	x, y := median(bares), median(our)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(x.Microseconds()), "bare-µs")
	b.ReportMetric(float64(y.Microseconds()), "ours-µs")
	b.ReportMetric(float64(y)/float64(x), "ratio")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// A pair is a Lock and an Unlock, beside two Applies of bare raft.
func BenchmarkPair(b *testing.B) {
	for _, where := range []string{"leader", "follower"} {
		b.Run(where, func(b *testing.B) {
			raft, c := newBare(b, 3), newCell(b, 3)
			s := c.session(b, c.at(where))
			sideBySide(b, func() { raft.apply(b); raft.apply(b) }, func() { lockUnlock(b, s, "x") })
		})
	}
}

// BenchmarkPairs has 512 callers at once, in rounds of 1,024 pairs; bare raft gets each command as an entry of its own.
func BenchmarkPairs(b *testing.B) {
	raft, c := newBare(b, 3), newCell(b, 3)
	s := c.session(b, c.leader)
	const pairs = 1024
	sideBySide(b,
		func() { callers(512, pairs, func(int) { raft.apply(b); raft.apply(b) }) },
		func() { callers(512, pairs, func(i int) { lockUnlock(b, s, fmt.Sprint("x", i)) }) })
}

// callers has n goroutines do something total times together.
func callers(n, total int, do func(caller int)) {
	var left atomic.Int64
	left.Store(int64(total))
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				do(i)
			}
		})
	}
	wg.Wait()
}

// BenchmarkHandover is from the call of Unlock to the return of the next holder's Lock, with 200 waiters.
func BenchmarkHandover(b *testing.B) {
	raft, c := newBare(b, 3), newCell(b, 3)
	s := c.session(b, c.leader)
	granted := make(chan *coord.Lock)
	var waiters sync.WaitGroup
	wait := func() {
		l, err := s.Lock(b.Context(), "x")
		if err != nil {
			b.Error(err)
		}
		granted <- l
	}
	for range 201 {
		waiters.Go(wait)
	}
	held := <-granted
	time.Sleep(time.Second) // all others are in the queue
	next := func() {
		waiters.Go(func() { held.Unlock(b.Context()) })
		held = <-granted
	}
	sideBySide(b, func() { raft.apply(b) }, func() { next(); waiters.Go(wait) })
	for range 200 {
		next()
	}
	waiters.Wait()
}

// BenchmarkGet is a linearizable read beside raft's VerifyLeader.
func BenchmarkGet(b *testing.B) {
	for _, where := range []string{"leader", "follower"} {
		b.Run(where, func(b *testing.B) {
			raft, c := newBare(b, 3), newCell(b, 3)
			get := getter(b, c, c.at(where))
			sideBySide(b, func() { raft.verify(b) }, get)
		})
	}
	b.Run("leader128Callers", func(b *testing.B) {
		raft, c := newBare(b, 3), newCell(b, 3)
		get := getter(b, c, c.leader)
		const reads = 1024
		sideBySide(b,
			func() { callers(128, reads, func(int) { raft.verify(b) }) },
			func() { callers(128, reads, func(int) { get() }) })
	})
}

func getter(b *testing.B, c *cell, node int) func() {
	if _, err := c.nodes[c.leader].Put(b.Context(), "k", []byte("v")); err != nil {
		b.Fatal(err)
	}
	return func() {
		if _, err := c.nodes[node].Get(b.Context(), "k"); err != nil {
			b.Error(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	c := newCell(b, 1)
	l, err := c.session(b, 0).Lock(b.Context(), "x")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Check(); err != nil {
			b.Fatal(err)
		}
	}
}
