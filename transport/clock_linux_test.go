package transport

import (
	"testing"
	"time"
)

func BenchmarkClock(b *testing.B) {
	c := newClock()
	b.ReportAllocs()
	for b.Loop() {
		c.now()
	}
}

func BenchmarkMonotonic(b *testing.B) {
	s := time.Now()
	for b.Loop() {
		time.Since(s)
	}
}
