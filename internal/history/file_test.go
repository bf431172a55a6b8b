package history

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRead_SeveralRecorders(t *testing.T) {
	var now time.Duration
	clock := func() time.Duration { now++; return now }
	var files [2]bytes.Buffer
	a, b := NewRecorder(clock, &files[0], 0), NewRecorder(clock, &files[1], 1000)
	first := a.Begin(Op{Kind: Put, Name: "k", Value: "v"})
	second := b.Begin(Op{Kind: Get, Name: "k"})
	first.Outcome, first.Revision = OK, 7
	a.End(first)
	b.Batch(Batch{Watcher: b.Watcher(), Key: "k", Revision: 7})
	a.Batch(Batch{Watcher: a.Watcher(), Key: "k", Revision: 7})
	third := b.Begin(Op{Kind: Get, Name: "k"})
	_, _ = second, third                   // both hang
	files[1].Truncate(files[1].Len() - 10) // its process was killed as it wrote
	h, err := Read(&files[1], &files[0])
	if err != nil {
		t.Fatal(err)
	}
	want := &History{
		Ops: []Op{
			{ID: 0, Kind: Put, Name: "k", Value: "v", Revision: 7, Call: 1, Return: 3, Outcome: OK},
			{ID: 1000, Kind: Get, Name: "k", Call: 2, Return: Pending},
		},
		Batches: []Batch{{Watcher: 1000, Key: "k", Revision: 7, At: 4}, {Watcher: 0, Key: "k", Revision: 7, At: 5}},
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("read:\n%+v\nwant:\n%+v", h, want)
	}
	var saved bytes.Buffer
	if err := h.Save(&saved); err != nil {
		t.Fatal(err)
	}
	if again, err := Read(&saved); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("saved and read again: %v\n%+v", err, again)
	}
	if lost := Lost(h); len(lost) != 1 || lost[0].Guarantee != "G12" {
		t.Errorf("calls that have not returned: %v", lost)
	}
}

func TestRead_Damaged(t *testing.T) {
	if _, err := Read(strings.NewReader("{\"op\":{\"id\":1}}\nnonsense\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("damage is not told: %v", err)
	}
	if _, err := Read(io.MultiReader(strings.NewReader("{}"), failing{})); err == nil {
		t.Error("a failure to read is not told")
	}
	if err := (&History{Ops: make([]Op, 1)}).Save(failing{}); err == nil {
		t.Error("a failure to write is not told")
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, fmt.Errorf("broken") }
func (failing) Write([]byte) (int, error) { return 0, fmt.Errorf("broken") }

// Refusals are told apart by the texts of the public errors.
func TestTextsOfErrors(t *testing.T) {
	var source []byte
	for _, name := range []string{"../../errors.go", "../caller/errors.go", "../lease/lease.go"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, data...)
	}
	for _, text := range []string{textLocked, textNotHeld, textConflict, textNotFound, textExpired, textSession + " closed"} {
		if !bytes.Contains(source, []byte(`errors.New("`+text+`")`)) {
			t.Errorf("no error is %q any more", text)
		}
	}
}

func TestViolationsAreBounded(t *testing.T) {
	s := handover()
	for i := range 100 {
		s.do(41+i, 41+i, check(1, 5))
	}
	r := Verify(s.history(t))
	if n := len(r.Violations); n < mostEach || n > 3*mostEach+1 {
		t.Errorf("%d violations are told", n)
	}
	if last := r.Violations[len(r.Violations)-1]; !strings.Contains(last.Text, "more violations") {
		t.Errorf("that there are others is not told: %v", last)
	}
}
