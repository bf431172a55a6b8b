package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseSample(t *testing.T) {
	f, err := os.Open("testdata/jobs.crontab")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	jobs, err := parseJobs(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 12 {
		t.Fatalf("%d jobs, want 12", len(jobs))
	}
	if j := jobs[2]; j.Name != "reindex-search" || j.Command != "/opt/shop/bin/reindex-search --incremental" {
		t.Errorf("third job: %+v", j)
	}
}

func TestDue(t *testing.T) {
	at := func(hhmm string) time.Time {
		m, err := time.Parse(minuteFormat, "2025-03-03 "+hhmm) // a Monday
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for line, want := range map[string]string{
		"*/20 * * * * x":     "09:00 09:20 09:40",
		"5-7 9 * * 1-5 x":    "09:05 09:06 09:07",
		"5-7 9 * * SAT x":    "",
		"1-59/20 9 * * * x":  "09:01 09:21 09:41",
		"@hourly x":          "09:00",
		"30,31 9 3 3 * x -v": "09:30 09:31",
	} {
		jobs, err := parseJobs(strings.NewReader(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var got []string
		for _, m := range jobs[0].Due(at("08:59"), at("09:59")) {
			got = append(got, hhmm(m))
		}
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: due at %v, want %s", line, got, want)
		}
	}
}

func TestParseBadLines(t *testing.T) {
	_, err := parseJobs(strings.NewReader(`
A=1
B = two words
# comment
* * * * *          /bin/good
* * * *            /bin/four-fields
61 * * * *         /bin/minute
* * * * *
@sometimes         /bin/when
@every 90s         /bin/drifts
0 0 30 2 *         /bin/never
*/5 * * * *        /other/good
`))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"line 6:", "line 7:", "line 8:", "line 9:", "line 10:", "line 11:", "line 12:", `"good" is on line 5`, "never comes", "@every"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "line 2:") || strings.Contains(err.Error(), "line 5:") {
		t.Errorf("good lines are named:\n%v", err)
	}
	if _, err := parseJobs(strings.NewReader("# nothing\n")); err == nil {
		t.Error("a crontab without a job is accepted")
	}
}

func FuzzParseJobs(f *testing.F) {
	f.Add(string(sampleJobs))
	f.Add("@every 1s x\n* * * * * \x00")
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := parseJobs(strings.NewReader(text))
		if err != nil {
			return
		}
		from := time.Date(2025, time.March, 3, 0, 0, 0, 0, time.UTC)
		for _, j := range jobs {
			for _, m := range j.Due(from, from.Add(time.Hour)) {
				if !m.Equal(m.Truncate(time.Minute)) || !m.After(from) {
					t.Fatalf("%q is due at %v", j.Name, m)
				}
			}
		}
	})
}
