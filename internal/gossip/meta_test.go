package gossip

import (
	"bytes"
	"strings"
	"testing"
)

func TestMetaOfAnyLegalSizeFits(t *testing.T) {
	m := Meta{
		Cell: strings.Repeat("c", 1000), CellID: strings.Repeat("i", MaxIDLen), Name: strings.Repeat("n", MaxNameLen),
		Addr: strings.Repeat("a", MaxAddrLen), Expect: maxExpect, HasState: true,
	}
	b, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, hash, err := decodeMeta(b)
	if err != nil || hash != cellHash(m.Cell) {
		t.Fatal(err, hash)
	}
	got.Cell = m.Cell
	if got != m {
		t.Errorf("got %+v", got)
	}
}

func TestMetaOfALaterVersion(t *testing.T) {
	b, err := Meta{Addr: "h:1"}.encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := decodeMeta(append(b, 1, 2, 3)); err != nil {
		t.Error("appended fields:", err)
	}
	b[0]++
	if _, _, err := decodeMeta(b); err == nil {
		t.Error("a newer version is accepted")
	}
}

func FuzzDecodeMeta(f *testing.F) {
	b, _ := Meta{Cell: "c", CellID: "x", Name: "n", Addr: "h:1", Expect: 3, HasState: true}.encode()
	f.Add(b)
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, _, err := decodeMeta(b)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		if len(again) <= len(b) && again[0] == b[0] && !bytes.Equal(again[metaFixedBytes:], b[metaFixedBytes:len(again)]) {
			t.Skip("another spelling of the same numbers")
		}
	})
}
