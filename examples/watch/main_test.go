package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/coordcell/coord"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	cfg := coord.Config{InMemory: true, Listen: "127.0.0.1:0", Expect: 1}
	if err := run(t.Context(), &out, cfg, comeAndGo); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasSuffix(last, ": mail=10.0.0.3:25 web=10.0.0.1:80,10.0.0.4:80") {
		t.Errorf("the last table is not the present one:\n%s", out.String())
	}
}

func TestTable(t *testing.T) {
	put := func(name, addr string) coord.Event {
		return coord.Event{Type: coord.EventPut, Key: routes + name, Value: []byte(addr)}
	}
	var table Table
	for i, step := range []struct {
		batch coord.Batch
		want  string // "": not whole yet
	}{
		{coord.Batch{Snapshot: true, More: true, Events: []coord.Event{put("web/a", "1")}}, ""},
		{coord.Batch{Snapshot: true, Events: []coord.Event{put("web/b", "2")}}, "web=1,2"},
		{coord.Batch{Events: []coord.Event{put("web/a", "3"), put("mail/c", "4")}}, "mail=4 web=3,2"},
		{coord.Batch{Events: []coord.Event{{Type: coord.EventExpire, Key: routes + "web/b"}}}, "mail=4 web=3"},
		{coord.Batch{Snapshot: true, Events: []coord.Event{put("web/d", "5")}}, "web=5"}, // fell behind
	} {
		whole := table.Apply(step.batch)
		if whole != (step.want != "") || whole && table.String() != step.want {
			t.Fatalf("step %d: whole %v, table %q, want %q", i, whole, table.String(), step.want)
		}
	}
}
