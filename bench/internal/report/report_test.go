package report

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	layout := Layout{
		Rows:     []Row{{"locks", "Lock, p50", "ms", false}, {"locks", "pairs", "pairs/s", true}, {"watches", "events", "events/s", true}},
		Backends: []string{"ours", "theirs", "floor"},
	}
	records := []Record{
		{Backend: "ours", Workload: "locks", Metric: "Lock, p50", Value: .5},
		{Backend: "theirs", Workload: "locks", Metric: "Lock, p50", Value: 2},
		{Backend: "floor", Workload: "watches", Never: true},
		{Backend: "ours", Workload: "locks", Run: 1, Metric: "Lock, p50", Value: .7},
		{Backend: "ours", Workload: "locks", Run: 2, Metric: "Lock, p50", Value: .55},
		{Backend: "ours", Workload: "locks", Metric: "pairs", Value: 43_210},
		{Backend: "theirs", Workload: "watches", Error: "too many"},
		{Backend: "theirs", Workload: "watches", Run: 1, Error: "too many"},
		{Backend: "ours", Workload: "locks", Others: .1},
		{Backend: "ours", Workload: "locks", Others: .3},
	}
	want := `| | unit | ours | theirs | floor |
|---|---|---:|---:|---:|
| Lock, p50 | ms | 0.55 (0.50–0.70) | 2.00 |  |
| pairs | pairs/s ↑ | 43.2k |  |  |
| events | events/s ↑ |  | failed | – |

- failed 2×: theirs, watches: too many

CPU of this machine that went to others in the 2 timed parts: median 20 %, at most 30 % in nine of ten, 30 % in the worst.
`
	var got strings.Builder
	if err := Write(&got, layout, records); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", .123: "0.12", 9.99: "9.99", 9.996: "10.0", 12.34: "12.3", 99.94: "99.9", 99.96: "100", 1234: "1234",
		9999: "9999", 43_210: "43.2k", 640_103: "640k", -831: "-831",
	} {
		if got := number(v); got != want {
			t.Errorf("%v is printed as %s, want %s", v, got, want)
		}
	}
}

func TestReadFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "records")
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const two = `{"backend":"a","workload":"w","run":1,"metric":"m","value":1.5}
{"backend":"a","workload":"w","run":0,"never":true}
`
	want := []Record{{Backend: "a", Workload: "w", Run: 1, Metric: "m", Value: 1.5}, {Backend: "a", Workload: "w", Never: true}}
	for _, cut := range []string{"", `{"backend":"a","wor`} {
		write(two + cut)
		if got, err := ReadFile(name); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("with %q at the end: got %v, %v", cut, got, err)
		}
	}
	for _, bad := range []string{"", "no record\n" + two} {
		write(bad)
		if got, err := ReadFile(name); err == nil {
			t.Errorf("%q: got %v", bad, got)
		}
	}
}
