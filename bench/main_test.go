package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/report"
	"github.com/coordcell/coord/bench/internal/work"
)

func TestParse(t *testing.T) {
	o, err := parse(strings.Fields("-backends coord,redlock -workloads held,locks -callers 1,7 -runs 5 -time 3m"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range o.workloads {
		names = append(names, w.Name)
	}
	if got := strings.Join(names, " "); got != "start locks held" {
		t.Errorf("workloads %s", got)
	}
	if len(o.backends) != 2 || o.runs != 5 || o.time != 3*time.Minute || len(o.sizes.Callers) != 2 || o.sizes.Callers[1] != 7 {
		t.Errorf("got %+v", o)
	}
	if o, err = parse([]string{"-short"}); err != nil || o.runs != 1 || o.time > 5*time.Minute || o.sizes.Kills != 1 {
		t.Errorf("-short: %d runs, %v, %v", o.runs, o.time, err)
	}
	for args, want := range map[string]string{
		"-backends paxos":  `no backend "paxos"`,
		"-workloads dance": `no workload "dance"`,
		"-runs 0":          "must be 1 to 100",
		"run":              `what is "run"?`,
	} {
		if _, err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", args, err)
		}
	}
}

// fake is a service that does nothing, and lacks what it is told to.
type fake struct {
	peer.Backend
	missing string
	started *int
}

func (f fake) Missing() string { return f.missing }

func (f fake) Start(context.Context, string) (peer.Cell, error) {
	*f.started++
	return fakeCell{}, nil
}

type fakeCell struct{ peer.Cell }

func (fakeCell) Stop()                      {}
func (fakeCell) Lacks(workload string) bool { return workload == "third" }

// A service that is not installed is left out, and one sentence says what to do.
func TestMissing(t *testing.T) {
	var out strings.Builder
	two := []backend{{name: "here", Backend: fake{}}, {name: "away", Backend: fake{missing: "there is no away: install Debian's package away"}}}
	can := available(t.Context(), two, false, &out)
	if len(can) != 1 || can[0].name != "here" {
		t.Errorf("can run %s", names(can))
	}
	if want := "away is left out: there is no away: install Debian's package away, or let -install do so.\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// The services take turns, a workload that wants a fresh cell gets one, and what fails ends nothing else.
func TestRounds(t *testing.T) {
	var did []string
	step := func(name string, fresh bool, err error) work.Workload {
		return work.Workload{Name: name, Fresh: fresh, Limit: time.Minute, Run: func(_ context.Context, e *work.Env) error {
			did = append(did, e.Backend+" "+name)
			e.Record("metric", 1)
			e.Usage(work.Usage{Took: time.Second, Others: time.Second})
			return err
		}}
	}
	started := 0
	c := &comparison{
		options: options{
			backends: []backend{{name: "a", Backend: fake{started: &started}}, {name: "b", Backend: fake{started: &started}}},
			workloads: []work.Workload{
				step("start", false, nil), step("first", false, errors.New("it failed")), step("second", false, peer.ErrUnsupported),
				step("third", false, nil), step("fourth", true, nil),
			},
			runs: 2, time: time.Hour, dir: t.TempDir(),
		},
		progress: os.Stderr, longest: make(map[string]time.Duration), began: time.Now(),
	}
	if left := c.rounds(t.Context()); left != "" {
		t.Errorf("left out: %s", left)
	}
	turn := func(b string) string { return b + " start," + b + " first," + b + " second," + b + " fourth," }
	if got, want := strings.Join(did, ",")+",", turn("a")+turn("b")+turn("a")+turn("b"); got != want {
		t.Errorf("did %s\nwant %s", got, want)
	}
	if started != 8 {
		t.Errorf("%d cells were started, want two a turn", started)
	}
	count := make(map[string]int)
	for _, r := range c.records {
		switch {
		case r.Error != "":
			count["error "+r.Error]++
		case r.Never:
			count["never "+r.Workload]++
		}
	}
	if count["error it failed"] != 4 || count["never second"] != 4 || count["never third"] != 4 || len(count) != 3 {
		t.Errorf("got %v", count)
	}
	c.time = 0
	if left := c.rounds(t.Context()); !strings.Contains(left, "round 2 ended before a,b") {
		t.Errorf("without time: %q", left)
	}
}

func TestFromFile(t *testing.T) {
	name := t.TempDir() + "/records"
	if err := os.WriteFile(name, []byte(`{"backend":"etcd","workload":"keys","metric":"Get, one caller, p50","value":0.5}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-from", name, "-workloads", "keys"}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "| Get, one caller, p50 | ms | 0.50 |") {
		t.Errorf("got\n%s", out.String())
	}
}

// Each row of the table has a name of its own.
func TestLayout(t *testing.T) {
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, row := range o.layout([]report.Record{}).Rows {
		if seen[row.Metric] || row.Unit == "" {
			t.Errorf("row %q of %s", row.Metric, row.Workload)
		}
		seen[row.Metric] = true
	}
}
