package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordcell/coord/fence"
	"github.com/coordcell/coord/fence/fencetest"
)

// The guards' suite on a real database, each guard with a connection of its own as if in another process.
func TestSQLFenceOnSQLite(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) (fence.Guard, func() fence.Guard) {
		path := filepath.Join(t.TempDir(), "ledger.sqlite")
		open := func() fence.Guard { return ledgerAt(t, path).guard }
		return open(), open
	})
}

func TestG4_FormerRunnerIsShutOutBeforeItsLastRunIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.sqlite")
	former, next := ledgerAt(t, path), ledgerAt(t, path)
	run := func(minute string, token fence.Token) Run {
		return Run{Job: "j", Minute: at(t, minute), Runner: "r", Token: token}
	}
	if last, err := former.TakeOver(t.Context(), "j", 5); err != nil || !last.IsZero() {
		t.Fatalf("first TakeOver: %v, %v", last, err)
	}
	for _, m := range []string{"09:59", "10:00"} {
		if err := former.Record(t.Context(), run(m, 5)); err != nil {
			t.Fatal(err)
		}
	}
	if last, err := next.TakeOver(t.Context(), "j", 8); err != nil || !last.Equal(at(t, "10:00")) {
		t.Fatalf("second TakeOver: %v, %v", last, err)
	}
	var stale *fence.StaleError
	if err := former.Record(t.Context(), run("10:01", 5)); !errors.As(err, &stale) || stale.Highest != 8 {
		t.Fatalf("the former runner's late record: %v", err)
	}
	if _, err := former.TakeOver(t.Context(), "j", 5); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("the former runner takes over again: %v", err)
	}
	if err := next.Record(t.Context(), run("10:01", 8)); err != nil {
		t.Fatal(err)
	}
	if runs, err := next.Runs(t.Context()); err != nil || len(runs) != 3 || runs[2] != run("10:01", 8) {
		t.Fatalf("runs: %+v, %v", runs, err)
	}
}

func TestIdle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.sqlite")
	l := ledgerAt(t, path)
	r := Run{Job: "j", Minute: at(t, "10:00"), Runner: "r", Token: 1}
	if idle, err := l.Idle(t.Context(), r); err != nil || !idle {
		t.Fatalf("nothing recorded: %v, %v", idle, err)
	}
	if err := l.Record(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if idle, err := l.Idle(t.Context(), r); err != nil || idle {
		t.Fatalf("recorded: %v, %v", idle, err)
	}
	r.Minute = r.Minute.Add(time.Minute)
	tx, err := ledgerAt(t, path).db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if idle, err := l.Idle(t.Context(), r); err == nil || idle {
		t.Fatalf("in another's transaction: %v, %v", idle, err)
	}
}

// The check must see what it is for. The records are written past the guard, which would not let them in.
func TestCheckFindsEachFault(t *testing.T) {
	jobs, err := parseJobs(strings.NewReader("*/2 * * * * /bin/even\n* * * * * /bin/each\n"))
	if err != nil {
		t.Fatal(err)
	}
	sound := []Run{
		{"each", at(t, "10:01"), "a", 3}, {"each", at(t, "10:02"), "a", 3}, {"even", at(t, "10:02"), "b", 9},
		{"each", at(t, "10:03"), "b", 7}, {"each", at(t, "10:04"), "b", 7}, {"even", at(t, "10:04"), "b", 9},
	}
	late := Run{"each", at(t, "10:03"), "a", 3}
	windows := []Window{{Why: "kill", From: at(t, "10:03"), To: at(t, "10:04")}}
	for name, c := range map[string]struct {
		runs, refused []Run
		windows       []Window
		want          string // the line that is WRONG; "" for none
	}{
		"sound":                    {runs: sound, refused: []Run{late}},
		"twice":                    {runs: append(sound[:6:6], Run{"even", at(t, "10:04"), "a", 10}), refused: []Run{late}, want: "recorded twice"},
		"missing":                  {runs: sound[:5], refused: []Run{late}, want: "outside"},
		"missing in a window":      {runs: sound[:5], refused: []Run{late}, windows: windows},
		"missing before a window":  {runs: sound[1:], refused: []Run{late}, windows: windows, want: "outside"},
		"lower after higher":       {runs: append(sound[:4:4], Run{"each", at(t, "10:04"), "a", 3}, sound[5]), refused: []Run{late}, want: "lower token"},
		"no stale write was tried": {runs: sound, want: "stale writes refused"},
		"refused, yet recorded":    {runs: sound, refused: []Run{sound[1]}, want: "all the same"},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledgerAt(t, filepath.Join(t.TempDir(), "ledger.sqlite"))
			for _, r := range c.runs {
				if _, err := l.db.Exec("INSERT INTO runs (job, minute, runner, token) VALUES (?, ?, ?, ?)", r.Job, r.Minute.Format(minuteFormat), r.Runner, int64(r.Token)); err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range c.refused {
				if err := l.NoteRefused(t.Context(), r, 100); err != nil {
					t.Fatal(err)
				}
			}
			report, err := check(t.Context(), l, jobs, at(t, "10:00"), at(t, "10:04"), c.windows)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			report.print(&out)
			var wrong []string
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, "WRONG") {
					wrong = append(wrong, line)
				}
			}
			if report.OK() != (c.want == "") || len(wrong) > 1 || !strings.Contains(strings.Join(wrong, ""), c.want) {
				t.Errorf("OK %v, want %q to be wrong:\n%s", report.OK(), c.want, out.String())
			}
		})
	}
}

func ledgerAt(t *testing.T, path string) *Ledger {
	t.Helper()
	l, err := openLedger(path, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func at(t *testing.T, hhmm string) time.Time {
	t.Helper()
	m, err := time.Parse(minuteFormat, "2025-03-03 "+hhmm)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
