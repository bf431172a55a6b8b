package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coordcell/coord/fence"
)

// Timeline follows the events of all servers, prints those that a reader wants to see, and knows what they add up to.
type Timeline struct {
	out   io.Writer
	clock Clock

	session map[string]bool      // servers with a session
	leader  string               // of the cell
	term    uint64               // that leader's
	runner  map[string]Event     // by job: the latest "running"
	ran     map[string]Event     // by job: the latest "ran"
	last    map[string]time.Time // by job: the latest minute that is known to be recorded
}

func newTimeline(out io.Writer, clock Clock) *Timeline {
	return &Timeline{
		out: out, clock: clock,
		session: make(map[string]bool), runner: make(map[string]Event), ran: make(map[string]Event),
		last: make(map[string]time.Time),
	}
}

// Say prints a line: who did what, at the jobs' present minute.
func (t *Timeline) Say(who, format string, args ...any) {
	fmt.Fprintf(t.out, "%s  %-7s %s\n", hhmm(t.clock.Now()), who, fmt.Sprintf(format, args...))
}

// Apply takes one event in. A token decides which of two events is the later: those of different servers arrive in any
// order.
func (t *Timeline) Apply(e Event) {
	switch e.What {
	case "session opened":
		t.session[e.Who] = true
		t.Say(e.Who, "has a session")
	case "session over":
		t.session[e.Who] = false
		t.Say(e.Who, "has lost its session: %s", e.Why)
	case "leads the cell":
		if e.Term > t.term {
			t.leader, t.term = e.Who, e.Term
			t.Say(e.Who, "leads the cell, term %d", e.Term)
		}
	case "running":
		t.running(e)
	case "ran":
		if last := t.ran[e.Job]; e.Token > last.Token || e.Token == last.Token && e.Minute.After(last.Minute) {
			t.ran[e.Job] = e
		}
		t.recorded(e)
	case "refused":
		t.Say(e.Who, "REFUSED %s of %s with token %s: %s was accepted before", e.Job, hhmm(e.Minute), short(e.Token), short(e.Highest))
	case "exited":
		t.session[e.Who] = false
	case "competes again":
		t.Say(e.Who, "competes again for %s: %s", e.Job, e.Why)
	case "unreadable":
		t.Say(e.Who, "says %q", e.Why)
	}
}

func (t *Timeline) running(e Event) {
	t.recorded(e) // a predecessor may have been killed before it could say so
	before, known := t.runner[e.Job]
	if known && before.Token > e.Token {
		return
	}
	t.runner[e.Job] = e
	lastRun := "no run yet"
	if !e.Minute.IsZero() {
		lastRun = "last run " + hhmm(e.Minute)
	}
	if known {
		lastRun = fmt.Sprintf("after %s with %s, %s", before.Who, short(before.Token), lastRun)
	}
	t.Say(e.Who, "runs %-15s token %s; %s", e.Job, short(e.Token), lastRun)
}

// short shows the end of a token. A cell begins with a great number; what differs from one grant to the next is its end.
func short(t fence.Token) string { return fmt.Sprintf("…%06d", t%1_000_000) }

func (t *Timeline) recorded(e Event) {
	if e.Minute.After(t.last[e.Job]) {
		t.last[e.Job] = e.Minute
	}
}

// Held returns the jobs that a server runs, as far as is known, each with its token.
func (t *Timeline) Held(server string) map[string]fence.Token {
	held := make(map[string]fence.Token)
	for job, e := range t.runner {
		if e.Who == server {
			held[job] = e.Token
		}
	}
	return held
}

// HandedOver reports whether other servers run all of held, which was server's.
func (t *Timeline) HandedOver(server string, held map[string]fence.Token) bool {
	for job, token := range held {
		if now := t.runner[job]; now.Who == server || now.Token <= token {
			return false
		}
	}
	return true
}

// CaughtUp reports whether every job is recorded for the last of its minutes up to until.
func (t *Timeline) CaughtUp(jobs []Job, until time.Time) bool {
	for _, job := range jobs {
		due := job.Due(t.clock.First.Add(-time.Minute), until)
		if len(due) > 0 && t.last[job.Name].Before(due[len(due)-1]) {
			return false
		}
	}
	return true
}

// printStrips draws a line for each job: who ran it in each minute.
func printStrips(w io.Writer, jobs []Job, runs []Run, windows []Window, after, until time.Time) {
	by := make(map[string]map[time.Time]string)
	for _, run := range runs {
		if by[run.Job] == nil {
			by[run.Job] = make(map[time.Time]string)
		}
		by[run.Job][run.Minute] += run.Runner[:1]
	}
	strip := func(name string, cell func(minute time.Time) string) {
		var b strings.Builder
		for m := after.Add(time.Minute); !m.After(until); m = m.Add(time.Minute) {
			b.WriteString(cell(m))
		}
		fmt.Fprintf(w, "  %-15s %s\n", name, strings.TrimRight(b.String(), " "))
	}

	strip("", func(m time.Time) string {
		switch {
		case m.Minute()%10 == 0:
			return "|"
		case m.Minute()%10 <= 5 && !until.Before(m.Truncate(10*time.Minute).Add(5*time.Minute)): // the five cells after the bar
			return hhmm(m.Truncate(10 * time.Minute))[m.Minute()%10-1 : m.Minute()%10]
		}
		return " "
	})
	strip("hand-over", func(m time.Time) string {
		if inWindow(windows, m) {
			return "="
		}
		return " "
	})
	for _, job := range jobs {
		due := make(map[time.Time]bool)
		for _, m := range job.Due(after, until) {
			due[m] = true
		}
		strip(job.Name, func(m time.Time) string {
			switch who := by[job.Name][m]; {
			case len(who) == 1 && due[m]:
				return who
			case who != "":
				return "?" // twice, or not due
			case due[m]:
				return "!"
			}
			return "."
		})
	}
}
