package store

import (
	"bytes"
	"testing"

	"github.com/hashicorp/raft"
)

// BenchmarkStoreLogs compares the default log with bare raft-boltdb in the same file, with its syncs.
func BenchmarkStoreLogs(b *testing.B) {
	for _, c := range []struct {
		name    string
		entries uint64
	}{{"1", 1}, {"64", 64}} {
		data := bytes.Repeat([]byte{7}, 200)
		run := func(b *testing.B, on func(*Store) raft.LogStore) {
			log := on(mustOpen(b, b.TempDir(), Options{}))
			next := uint64(1)
			for b.Loop() {
				batch := make([]*raft.Log, c.entries)
				for i := range batch {
					batch[i] = &raft.Log{Index: next, Term: 1, Data: data}
					next++
				}
				if err := log.StoreLogs(batch); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.Run("guarded/"+c.name, func(b *testing.B) { run(b, func(s *Store) raft.LogStore { return s.Logs() }) })
		b.Run("bare/"+c.name, func(b *testing.B) { run(b, func(s *Store) raft.LogStore { return s.logs.inner }) })
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
