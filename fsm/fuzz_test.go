package fsm

import (
	"reflect"
	"testing"
)

// FuzzApply makes commands of the bytes given. Two replicas must agree, one of them restored from a snapshot again and
// again, and nothing may panic.
func FuzzApply(f *testing.F) {
	f.Add([]byte("0"))
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17"))
	seed := make([]byte, 1024)
	for i := range seed {
		seed[i] = byte(i * i * 31 >> 3)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2048 {
			data = data[:2048]
		}
		g := newGenerator(func(n int) int {
			if len(data) == 0 || n <= 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b) % n
		})
		g.rare = 192
		live, twin := New(), New()
		for i := uint64(1); len(data) > 0; i++ {
			cmds := g.entry(live)
			a, b := live.Apply(i, g.term, cmds), twin.Apply(i, g.term, cmds)
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("%+v\nlive %+v\ntwin %+v", cmds, a, b)
			}
			if i%16 == 0 {
				twin = restored(t, twin)
			}
		}
		if live.Hash() != twin.Hash() || restored(t, live).Hash() != live.Hash() {
			t.Fatal("the hashes differ")
		}
	})
}
