package calls

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
)

// newIntake returns an intake, and what it holds beside its small buffer.
func newIntake(from io.Reader) (in *intake, held *int) {
	held = new(int)
	pool := &sync.Pool{New: func() any { return new([largeBuffer]byte) }}
	return &intake{from: from, maxFrame: 4 << 20, large: pool, hold: func(n int) { *held += n }}, held
}

// pieces hands out bytes in pieces of random sizes.
type pieces struct {
	rest   []byte
	random *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	most := [...]int{1, 100, smallBuffer, 5000, 1 << 20}[p.random.IntN(5)]
	n := copy(b, p.rest[:min(len(p.rest), 1+p.random.IntN(most))])
	p.rest = p.rest[n:]
	return n, nil
}

func TestIntake(t *testing.T) {
	sizes := []int{1, 2, smallBuffer - frameHead - 1, smallBuffer - frameHead, smallBuffer - frameHead + 1, 5000,
		largeBuffer - frameHead, largeBuffer - frameHead + 1, largeBuffer + frameHead, 300_000, 4 << 20}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		var stream []byte
		var want [][]byte
		for range 30 {
			size := sizes[random.IntN(len(sizes))]
			if random.IntN(3) > 0 {
				size = 1 + random.IntN(2000)
			}
			body := bytes.Repeat([]byte{byte(random.Uint32())}, size)
			want = append(want, body)
			stream = append(stream, byte(size>>24), byte(size>>16), byte(size>>8), byte(size), frameVersion)
			stream = append(stream, body...)
		}
		in, held := newIntake(&pieces{stream, random})
		for i, body := range want {
			got, err := in.next()
			if err != nil || !bytes.Equal(got, body) {
				t.Fatalf("seed %d, frame %d: %d bytes of %d, %v", seed, i, len(got), len(body), err)
			}
		}
		if _, err := in.next(); err != io.EOF {
			t.Errorf("after the last: %v", err)
		}
		in.giveBack()
		if *held != 0 {
			t.Errorf("seed %d: %d bytes are not given back", seed, *held)
		}
	}
}

// waiting hands out bytes, and looks at the intake when it wants more than there are.
type waiting struct {
	rest []byte
	look func()
}

func (w *waiting) Read(b []byte) (int, error) {
	if len(w.rest) == 0 {
		w.look()
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(b, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// What a peer claims costs nothing, only what it has sent.
func TestIntakeTakesMemoryForWhatHasArrived(t *testing.T) {
	for _, sent := range []int{0, 1, 400, smallBuffer, 5000, largeBuffer, 100_000, 1 << 20, 3 << 20} {
		var held *int
		w := &waiting{rest: append([]byte{0, 0x40, 0, 0, frameVersion}, make([]byte, sent)...)}
		w.look = func() {
			most := 0
			if sent+frameHead >= smallBuffer {
				most = max(largeBuffer, 2*(sent+frameHead))
			}
			if *held > most {
				t.Errorf("%d bytes of a frame of 4 MiB have arrived, %d are held", sent, *held)
			}
		}
		var in *intake
		in, held = newIntake(w)
		if _, err := in.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v", err)
		}
	}
}

// Between two frames nothing is held, however large the last one was.
func TestIntakeHoldsNothingWhileIdle(t *testing.T) {
	for _, size := range []int{1, 1000, 60_000, 100_000, 4 << 20} {
		var f frames
		f.add(message{kind: kindRequest, body: make([]byte, max(0, size-20))})
		w := &waiting{rest: f.run()}
		var held *int
		var in *intake
		w.look = func() {
			if *held != 0 || in.pooled != nil {
				t.Errorf("after a frame of about %d bytes %d are held", size, *held)
			}
		}
		if size == 1 {
			w.rest = encodeFrame([]message{{kind: kindPing}})
		}
		in, held = newIntake(w)
		if _, err := in.next(); err != nil {
			t.Fatal(err)
		}
		if _, err := in.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v", err)
		}
	}
}
