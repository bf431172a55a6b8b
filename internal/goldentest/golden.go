// Package goldentest keeps bytes of every released version of an encoding, so that tests can show that today's code
// still reads them, and still writes the same.
package goldentest

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Item is something encoded, under a name without spaces.
type Item struct {
	Name  string
	Bytes []byte
}

// Flag defines the flag -rewrite of a test program. Call it once, for a variable of the tests.
func Flag() *bool {
	return flag.Bool("rewrite", false, "write golden files that are missing; one that exists is never changed")
}

// Check compares items with testdata/file, which holds them as lines of "name hex", and fails the test for each that is
// encoded otherwise or has no line. It returns the bytes in the file by name, for the test to decode. With rewrite a
// file that is missing is written first; a line is added by hand, and none is ever changed.
func Check(t *testing.T, file string, rewrite bool, items []Item) map[string][]byte {
	t.Helper()
	path := filepath.Join("testdata", file)
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) && rewrite {
		text, err = write(path, items)
	}
	if err != nil {
		t.Fatal(err)
	}
	kept := parse(t, file, string(text))
	for _, item := range items {
		switch b, ok := kept[item.Name]; {
		case !ok:
			t.Errorf("%s: no line for %s: add %x", file, item.Name, item.Bytes)
		case !bytes.Equal(b, item.Bytes):
			t.Errorf("%s: %s is encoded as\n%x, was\n%x", file, item.Name, item.Bytes, b)
		}
	}
	if len(kept) > len(items) {
		t.Errorf("%s: %d lines for %d items: what was released is decoded for ever", file, len(kept), len(items))
	}
	return kept
}

func write(path string, items []Item) ([]byte, error) {
	var text bytes.Buffer
	for _, item := range items {
		fmt.Fprintf(&text, "%s %x\n", item.Name, item.Bytes)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	return text.Bytes(), os.WriteFile(path, text.Bytes(), 0o666)
}

func parse(t *testing.T, file, text string) map[string][]byte {
	t.Helper()
	kept := make(map[string][]byte)
	for line := range strings.Lines(text) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatalf("%s: %s: %v", file, name, err)
		}
		kept[name] = b
	}
	return kept
}
