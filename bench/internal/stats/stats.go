// Package stats has the few numbers that a comparison needs: medians, quantiles and spreads.
package stats

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Quantile is the smallest of the values that at least the share q of them does not exceed; 0 of none. It sorts them.
func Quantile[T ~int64 | ~float64](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}

// Median is the middle value, or the mean of the two in the middle; 0 of none. It sorts them.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	slices.Sort(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// Latencies gathers durations from many goroutines.
type Latencies struct {
	mu    sync.Mutex
	taken []time.Duration
}

// Add adds some.
func (l *Latencies) Add(taken ...time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken = append(l.taken, taken...)
}

// Len is how many there are.
func (l *Latencies) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.taken)
}

// All of them, in no order.
func (l *Latencies) All() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.taken)
}

// Quantile is in milliseconds.
func (l *Latencies) Quantile(q float64) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Milliseconds(Quantile(l.taken, q))
}

// Milliseconds of a duration, with the part after the point.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
