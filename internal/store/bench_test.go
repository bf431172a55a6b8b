package store

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// BenchmarkStoreLogs compares the kinds of log, and each with itself without the guard, on the same disk. It takes turns,
// so that whatever else the machine does disturbs all, and reports medians.
func BenchmarkStoreLogs(b *testing.B) {
	for _, c := range []struct{ entries, size int }{{1, 200}, {64, 200}, {1, 16 << 10}} {
		b.Run(fmt.Sprintf("%dx%d", c.entries, c.size), func(b *testing.B) {
			names := []string{"segments-ns", "bare-segments-ns", "bolt-ns", "bare-bolt-ns"}
			var logs []raft.LogStore
			for _, kind := range []LogStore{LogSegments, LogBolt} {
				logs = append(logs, mustOpen(b, b.TempDir(), Options{LogStore: kind}).Logs(), mustOpen(b, b.TempDir(), Options{LogStore: kind}).logs.inner)
			}
			took := make([][]time.Duration, len(logs))
			data := bytes.Repeat([]byte{7}, c.size)
			next, round := uint64(1), 0
			for b.Loop() {
				batch := make([]*raft.Log, c.entries)
				for i := range batch {
					batch[i] = &raft.Log{Index: next, Term: 1, Data: data}
					next++
				}
				round++
				for turn := range logs {
					i := (turn + round) % len(logs)
					start := time.Now()
					if err := logs[i].StoreLogs(batch); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(start))
				}
			}
			for i := range took {
				slices.Sort(took[i])
				b.ReportMetric(float64(took[i][len(took[i])/2]), names[i])
			}
		})
	}
}

func BenchmarkGetLog(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	if err := s.Logs().StoreLogs(entries(1, 1000, 1)); err != nil {
		b.Fatal(err)
	}
	for name, log := range map[string]raft.LogStore{"guarded": s.Logs(), "bare": s.logs.inner} {
		b.Run(name, func(b *testing.B) {
			var e raft.Log
			for i := uint64(0); b.Loop(); i++ {
				if err := log.GetLog(1+i%1000, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCall is the cost of handing an empty call to a worker, against a goroutine for each call.
func BenchmarkCall(b *testing.B) {
	s := mustMount(b, NewDisk(), Options{})
	b.Run("worker", func(b *testing.B) {
		for b.Loop() {
			s.g.do(OpGetLog, func() error { return nil })
		}
	})
	b.Run("goroutine", func(b *testing.B) {
		for b.Loop() {
			done := make(chan error, 1)
			go func() { done <- s.g.run(call{OpGetLog, func() error { return nil }}) }()
			<-done
		}
	})
}
