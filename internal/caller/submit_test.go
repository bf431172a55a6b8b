package caller

import (
	"testing"
	"time"
)

// However many requests of a node have lost their leader, together they make a bounded number of attempts a second.
func TestManyRequestsBackOffFurther(t *testing.T) {
	for _, pausing := range []int64{1, 100, 1_000, 40_000} {
		for _, try := range []int{0, 3, 100} {
			sum, longest := time.Duration(0), time.Duration(0)
			const samples = 1000
			for range samples {
				d := jitter(try, pausing)
				sum, longest = sum+d, max(longest, d)
			}
			if longest > max(mostBackoff, time.Duration(pausing)*perPausing)+time.Millisecond {
				t.Errorf("try %d of one of %d pauses for %v", try, pausing, longest)
			}
			if rate := float64(pausing) / (sum / samples).Seconds(); pausing > 1_000 && rate > 10_000 {
				t.Errorf("%d requests make %.0f attempts a second", pausing, rate)
			}
		}
	}
}
