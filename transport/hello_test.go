package transport

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of the current version; never those of an older one")

// golden compares with a file, whose bytes every later version must read and answer.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not written as it used to be:\n got %x\nwant %x", name, got, want)
	}
}

func helloV1() Hello {
	return Hello{
		Version: 1, Cell: "zelle", CellID: [16]byte{0xca, 0xfe, 15: 0xff}, Group: 0x01020304, Node: "node-a",
		Boot: 0x1122334455667788, Expect: "node-b",
	}
}

func TestHelloVersion1IsReadForEver(t *testing.T) {
	golden(t, "hello-v1.bin", appendHello([]byte{byte(KindRaft)}, helloV1()))
	b, err := os.ReadFile("testdata/hello-v1.bin")
	if err != nil {
		t.Fatal(err)
	}
	kind, got, err := readIntroduction(bytes.NewReader(b))
	if kind != KindRaft || got != helloV1() || err != nil {
		t.Errorf("read %v, %+v, %v", kind, got, err)
	}
}

func TestRefusalVersion1IsReadForEver(t *testing.T) {
	golden(t, "refusal-v1.bin", appendRefusal(nil, ErrVersion))
	b, err := os.ReadFile("testdata/refusal-v1.bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readHello(bytes.NewReader(b)); !errors.Is(err, ErrVersion) {
		t.Errorf("read %v", err)
	}
}

func TestPacketMarkVersion1(t *testing.T) {
	mark := newPacketMark("zelle")
	golden(t, "packet-v1.bin", mark[:])
}

func TestHelloMayGrow(t *testing.T) {
	b := appendHello(nil, helloV1())
	later := appendMessage(nil, 1, codeHello, append(b[headerSize:], "a field of a later version"...))
	got, err := readHello(bytes.NewReader(later))
	if got != helloV1() || err != nil {
		t.Errorf("read %+v, %v", got, err)
	}
}

func TestHelloLimits(t *testing.T) {
	h := helloV1()
	h.Cell, h.Node, h.Expect = strings.Repeat("c", 255), strings.Repeat("n", 255), strings.Repeat("e", 255)
	b := appendHello(nil, h)
	if len(b) > maxMessage {
		t.Errorf("the longest hello has %d bytes, the limit is %d", len(b), maxMessage)
	}
	if got, err := readHello(bytes.NewReader(b)); got != h || err != nil {
		t.Errorf("read %+v, %v", got, err)
	}
	for name, spoil := range map[string]func(*Hello){
		"no cell":       func(h *Hello) { h.Cell = "" },
		"no node":       func(h *Hello) { h.Node = "" },
		"cell no UTF-8": func(h *Hello) { h.Cell = "\xff" },
		"node no UTF-8": func(h *Hello) { h.Node = "\xff" },
		"expect no UTF": func(h *Hello) { h.Expect = "\xff" },
		"version 0":     func(h *Hello) { h.Version = 0 },
	} {
		h := helloV1()
		spoil(&h)
		if _, err := readHello(bytes.NewReader(appendHello(nil, h))); !errors.Is(err, ErrHandshake) {
			t.Errorf("%s: %v, want %v", name, err, ErrHandshake)
		}
	}
	body := appendHello(nil, helloV1())[headerSize:]
	for n := range len(body) {
		if _, err := readHello(bytes.NewReader(appendMessage(nil, 1, codeHello, body[:n]))); !errors.Is(err, ErrHandshake) {
			t.Errorf("%d of %d bytes: %v, want %v", n, len(body), err, ErrHandshake)
		}
	}
	long := appendMessage(nil, 1, codeHello, append(body, make([]byte, maxMessage)...))
	if _, err := readHello(bytes.NewReader(long)); !errors.Is(err, ErrHandshake) {
		t.Errorf("a message of %d bytes: %v, want %v", len(long), err, ErrHandshake)
	}
}

func TestRefusalTextIsBoundedAndQuoted(t *testing.T) {
	b := appendMessage(nil, 1, codeCell, bytes.Repeat([]byte("\x1b[31m\n"), 150))
	_, err := readHello(bytes.NewReader(b))
	if !errors.Is(err, ErrCell) || strings.ContainsAny(err.Error(), "\x1b\n") || len(err.Error()) > 2000 {
		t.Errorf("read %v", err)
	}
	long := appendRefusal(nil, errors.Join(ErrGroup, errors.New(strings.Repeat("x", 5000))))
	if len(long) > maxMessage {
		t.Errorf("a refusal of %d bytes", len(long))
	}
}

func FuzzHello(f *testing.F) {
	f.Add(appendHello([]byte{byte(KindRaft)}, helloV1()))
	f.Add(appendRefusal([]byte{byte(KindCalls)}, ErrCell))
	f.Add(appendMessage([]byte{1}, 2, codeHello, nil))
	f.Add(appendMessage([]byte{1}, 1, 99, []byte("text")))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		kind, h, err := readIntroduction(r)
		if read := len(b) - r.Len(); read > 1+maxMessage {
			t.Fatalf("%d bytes were read, the most is %d", read, 1+maxMessage)
		}
		if err != nil {
			return
		}
		again, got, err := readIntroduction(bytes.NewReader(appendHello([]byte{byte(kind)}, h)))
		if again != kind || got != h || err != nil {
			t.Fatalf("%v %+v became %v %+v, %v", kind, h, again, got, err)
		}
		admit(kind, helloV1(), h)
	})
}
