package calls

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/coordcell/coord/transport"
)

// BenchmarkCall makes calls over TCP on the loopback interface; figures are a call's.
func BenchmarkCall(b *testing.B) {
	for _, callers := range []int{1, 16, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			w := newWorld(b, transport.TCP())
			from, _ := w.node("a", nil), w.node("b", nil)
			payload := make([]byte, 100)
			if _, err := from.Call(ctx, "b", echo, payload); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan error)
			for range callers {
				go func() {
					for left.Add(-1) >= 0 {
						if _, err := from.Call(ctx, "b", echo, payload); err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			for range callers {
				if err := <-done; err != nil {
					b.Error(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}
