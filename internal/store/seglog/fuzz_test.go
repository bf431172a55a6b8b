package seglog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// FuzzSegment opens a log whose only segment has been changed: bytes are replaced, and the checksums of what was hit may
// be made right again, so that the fuzzer gets past them. It must not panic; what is read must be readable.
func FuzzSegment(f *testing.F) {
	d, l := newDisk(), (*Log)(nil)
	l, err := open(d, Options{Step: 1 << 10})
	must(f, err)
	for _, c := range []change{store(1, 3, 1), {lo: 2, hi: 3}, store(2, 9, 2), {lo: 1, hi: 4}, store(10, 10, 2)} {
		must(f, c.do(l))
	}
	must(f, l.Close())
	whole := d.names[segmentName(1)].now
	f.Add(uint16(0), []byte{1}, true)
	f.Add(uint16(sectorSize+16), []byte{2}, true)
	f.Add(uint16(sectorSize+20), []byte{0xff, 0xff, 0xff, 0x3f}, true)
	f.Add(uint16(sectorSize+24), []byte{0xff, 0xff}, true)
	f.Add(uint16(sectorSize+frameSize+4), []byte{0}, true)
	f.Add(uint16(40), []byte{9}, true)
	f.Fuzz(func(t *testing.T, at uint16, change []byte, mend bool) {
		b := bytes.Clone(whole)
		copy(b[int(at)%len(b):], change)
		if mend {
			mendSums(b)
		}
		d := newDisk()
		d.names[segmentName(1)] = &data{now: b, durable: b, dirty: map[int][][]byte{}}
		l, err := open(d, Options{Exists: true})
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Error(err)
			}
			return
		}
		first, _ := l.FirstIndex()
		last, _ := l.LastIndex()
		for i := first; i <= last && i-first < 1000; i++ {
			var e raft.Log
			if err := l.GetLog(i, &e); err != nil && !errors.Is(err, raft.ErrLogNotFound) && !errors.Is(err, ErrDamaged) {
				t.Error(err)
			}
		}
		if last < 1<<62 {
			must(t, l.StoreLog(entry(last+1, 9)))
		}
		must(t, l.Close())
	})
}

// mendSums makes the checksums right of the header, and of frames as far as their sizes lead to the next.
func mendSums(b []byte) {
	copy(b[headerSize-4:], sum32(b[:headerSize-4]))
	salt := binary.LittleEndian.Uint32(b[12:])
	for at := sectorSize; at+frameSize <= len(b); {
		size := int(binary.LittleEndian.Uint32(b[at+20:]))
		if size > len(b)-at-frameSize {
			return
		}
		payload := b[at+frameSize : at+frameSize+size]
		binary.LittleEndian.PutUint32(b[at+4:], sum(salt, payload))
		binary.LittleEndian.PutUint32(b[at:], sum(salt, b[at+4:at+frameSize]))
		at += frame{Size: uint32(size)}.length()
	}
}

// FuzzEntry reads entries back as they were, and refuses anything else.
func FuzzEntry(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint8(0), []byte("data"), []byte("ext"), uint16(3))
	f.Add(uint64(7), uint64(2), uint8(4), []byte{}, []byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, index, term uint64, kind uint8, data, extensions []byte, flip uint16) {
		e := &raft.Log{Index: index, Term: term, Type: raft.LogType(kind), Data: data, Extensions: extensions}
		b := appendEntry(nil, e, 5)
		got, err := decodeEntry(b, index, 5)
		if err != nil || got.Term != term || got.Type != e.Type || !bytes.Equal(got.Data, data) || !bytes.Equal(got.Extensions, extensions) {
			t.Errorf("%+v is read as %+v, %v", e, got, err)
		}
		b[int(flip)%len(b)] ^= 1
		if _, err := decodeEntry(b, index, 5); !errors.Is(err, ErrDamaged) {
			t.Errorf("a flipped bit in byte %d: %v", int(flip)%len(b), err)
		}
		if _, err := decodeEntry(data, index, 5); err == nil {
			t.Errorf("%x passes for an entry", data)
		}
	})
}
