package stats

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	ten := []float64{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}
	for q, want := range map[float64]float64{0: 1, .1: 1, .11: 2, .5: 5, .9: 9, .99: 10, 1: 10} {
		if got := Quantile(ten, q); got != want {
			t.Errorf("quantile %v of 1 … 10 is %v, want %v", q, got, want)
		}
	}
	if got := Quantile([]time.Duration{}, .5); got != 0 {
		t.Errorf("a quantile of nothing is %v", got)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(c.of); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.of, got, c.want)
		}
	}
}

func TestLatencies(t *testing.T) {
	var l Latencies
	l.Add(3*time.Millisecond, time.Millisecond)
	l.Add(1500 * time.Microsecond)
	if l.Len() != 3 || l.Quantile(.5) != 1.5 || len(l.All()) != 3 {
		t.Errorf("got %d, median %v", l.Len(), l.Quantile(.5))
	}
}
