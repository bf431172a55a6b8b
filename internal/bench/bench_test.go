package bench

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// A pair is a Lock and an Unlock, or two Applies of bare raft.

func BenchmarkPair_OneCaller(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		c := newBare(b, 3)
		for b.Loop() {
			c.apply(b)
			c.apply(b)
		}
	})
	b.Run("leader", func(b *testing.B) {
		c := newCell(b, 3)
		s := c.session(b, c.leader)
		for b.Loop() {
			lockUnlock(b, s, "x")
		}
	})
	b.Run("follower", func(b *testing.B) {
		c := newCell(b, 3)
		s := c.session(b, (c.leader+1)%3)
		for b.Loop() {
			lockUnlock(b, s, "x")
		}
	})
}

func BenchmarkPair_512Callers(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		c := newBare(b, 3)
		callers(b, 512, func(int) { c.apply(b); c.apply(b) })
	})
	b.Run("leader", func(b *testing.B) {
		c := newCell(b, 3)
		s := c.session(b, c.leader)
		callers(b, 512, func(i int) { lockUnlock(b, s, fmt.Sprint("x", i)) })
	})
}

// callers runs pair b.N times on n goroutines and reports pairs a second.
func callers(b *testing.B, n int, pair func(caller int)) {
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				pair(i)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// BenchmarkHandover is from the call of Unlock to the return of the next holder's Lock, with 200 waiters.
func BenchmarkHandover(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		c := newBare(b, 3)
		for b.Loop() {
			c.apply(b)
		}
	})
	b.Run("leader", func(b *testing.B) {
		c := newCell(b, 3)
		s := c.session(b, c.leader)
		granted := make(chan *coord.Lock)
		wait := func() {
			l, err := s.Lock(b.Context(), "x")
			if err != nil {
				b.Error(err)
			}
			granted <- l
		}
		for range 201 {
			go wait()
		}
		held := <-granted
		time.Sleep(time.Second) // all others are in the queue
		b.ResetTimer()
		for range b.N {
			go held.Unlock(b.Context())
			held = <-granted
			go wait()
		}
		b.StopTimer()
		for range 200 {
			go held.Unlock(b.Context())
			held = <-granted
		}
	})
}

func BenchmarkGet(b *testing.B) {
	b.Run("bareVerifyLeader", func(b *testing.B) {
		c := newBare(b, 3)
		for b.Loop() {
			if err := c.leader.VerifyLeader().Error(); err != nil {
				b.Error(err)
			}
		}
	})
	b.Run("leader", func(b *testing.B) {
		c := newCell(b, 3)
		get := getter(b, c, c.leader)
		for b.Loop() {
			get()
		}
	})
	b.Run("follower", func(b *testing.B) {
		c := newCell(b, 3)
		get := getter(b, c, (c.leader+1)%3)
		for b.Loop() {
			get()
		}
	})
	b.Run("leader128Callers", func(b *testing.B) {
		c := newCell(b, 3)
		get := getter(b, c, c.leader)
		callers(b, 128, func(int) { get() })
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
