package gossip

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coordcell/coord/internal/goldentest"
)

var rewrite = goldentest.Flag()

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
	if _, _, err := decodeMeta(b); err == nil || !strings.Contains(err.Error(), "version 2, this program reads up to 1") {
		t.Error("a newer version:", err)
	}
}

func TestGoldenMeta(t *testing.T) {
	want := map[string]Meta{
		"forming":  {Cell: "zürich", Name: "host-1", Addr: "10.0.0.1:7420", Expect: 300},
		"member":   {Cell: "zürich", CellID: "101112131415161718191a1b1c1d1e1f", Name: "host-1", Addr: "[::1]:7420", HasState: true},
		"nameless": {Addr: "h:1"},
	}
	var items []goldentest.Item
	for _, name := range slices.Sorted(maps.Keys(want)) {
		b, err := want[name].encode()
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, goldentest.Item{Name: name, Bytes: b})
	}
	for name, b := range goldentest.Check(t, "meta.v1.txt", *rewrite, items) {
		got, hash, err := decodeMeta(b)
		if err != nil || hash != cellHash(want[name].Cell) {
			t.Errorf("%s: cell %x, %v", name, hash, err)
		}
		if got.Cell = want[name].Cell; got != want[name] {
			t.Errorf("%s decodes as %+v", name, got)
		}
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
