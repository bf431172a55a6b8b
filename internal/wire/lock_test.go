package wire

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/goldentest"
)

var grantIDs = []fsm.GrantID{{Name: "jobs/7", Token: 4711}, {Name: "", Token: 0}}

// newerCommands has one of every type of format 2, each field with a value of its own.
func newerCommands() []fsm.Command {
	return []fsm.Command{
		fsm.Lock{Change: change, Name: "jobs/7", Data: []byte("data"), Try: true, Terms: &fsm.Terms{
			More: []string{"jobs/8", "jobs/9"}, Shared: true, Slots: -300, TTL: 5e9, Delay: -1, Holding: grantIDs,
		}},
		fsm.HandOver{Change: change, Name: "jobs/7", Token: 4711, To: 1 << 34},
		fsm.Revoke{Change: change, Name: "jobs/7", Token: 4711, Force: true},
		fsm.RevokeSession{Change: change, Target: 1 << 34, Force: true},
		fsm.ExpireGrants{Term: 7, Grants: grantIDs},
		fsm.EndDelay{Term: 8, Losses: grantIDs},
		fsm.FinishRevoke{Term: 9, Grants: grantIDs, Sessions: []fsm.SessionID{1, 1 << 40}},
		fsm.SetFormat{Format: 258},
	}
}

// newerRecords has one of every type of format 2, and those whose second version belongs to it.
func newerRecords() []fsm.Record {
	names := []string{"jobs/7", "jobs/8"}
	return []fsm.Record{
		fsm.Header{Index: 1000, Revision: 70000, Params: params, Format: 2},
		fsm.ResultRecord{Session: 1 << 33, Seq: 17, Name: "jobs/7", Result: newerResults()[0]},
		fsm.GrantRecord{
			Names: names, Token: 4711, Session: 1 << 33, Data: []byte("data"), Shared: true, Slots: 300, Slot: []uint32{1, 200},
			TTL: 5e9, Delay: 1e9,
		},
		fsm.LossRecord{Name: "jobs/7", Token: 4711, Delay: 1e9, Shared: true, Slots: 300, Slot: 200},
		fsm.MarkRecord{Mark: fsm.Mark{Session: 1 << 33, Token: 4711, Name: "jobs/7"}},
		fsm.RequestRecord{
			Names: names, Position: 4712, Session: 5, Seq: 6, Data: []byte("more"), Shared: true, Slots: 300, TTL: 5e9,
			Delay: 1e9, Holding: grantIDs,
		},
		fsm.Trailer{
			Members: 1, Sessions: 2, Results: 3, Locks: 4, Waiters: 5, Keys: 6, Events: 7, Grants: 8, Losses: 9, Marks: 10, Requests: 11,
		},
	}
}

func newerResults() []fsm.Result {
	return []fsm.Result{
		{Code: fsm.Deadlock, Cycle: &fsm.Cycle{Waits: []fsm.Wait{
			{Session: 1 << 33, Label: "worker 7", Holds: "jobs/7", Token: 4711, WaitsFor: "jobs/8"},
			{Session: 5, Holds: "jobs/8", WaitsFor: "jobs/7"},
		}}},
		{Code: fsm.SlotsMismatch, Slots: 300},
		{Code: fsm.OK, Revision: 4711, Slot: 200},
	}
}

// TestGoldenNewer keeps bytes of what came with format 2.
func TestGoldenNewer(t *testing.T) {
	var items []goldentest.Item
	check := make(map[string]func([]byte) error)
	add := func(name string, b []byte, read func([]byte) (any, error), want any) {
		items = append(items, goldentest.Item{Name: name, Bytes: b})
		check[name] = func(b []byte) error {
			if got, err := read(b); err != nil || !reflect.DeepEqual(got, want) {
				return fmt.Errorf("%s reads as %+v, %v", name, got, err)
			}
			return nil
		}
	}
	for _, c := range newerCommands() {
		name := strings.TrimPrefix(fmt.Sprintf("%T", c), "fsm.")
		add(name, encode(t, c), decoder(DecodeEntry), []fsm.Command{c})
	}
	for i, r := range newerResults() {
		add(fmt.Sprintf("Result%d", i), AppendResult(nil, r), decoder(DecodeResult), r)
	}
	read := func(b []byte) (any, error) { return readSnapshot(bytes.NewReader(b)) }
	add("snapshot", writeSnapshot(t, slices.Values(newerRecords())), read, newerRecords())
	for name, b := range goldentest.Check(t, "format2.txt", *rewrite, items) {
		if err := check[name](b); err != nil {
			t.Error(err)
		}
	}
}

// TestFormatOf: what says that it is of format 1 is written as it always was, and all else says so.
func TestFormatOf(t *testing.T) {
	for _, c := range commands() {
		if f := FormatOf(c); f != 1 {
			t.Errorf("%T is of format %d", c, f)
		}
	}
	for _, c := range newerCommands() {
		if f := FormatOf(c); f != 2 || f > Format {
			t.Errorf("%T is of format %d", c, f)
		}
	}
	plain := fsm.Lock{Change: change, Name: "jobs/7"}
	zero := plain
	zero.Terms = &fsm.Terms{}
	if FormatOf(zero) != 1 || !bytes.Equal(encode(t, zero), encode(t, plain)) {
		t.Error("terms that ask for nothing are not written as none")
	}
}

// TestNothingNew: of what has two versions there is one encoding.
func TestNothingNew(t *testing.T) {
	for name, build := range map[string]func(e *Encoder){
		"header": func(e *Encoder) {
			encodeHeader(e, fsm.Header{Format: 1})
			e.out.b[len(e.out.b)-1] = 0
		},
		"trailer": func(e *Encoder) {
			encodeTrailer(e, fsm.Trailer{Requests: 1})
			e.out.b[len(e.out.b)-1] = 0
		},
		"result": func(e *Encoder) {
			openCommand(e, recResult, 4)
			e.Uint(1)
			e.Uint(1)
			e.String("")
			encodeResult(e, fsm.Result{Slot: 1})
			e.out.b[len(e.out.b)-2] = 0
		},
	} {
		e := NewEncoder(nil)
		build(e)
		d := NewDecoder(e.Finish())
		decodeRecord(d)
		if err := d.Finish(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
