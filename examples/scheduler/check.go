package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/coordcell/coord/fence"
)

// Window is a time of the jobs' clock, both ends included, in which a hand-over was going on.
type Window struct {
	Why      string
	From, To time.Time
}

// Report is what the database shows of a demonstration.
type Report struct {
	Runs      int
	Twice     []Run // a (job, minute) that was recorded before
	Missing   []Run // due, outside of every window, and not recorded
	Excused   []Run // the same inside of one
	Unordered []Run // accepted with a token below an earlier one of the job
	Refused   []Run // stale writes that the guard kept out
	Leaked    []Run // of these, such as are recorded all the same
}

// OK reports whether the database is as it must be. At least one stale write must have been tried, or nothing is shown.
func (r Report) OK() bool {
	return len(r.Twice)+len(r.Missing)+len(r.Unordered)+len(r.Leaked) == 0 && len(r.Refused) > 0
}

// check reads the database. Every minute of (after, until] at which a job was due must have one run.
func check(ctx context.Context, l *Ledger, jobs []Job, after, until time.Time, windows []Window) (Report, error) {
	runs, err := l.Runs(ctx)
	if err != nil {
		return Report{}, err
	}
	refused, err := l.Refused(ctx)
	if err != nil {
		return Report{}, err
	}
	report := Report{Runs: len(runs), Refused: refused}

	type due struct {
		job    string
		minute time.Time
	}
	recorded := make(map[due]bool)
	accepted := make(map[Run]bool)
	highest := make(map[string]fence.Token)
	for _, run := range runs {
		at := due{run.Job, run.Minute}
		if recorded[at] {
			report.Twice = append(report.Twice, run)
		}
		if run.Token < highest[run.Job] {
			report.Unordered = append(report.Unordered, run)
		}
		recorded[at] = true
		accepted[run] = true
		highest[run.Job] = max(highest[run.Job], run.Token)
	}
	for _, run := range refused {
		if accepted[run] {
			report.Leaked = append(report.Leaked, run)
		}
	}
	for _, job := range jobs {
		for _, minute := range job.Due(after, until) {
			switch {
			case recorded[due{job.Name, minute}]:
			case inWindow(windows, minute):
				report.Excused = append(report.Excused, Run{Job: job.Name, Minute: minute})
			default:
				report.Missing = append(report.Missing, Run{Job: job.Name, Minute: minute})
			}
		}
	}
	return report, nil
}

func inWindow(windows []Window, minute time.Time) bool {
	for _, w := range windows {
		if !minute.Before(w.From) && !minute.After(w.To) {
			return true
		}
	}
	return false
}

func (r Report) print(w io.Writer) {
	fmt.Fprintf(w, "  %4d runs recorded\n", r.Runs)
	line := func(runs []Run, what string, ok bool) {
		verdict := "ok"
		if !ok {
			verdict = "WRONG"
		}
		fmt.Fprintf(w, "  %4d %-58s %s\n", len(runs), what, verdict)
		for _, run := range runs {
			if !ok {
				fmt.Fprintf(w, "         %s of %s by %q with token %d\n", run.Job, hhmm(run.Minute), run.Runner, run.Token)
			}
		}
	}
	line(r.Twice, "(job, minute) recorded twice", len(r.Twice) == 0)
	line(r.Missing, "minutes missing outside the hand-over windows", len(r.Missing) == 0)
	line(r.Excused, "minutes missing inside of them", true)
	line(r.Unordered, "writes accepted with a lower token after a higher", len(r.Unordered) == 0)
	line(r.Refused, "stale writes refused (at least 1 must be)", len(r.Refused) > 0)
	line(r.Leaked, "refused writes in the database all the same", len(r.Leaked) == 0)
}
