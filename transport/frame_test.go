package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"
)

const testLimit = 16 << 20

func TestFrames(t *testing.T) {
	var stream bytes.Buffer
	sizes := []int{0, 1, 4, 511, 512, 513, frameStep - 1, frameStep, frameStep + 1, 3*frameStep + 7, 1 << 20}
	for _, n := range sizes {
		if err := WriteFrame(&stream, randomBytes(n), testLimit); err != nil {
			t.Fatal(err)
		}
	}
	for _, reader := range []func([]byte) io.Reader{
		func(b []byte) io.Reader { return bytes.NewReader(b) },
		func(b []byte) io.Reader { return iotest.HalfReader(bytes.NewReader(b)) },
	} {
		r := reader(stream.Bytes())
		var buf []byte
		for _, n := range sizes {
			var err error
			buf, err = ReadFrame(r, testLimit, buf)
			if err != nil || !bytes.Equal(buf, randomBytes(n)) {
				t.Fatalf("a frame of %d bytes came back with %d, %v", n, len(buf), err)
			}
		}
		if _, err := ReadFrame(r, testLimit, buf); err != io.EOF {
			t.Errorf("at the end: %v, want io.EOF", err)
		}
	}
}

func TestFrameUsesTheGivenMemory(t *testing.T) {
	buf := make([]byte, 0, 100)
	var stream bytes.Buffer
	WriteFrame(&stream, randomBytes(100), 100)
	got, err := ReadFrame(&stream, 100, buf)
	if err != nil || &got[0] != &buf[:1][0] {
		t.Errorf("%d bytes elsewhere, %v", len(got), err)
	}
}

func TestFrameLimit(t *testing.T) {
	var w bytes.Buffer
	if err := WriteFrame(&w, make([]byte, 101), 100); !errors.Is(err, ErrFrameSize) || w.Len() != 0 {
		t.Errorf("WriteFrame: %v, with %d bytes written", err, w.Len())
	}
	WriteFrame(&w, make([]byte, 101), 101)
	if _, err := ReadFrame(&w, 100, nil); !errors.Is(err, ErrFrameSize) {
		t.Errorf("ReadFrame: %v", err)
	}
	huge := bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff})
	if _, err := ReadFrame(huge, testLimit, nil); !errors.Is(err, ErrFrameSize) {
		t.Errorf("ReadFrame of 4 GiB: %v", err)
	}
}

func TestFrameCutShort(t *testing.T) {
	var w bytes.Buffer
	WriteFrame(&w, randomBytes(100_000), testLimit)
	for _, n := range []int{1, 3, 4, 5, frameHeader + frameStep, w.Len() - 1} {
		if _, err := ReadFrame(bytes.NewReader(w.Bytes()[:n]), testLimit, nil); err != io.ErrUnexpectedEOF {
			t.Errorf("%d of %d bytes: %v, want io.ErrUnexpectedEOF", n, w.Len(), err)
		}
	}
}

func TestFrameClaimCostsNothing(t *testing.T) {
	claim := append(binary.BigEndian.AppendUint32(nil, testLimit), make([]byte, 1000)...)
	const times = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		if _, err := ReadFrame(bytes.NewReader(claim), testLimit, nil); err != io.ErrUnexpectedEOF {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / times; each > 4*frameStep {
		t.Errorf("a thousand bytes took %d bytes of memory", each)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 'a', 'b', 'c'}, 10)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 'x'}, 1)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, 1<<30)
	f.Add([]byte{0, 0, 0, 0}, -1)
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		r := bytes.NewReader(b)
		var again bytes.Buffer
		for {
			frame, err := ReadFrame(r, limit, nil)
			if err != nil {
				break
			}
			if len(frame) > limit {
				t.Fatalf("%d bytes, the limit was %d", len(frame), limit)
			}
			if cap(frame) > 2*len(b)+2*frameStep {
				t.Fatalf("%d bytes of memory for %d that arrived", cap(frame), len(b))
			}
			if err := WriteFrame(&again, frame, limit); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(b, again.Bytes()) {
			t.Fatalf("%x was written again as %x", b, again.Bytes())
		}
	})
}
