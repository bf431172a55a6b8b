package store

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// BenchmarkStoreLogs compares the default log with bare raft-boltdb, on the same disk and with the same syncs. It takes
// turns, so that whatever else the machine does disturbs both, and reports medians.
func BenchmarkStoreLogs(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			logs := []raft.LogStore{mustOpen(b, b.TempDir(), Options{}).Logs(), mustOpen(b, b.TempDir(), Options{}).logs.inner}
			took := make([][]time.Duration, len(logs))
			data := bytes.Repeat([]byte{7}, 200)
			next := uint64(1)
			for b.Loop() {
				batch := make([]*raft.Log, n)
				for i := range batch {
					batch[i] = &raft.Log{Index: next, Term: 1, Data: data}
					next++
				}
				for turn := range logs {
					i := (turn + int(next)/n) % len(logs)
					start := time.Now()
					if err := logs[i].StoreLogs(batch); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(start))
				}
			}
			var median [2]float64
			for i := range took {
				slices.Sort(took[i])
				median[i] = float64(took[i][len(took[i])/2])
			}
			b.ReportMetric(median[0], "guarded-ns")
			b.ReportMetric(median[1], "bare-ns")
			b.ReportMetric(100*(median[0]/median[1]-1), "%overhead")
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
