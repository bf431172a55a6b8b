package wire

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/goldentest"
)

// records has one of every type, each field with a value of its own.
func records() []fsm.Record {
	kv := fsm.KeyValue{Key: "k", Value: []byte("v"), Created: 1, Changed: 200, Session: 3}
	return []fsm.Record{
		fsm.Header{
			Index: 1000, Revision: 70000, Floor: 400, Formed: true, Cell: nonce, Params: params,
			Hold: true, HoldTTL: 10e9, Term: 7, Start: fsm.TermStart{Nonce: nonce, Format: 2},
		},
		fsm.MemberRecord{Member: fsm.Member{ID: "id", Name: "name", Addr: "10.0.0.1:7420"}},
		fsm.SessionRecord{
			ID: 1 << 33, Nonce: nonce, TTL: 10e9, Label: "worker 7", Node: "n-1", Internal: true,
			Ended: fsm.SessionExpired, Acked: []fsm.SeqRange{{First: 1, Last: 16}, {First: 18, Last: 300}},
		},
		fsm.ResultRecord{Session: 1 << 33, Seq: 17, Name: "jobs/7", Result: results()[0]},
		fsm.LockRecord{Name: "jobs/7", Session: 1 << 33, Token: 4711, Data: []byte("data")},
		fsm.WaiterRecord{Name: "jobs/7", Position: 4712, Session: 5, Seq: 6, Data: []byte("more")},
		fsm.KeyRecord{KV: kv},
		fsm.EventRecord{N: 1<<32 - 1, Event: fsm.Event{
			Type: fsm.EventExpire, Key: "k", Value: []byte("v"), Previous: []byte("u"), Revision: 9, Session: 3,
		}},
		fsm.Trailer{Members: 1, Sessions: 2, Results: 3, Locks: 4, Waiters: 5, Keys: 6, Events: 7},
	}
}

func writeSnapshot(t testing.TB, records iter.Seq[fsm.Record]) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSnapshot(&b, records); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readSnapshot(r io.Reader) (list []fsm.Record, err error) {
	for rec, err := range ReadSnapshot(r) {
		if err != nil {
			return list, err
		}
		list = append(list, rec)
	}
	return list, nil
}

func TestGoldenSnapshot(t *testing.T) {
	want := map[string][]fsm.Record{"all": records(), "empty": nil}
	var items []goldentest.Item
	for _, name := range []string{"all", "empty"} {
		items = append(items, goldentest.Item{Name: name, Bytes: writeSnapshot(t, slices.Values(want[name]))})
	}
	for name, b := range goldentest.Check(t, "snapshot.v1.txt", *rewrite, items) {
		if list, err := readSnapshot(bytes.NewReader(b)); err != nil || !reflect.DeepEqual(list, want[name]) {
			t.Errorf("%s reads as %+v, %v", name, list, err)
		}
	}
}

// large is more than one chunk, with one record that is larger than a chunk.
func large() []fsm.Record {
	var list []fsm.Record
	for i := range 3000 {
		list = append(list, fsm.KeyRecord{KV: fsm.KeyValue{Key: "key", Value: bytes.Repeat([]byte{byte(i)}, 60), Created: fsm.Revision(i)}})
	}
	return append(list, fsm.KeyRecord{KV: fsm.KeyValue{Key: "large", Value: make([]byte, 3*fullChunk)}}, fsm.Trailer{Keys: 3001})
}

func TestSnapshotOfManyChunks(t *testing.T) {
	b := writeSnapshot(t, slices.Values(large()))
	for _, r := range []io.Reader{bytes.NewReader(b), iotest.HalfReader(bytes.NewReader(b)), iotest.DataErrReader(bytes.NewReader(b))} {
		if list, err := readSnapshot(r); err != nil || !reflect.DeepEqual(list, large()) {
			t.Errorf("%d records, %v", len(list), err)
		}
	}
}

func TestSnapshotTruncated(t *testing.T) {
	b := writeSnapshot(t, slices.Values(append(records(), newerRecords()...)))
	for n := range b {
		if _, err := readSnapshot(bytes.NewReader(b[:n])); !errors.Is(err, ErrMalformed) {
			t.Fatalf("first %d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := readSnapshot(bytes.NewReader(append(bytes.Clone(b), 0))); !errors.Is(err, ErrMalformed) {
		t.Errorf("a byte too many: %v", err)
	}
}

// No flipped bit may reach the state machine, not even one that leaves the records readable.
func TestSnapshotFlipped(t *testing.T) {
	b := writeSnapshot(t, slices.Values(records()))
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		list, err := readSnapshot(bytes.NewReader(b))
		if err == nil || len(list) > len(records()) {
			t.Fatalf("bit %d of byte %d: %d records, %v", i%8, i/8, len(list), err)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

// Chunks that are each whole but missing, doubled or swapped make a snapshot that never was.
func TestSnapshotChunksOutOfPlace(t *testing.T) {
	b := writeSnapshot(t, slices.Values(large()))
	var cuts []int
	for at := len(snapshotMagic) + 4; at < len(b)-16; {
		cuts = append(cuts, at)
		at += 8 + int(b[at])<<24 + int(b[at+1])<<16 + int(b[at+2])<<8 + int(b[at+3])
	}
	if len(cuts) < 4 {
		t.Fatalf("%d chunks", len(cuts))
	}
	head, first, second, rest := b[:cuts[0]], b[cuts[0]:cuts[1]], b[cuts[1]:cuts[2]], b[cuts[2]:]
	for name, parts := range map[string][][]byte{
		"missing": {head, first, rest},
		"doubled": {head, first, first, second, rest},
		"swapped": {head, second, first, rest},
	} {
		if _, err := readSnapshot(bytes.NewReader(bytes.Join(parts, nil))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSnapshotNewer(t *testing.T) {
	b := writeSnapshot(t, slices.Values(records()))
	b[len(snapshotMagic)+3] = 2
	if _, err := readSnapshot(bytes.NewReader(b)); !errors.Is(err, ErrUnknown) {
		t.Errorf("format 2: %v", err)
	}
	for name, build := range map[string]func(e *Encoder){
		"kind":    func(e *Encoder) { openCommand(e, 90, 0) },
		"version": func(e *Encoder) { e.Array(2); e.Uint(recTrailer); e.Uint(3) },
	} {
		e := NewEncoder(nil)
		build(e)
		d := NewDecoder(e.Finish())
		decodeRecord(d)
		if err := d.Finish(); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the sums do not tell, because whoever wrote it got them right.
func TestSnapshotWellSummed(t *testing.T) {
	write := func(magic string, format byte, miscount uint64) []byte {
		var b bytes.Buffer
		s := snapshotWriter{w: &b, buf: append([]byte(magic), 0, 0, 0, format)}
		for _, r := range records() {
			if err := s.add(r); err != nil {
				t.Fatal(err)
			}
		}
		s.count += miscount
		if err := s.end(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if _, err := readSnapshot(bytes.NewReader(write(snapshotMagic, 1, 0))); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"magic": write("coordsnq", 1, 0), "format 0": write(snapshotMagic, 0, 0), "count": write(snapshotMagic, 1, 1),
	} {
		if _, err := readSnapshot(bytes.NewReader(b)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSnapshotHugeChunk(t *testing.T) {
	head := []byte(snapshotMagic + "\x00\x00\x00\x01")
	for _, size := range []string{"\xff\xff\xff\xff", "\x0f\xff\xff\xff"} {
		taken := allocated(func() {
			if _, err := readSnapshot(bytes.NewReader(append(head, size...))); !errors.Is(err, ErrMalformed) {
				t.Errorf("%x: %v", size, err)
			}
		})
		if taken > 1<<20 {
			t.Errorf("%x: %d bytes taken", size, taken)
		}
	}
}

func TestSnapshotErrors(t *testing.T) {
	broken := errors.New("broken")
	b := writeSnapshot(t, slices.Values(large()))
	for _, n := range []int{0, 10, 14, 1000, len(b) - 5, len(b)} {
		r := io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(broken))
		if _, err := readSnapshot(r); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	for n := range 5 {
		w := &failingWriter{left: n, err: broken}
		if err := WriteSnapshot(w, slices.Values(large())); !errors.Is(err, broken) {
			t.Errorf("after %d writes: %v", n, err)
		}
	}
	if err := WriteSnapshot(io.Discard, slices.Values([]fsm.Record{nil})); err == nil {
		t.Error("a record of no type was written")
	}
}

type failingWriter struct {
	left int
	err  error
}

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left == 0 {
		return 0, w.err
	}
	w.left--
	return len(b), nil
}

func TestSnapshotReaderStops(t *testing.T) {
	b := writeSnapshot(t, slices.Values(records()))
	n := 0
	for range ReadSnapshot(bytes.NewReader(b)) {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d records", n)
	}
}

func FuzzReadSnapshot(f *testing.F) {
	f.Add(writeSnapshot(f, slices.Values(records())))
	f.Add(writeSnapshot(f, slices.Values[[]fsm.Record](nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := readSnapshot(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := readSnapshot(bytes.NewReader(writeSnapshot(t, slices.Values(list))))
		if err != nil || !reflect.DeepEqual(again, list) {
			t.Fatalf("%+v became %+v, %v", list, again, err)
		}
	})
}

// FuzzRecords goes past the sums, which a fuzzer does not get right by itself.
func FuzzRecords(f *testing.F) {
	for _, r := range append(records(), newerRecords()...) {
		e := NewEncoder(nil)
		if err := encodeRecord(e, r); err != nil {
			f.Fatal(err)
		}
		f.Add(e.Finish())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := NewDecoder(b)
		r := decodeRecord(d)
		if d.Finish() != nil {
			return
		}
		e := NewEncoder(nil)
		if err := encodeRecord(e, r); err != nil {
			t.Fatal(err)
		}
		if again := e.Finish(); !bytes.Equal(again, b) {
			t.Fatalf("%x became %x", b, again)
		}
	})
}

// BenchmarkSnapshot writes and reads a million locks' worth of records; figures are a record's.
func BenchmarkSnapshot(b *testing.B) {
	r := fsm.LockRecord{Name: "jobs/nightly/7", Session: 1 << 33, Token: 4711, Data: []byte("host-17")}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		_ = WriteSnapshot(io.Discard, func(yield func(fsm.Record) bool) {
			for b.Loop() {
				yield(r)
			}
		})
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		data := writeSnapshot(b, func(yield func(fsm.Record) bool) {
			for range 10000 {
				yield(r)
			}
		})
		for i := 0; b.Loop(); i++ {
			if i%10000 == 0 {
				if _, err := readSnapshot(bytes.NewReader(data)); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
