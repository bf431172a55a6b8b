package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coordcell/coord/fence"
)

func TestStrips(t *testing.T) {
	jobs, err := parseJobs(strings.NewReader("*/5 * * * * /bin/five\n* * * * * /bin/each\n"))
	if err != nil {
		t.Fatal(err)
	}
	runs := []Run{{"five", at(t, "10:00"), "alpha", 1}, {"each", at(t, "10:00"), "beta", 1}, {"each", at(t, "10:01"), "beta", 1},
		{"each", at(t, "10:03"), "gamma", 2}, {"each", at(t, "10:03"), "beta", 1}, {"five", at(t, "10:04"), "beta", 1}}
	var out bytes.Buffer
	printStrips(&out, jobs, runs, []Window{{From: at(t, "10:02"), To: at(t, "10:03")}}, at(t, "09:59"), at(t, "10:06"))
	want := `
                  |10:00
  hand-over         ==
  five            a...?!.
  each            bb!?!!!
`
	if "\n"+out.String() != want {
		t.Errorf("got\n%s\nwant%s", out.String(), want)
	}
}

func TestTimelineOrdersByToken(t *testing.T) {
	clock := Clock{Start: time.Now(), First: at(t, "08:00")}
	line := newTimeline(io.Discard, clock)
	held := map[string]bool{}
	for _, e := range []Event{
		{Who: "alpha", What: "running", Job: "j", Token: 3},
		{Who: "beta", What: "running", Job: "j", Token: 7, Minute: at(t, "08:02")},
		{Who: "alpha", What: "running", Job: "j", Token: 3}, // came late through its pipe
		{Who: "beta", What: "ran", Job: "j", Token: 7, Minute: at(t, "08:03")},
		{Who: "alpha", What: "ran", Job: "j", Token: 3, Minute: at(t, "08:01")},
	} {
		line.Apply(e)
		for job := range line.Held("alpha") {
			held[job] = true
		}
	}
	if !held["j"] || len(line.Held("alpha")) != 0 || line.Held("beta")["j"] != 7 {
		t.Errorf("alpha holds %v, beta %v", line.Held("alpha"), line.Held("beta"))
	}
	if line.HandedOver("beta", line.Held("beta")) {
		t.Error("handed over from beta, which runs it")
	}
	if !line.HandedOver("alpha", map[string]fence.Token{"j": 3}) {
		t.Error("not handed over from alpha")
	}
	if line.ran["j"].Token != 7 || !line.last["j"].Equal(at(t, "08:03")) {
		t.Errorf("ran %+v, last %v", line.ran["j"], line.last["j"])
	}
}
