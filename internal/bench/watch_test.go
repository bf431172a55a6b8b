//go:build unix

package bench

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/bench/process"
	"github.com/coordcell/coord/transport"
)

const watchers = 10_000

// newMemoryCell is one server without a disk or a network: what is left is the work of the watches.
func newMemoryCell(b *testing.B) *coord.Node {
	b.Helper()
	n, err := coord.Start(b.Context(), coord.Config{
		InMemory: true, Expect: 1, Transport: transport.NewMemory(), Listen: "server:1", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { n.Close() })
	if err := n.WaitReady(b.Context()); err != nil {
		b.Fatal(err)
	}
	return n
}

// crowd is many watches of one prefix, each with a goroutine that reads it.
type crowd struct {
	watches []*coord.Watch
	got     atomic.Int64 // events
	full    chan struct{}
	want    atomic.Int64
	readers sync.WaitGroup
}

func newCrowd(b *testing.B, n *coord.Node) *crowd {
	b.Helper()
	c := &crowd{full: make(chan struct{}, 1)}
	for range watchers {
		w, err := n.Watch(b.Context(), "w/", coord.Prefix())
		if err != nil {
			b.Fatal(err)
		}
		c.watches = append(c.watches, w)
	}
	b.Cleanup(c.close)
	return c
}

func (c *crowd) close() {
	for _, w := range c.watches {
		w.Close()
	}
	c.readers.Wait()
}

func (c *crowd) read(how string) {
	for _, w := range c.watches {
		c.readers.Go(func() {
			if how == "all" {
				for batch := range w.All() {
					c.count(batch)
				}
				return
			}
			for batch := range w.Batches() {
				c.count(batch)
			}
		})
	}
}

func (c *crowd) count(b coord.Batch) {
	if n := len(b.Events); n > 0 && c.got.Add(int64(n)) == c.want.Load() {
		c.full <- struct{}{}
	}
}

// BenchmarkWatch delivers 100 puts to 10,000 watchers of their prefix: put at once, or each when the one before has come
// to everybody. On a machine with something else to do, count the processor time.
func BenchmarkWatch(b *testing.B) {
	const puts = 100
	for _, how := range []string{"batches", "all"} {
		for _, mode := range []string{"burst", "lockstep"} {
			b.Run(mode+"/"+how, func(b *testing.B) {
				n := newMemoryCell(b)
				c := newCrowd(b, n)
				c.read(how)
				put := func(i int) {
					if _, err := n.Put(b.Context(), fmt.Sprint("w/", i), []byte("0123456789")); err != nil {
						b.Error(err)
					}
				}
				var rounds, work []time.Duration
				for b.Loop() {
					begin, used := time.Now(), process.CPU()
					if mode == "burst" {
						c.want.Add(puts * watchers)
						callers(puts, puts, put)
						<-c.full
					} else {
						for i := range puts {
							c.want.Add(watchers)
							put(i)
							<-c.full
						}
					}
					rounds, work = append(rounds, time.Since(begin)), append(work, process.CPU()-used)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(median(work).Nanoseconds())/(puts*watchers), "cpu-ns/event")
				b.ReportMetric(puts*watchers/median(rounds).Seconds(), "events/s")
			})
		}
	}
}

// BenchmarkWatchMemory is what a watch takes that waits for changes, stacks included, and what it takes together with a
// goroutine that reads it.
func BenchmarkWatchMemory(b *testing.B) {
	n := newMemoryCell(b)
	used := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc + m.StackInuse)
	}
	for b.Loop() {
		before := used()
		c := newCrowd(b, n)
		time.Sleep(2 * time.Second)
		watch := used()
		c.read("batches")
		time.Sleep(2 * time.Second)
		read := used()
		b.ReportMetric((watch-before)/watchers, "B/watch")
		b.ReportMetric((read-before)/watchers, "B/watch+reader")
		c.close()
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPutToEvent is from the call of Put, on the leader, to the event on a watch there and on a follower, in an idle
// cell of three servers.
func BenchmarkPutToEvent(b *testing.B) {
	for _, where := range []string{"leader", "follower"} {
		b.Run(where, func(b *testing.B) {
			c := newCell(b, 3)
			w, err := c.nodes[c.at(where)].Watch(b.Context(), "k")
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			var took []time.Duration
			for b.Loop() {
				time.Sleep(20 * time.Millisecond) // idle again
				begin := time.Now()
				if _, err := c.nodes[c.leader].Put(b.Context(), "k", nil); err != nil {
					b.Fatal(err)
				}
				for batch := range w.Batches() {
					if len(batch.Events) > 0 {
						break
					}
				}
				took = append(took, time.Since(begin))
			}
			p50 := median(took) // sorts
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(p50.Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
