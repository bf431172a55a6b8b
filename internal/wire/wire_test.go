package wire

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/coordcell/coord/fsm"
)

func encode(t testing.TB, cmds ...fsm.Command) []byte {
	t.Helper()
	b, err := AppendEntry(nil, cmds)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAppendEntryKeepsWhatIsThere(t *testing.T) {
	b, err := AppendEntry([]byte("head"), []fsm.Command{fsm.Reap{}})
	if err != nil || !bytes.Equal(b, append([]byte("head"), encode(t, fsm.Reap{})...)) {
		t.Fatalf("%q, %v", b, err)
	}
}

func TestEncodesNoStranger(t *testing.T) {
	for _, c := range []fsm.Command{nil, &fsm.Reap{}} {
		b, err := AppendEntry([]byte("head"), []fsm.Command{fsm.Reap{}, c})
		if err == nil || string(b) != "head" {
			t.Errorf("%T: %q, %v", c, b, err)
		}
	}
}

// A node that met what a newer one wrote must be able to tell it from damage.
func TestNewerIsUnknown(t *testing.T) {
	newer := map[string]func(e *Encoder){
		"envelope": func(e *Encoder) { e.Open(2, 3); e.Bool(true); e.Array(0); e.Array(0) },
		"op": func(e *Encoder) {
			e.Open(1, 1)
			e.Array(1)
			e.Array(3)
			e.Uint(90)
			e.Uint(1)
			e.Bool(true)
		},
		"command": func(e *Encoder) {
			e.Open(1, 1)
			e.Array(1)
			e.Array(3)
			e.Uint(opReap)
			e.Uint(2)
			e.Uint(7)
		},
		"second command": func(e *Encoder) { e.Open(1, 1); e.Array(2); openCommand(e, opReap, 0); openCommand(e, 99, 0) },
	}
	for name, build := range newer {
		e := NewEncoder(nil)
		build(e)
		if cmds, err := DecodeEntry(e.Finish()); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrMalformed) || cmds != nil {
			t.Errorf("%s: %v, %v", name, cmds, err)
		}
	}
}

func TestDamageIsMalformed(t *testing.T) {
	whole := encode(t, append(commands(), newerCommands()...)...)
	for n := range whole {
		if cmds, err := DecodeEntry(whole[:n]); !errors.Is(err, ErrMalformed) || cmds != nil {
			t.Fatalf("first %d bytes: %v", n, err)
		}
	}
	if _, err := DecodeEntry(append(bytes.Clone(whole), 0)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a byte too many: %v", err)
	}
	for name, b := range map[string]string{
		"nil":                 "\xc0",
		"no version":          "\x90",
		"version 0":           "\x92\x00\x90",
		"fields missing":      "\x91\x01",
		"nil commands":        "\x92\x01\xc0",
		"empty command":       "\x92\x01\x91\x90\x00\x00",
		"command without op":  "\x92\x01\x91\x91\x0e\x00",
		"field too many":      "\x92\x01\x91\x93\x0e\x01\x01",
		"long version":        "\x92\xcc\x01\x90",
		"long array":          "\x92\x01\xdc\x00\x01\x92\x0e\x01",
		"negative version":    "\x92\xff\x90",
		"text for a number":   "\x92\x01\x91\x93\x0c\x01\xa0",
		"number for a string": "\x92\x01\x91\x93\x11\x01\x01",
		"bytes for a string":  "\x92\x01\x91\x93\x11\x01\xc4\x00",
		// Each of the next four would be something else if the count or length at its front were taken lightly.
		"command in a command": "\x92\x01\x92\x93\x0e\x01\x92\x0e\x01",
		"op with a field more": "\x92\x01\x91\x99\x09\x01\x01\x01\x90\x90\x91\x94\x01\xa0\xc4\x00\x90\xc2",
		"short nonce":          "\x92\x01\x91\x94\x0a\x01\xc4\x0f012345678901234\x00",
		"kind 257":             "\x92\x01\x91\x99\x09\x01\x01\x01\x90\x90\x91\x93\xcd\x01\x01\xa0\xc4\x00\x90\xc2",
		// A second version where the first would do.
		"terms of nothing": "\x92\x01\x91\x9e\x03\x02\x01\x01\x90\xa0\xc4\x00\xc2\x90\xc2\x00\x00\x00\x90",
		"float":            "\x92\x01\x91\x93\x0c\x01\xca\x00\x00\x00\x00",
	} {
		if cmds, err := DecodeEntry([]byte(b)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, cmds, err)
		}
	}
}

// Counts and lengths that the input cannot hold must not cost memory.
func TestHugeCountsTakeNoMemory(t *testing.T) {
	for name, b := range map[string]string{
		"commands": "\x92\x01\xdd\xff\xff\xff\xff",
		"sessions": "\x92\x01\x91\x94\x0d\x01\x01\xdd\xff\xff\xff\xff",
		"string":   "\x92\x01\x91\x93\x11\x01\xdb\xff\xff\xff\xff",
		"nonce":    "\x92\x01\x91\x94\x0a\x01\xc6\xff\xff\xff\xff",
	} {
		taken := allocated(func() {
			if _, err := DecodeEntry([]byte(b)); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: %v", name, err)
			}
		})
		if taken > 1<<20 {
			t.Errorf("%s: %d bytes taken", name, taken)
		}
	}
}

// allocated returns how many bytes fn allocates.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestDecodedSharesNoMemory(t *testing.T) {
	want := append(commands(), newerCommands()...)
	b := encode(t, want...)
	cmds, err := DecodeEntry(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = 0xff
	}
	if !reflect.DeepEqual(cmds, want) {
		t.Fatal("overwriting the input changed the commands")
	}
}

func TestEmptyBytesAreNil(t *testing.T) {
	cmds, err := DecodeEntry(encode(t, fsm.Put{Value: []byte{}, Change: fsm.Change{Acks: []uint64{}}}))
	if err != nil || !reflect.DeepEqual(cmds, []fsm.Command{fsm.Put{}}) {
		t.Fatalf("%+v, %v", cmds, err)
	}
}

func TestNumbers(t *testing.T) {
	signed := []int64{0, 1, -1, -32, -33, 127, 128, -128, -129, 255, 256, 1 << 15, -1 << 15, -1<<15 - 1, 1<<16 - 1, 1 << 16,
		-1 << 31, -1<<31 - 1, 1<<32 - 1, 1 << 32, math.MaxInt64, math.MinInt64}
	e := NewEncoder(nil)
	for _, v := range signed {
		e.Int(v)
		e.Uint(uint64(v))
	}
	d := NewDecoder(e.Finish())
	for _, v := range signed {
		if i, u := d.Int(), d.Uint(); i != v || u != uint64(v) {
			t.Errorf("%d: %d %d, %v", v, i, u, d.Err())
		}
	}
	if err := d.Finish(); err != nil {
		t.Error(err)
	}
	for _, b := range []string{"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "\xd0\x01", "\xd0\xff", "\xd1\xff\xff", "\xcd\x00\x01", "\xc0"} {
		d := NewDecoder([]byte(b))
		v := d.Int()
		if err := d.Finish(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %d, %v", b, v, err)
		}
	}
}

func TestFirstErrorSticks(t *testing.T) {
	d := NewDecoder([]byte("\xc0\x01\xa1a\x01"))
	d.Uint()
	first := d.Err()
	if d.Uint() != 0 || d.Int() != 0 || d.String() != "" || d.Bytes() != nil || d.Bool() || d.Array(1) != 0 || d.Open(0) != 0 {
		t.Error("a value after an error")
	}
	d.Fail("later")
	d.unknown("later")
	if err := d.Finish(); first == nil || err != first {
		t.Errorf("%v, then %v", first, err)
	}
}

func TestStringsOfAnyLength(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 255, 256, 65535, 65536, 70000} {
		e := NewEncoder(nil)
		e.String(strings.Repeat("s", n))
		e.Bytes(bytes.Repeat([]byte{1}, n))
		d := NewDecoder(e.Finish())
		s, b := d.String(), d.Bytes()
		if err := d.Finish(); err != nil || len(s) != n || len(b) != n {
			t.Errorf("%d: %d %d, %v", n, len(s), len(b), err)
		}
	}
}

func TestMessagesRefuse(t *testing.T) {
	for _, m := range messages() {
		for n := range m.bytes {
			if _, err := m.decode(m.bytes[:n]); !errors.Is(err, ErrMalformed) {
				t.Fatalf("%s: first %d bytes: %v", m.name, n, err)
			}
		}
		newer := bytes.Clone(m.bytes)
		newer[1] = 3 // the version comes right behind the head
		if _, err := m.decode(newer); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: version 3: %v", m.name, err)
		}
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(encode(f, commands()...))
	for _, c := range append(commands(), newerCommands()...) {
		f.Add(encode(f, c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		cmds, err := DecodeEntry(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
			return
		}
		if again := encode(t, cmds...); !bytes.Equal(again, b) {
			t.Fatalf("%x became %x", b, again)
		}
	})
}

func FuzzMessage(f *testing.F) {
	for i, m := range messages() {
		f.Add(uint8(i), m.bytes)
	}
	all := messages()
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		v, err := all[int(which)%len(all)].decode(b)
		if err != nil {
			return
		}
		var again []byte
		switch v := v.(type) {
		case Propose:
			again, err = v.Append(nil)
		case interface{ Append([]byte) []byte }:
			again = v.Append(nil)
		}
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x became %x, %v", b, again, err)
		}
	})
}

var lock = fsm.Lock{Change: fsm.Change{Session: 1234, Seq: 77, Acks: []uint64{76}}, Name: "jobs/nightly/7", Data: []byte("host-17")}

func BenchmarkEncodeLock(b *testing.B) {
	b.ReportAllocs()
	cmds := []fsm.Command{lock}
	var buf []byte
	for b.Loop() {
		buf, _ = AppendEntry(buf[:0], cmds)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkDecodeLock(b *testing.B) {
	b.ReportAllocs()
	data := encode(b, lock)
	for b.Loop() {
		if _, err := DecodeEntry(data); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(data)))
}

// BenchmarkEntryOf64 is a packed entry, the usual case under load; figures are a command's.
func BenchmarkEntryOf64(b *testing.B) {
	b.ReportAllocs()
	cmds := make([]fsm.Command, 64)
	for i := range cmds {
		cmds[i] = lock
	}
	var buf []byte
	for i := 0; b.Loop(); i++ {
		if i%64 == 0 {
			buf, _ = AppendEntry(buf[:0], cmds)
			if _, err := DecodeEntry(buf); err != nil {
				b.Fatal(err)
			}
		}
	}
}
