package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// table reports what became of the mutants: line by line, and at the end.
type table struct {
	w  io.Writer
	o  options
	mu sync.Mutex
}

func newTable(w io.Writer, o options) *table { return &table{w: w, o: o} }

// progress prints a line for a mutant as soon as it is known what became of it.
func (t *table) progress(m Mutant, r result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "%-9s %-44s %-10s %5.1fs  %s\n", r.word(), m.Name, m.Guarantee, r.took.Seconds(), strings.Join(r.killers, ", "))
	for _, run := range r.missed {
		fmt.Fprintf(t.w, "          not by %s\n", run)
	}
	if r.seeds != "" {
		fmt.Fprintf(t.w, "          random faults, %d seeds: %s\n", t.o.seeds, r.seeds)
	}
	if r.err != nil {
		fmt.Fprintf(t.w, "          %v\n", r.err)
	}
	if !r.killed() {
		fmt.Fprintf(t.w, "          %s\n", m.Breaks)
	}
}

// finish prints the table if it is wanted, and the sum. It reports whether all is well.
func (t *table) finish(chosen []Mutant, results []result) bool {
	if t.o.markdown {
		t.markdown(chosen, results)
	}
	killed, took := 0, time.Duration(0)
	for _, r := range results {
		if r.killed() {
			killed++
		}
		took += r.took
	}
	fmt.Fprintf(t.w, "%d of %d mutants were killed, in %v\n", killed, len(chosen), took.Round(time.Second))
	return killed == len(chosen)
}

func (t *table) markdown(chosen []Mutant, results []result) {
	head, rule := "| mutant | guarantee | what it breaks | killed by |", "|---|---|---|---|"
	if t.o.seeds > 0 {
		head, rule = head+fmt.Sprintf(" random faults alone, %d seeds |", t.o.seeds), rule+"---|"
	}
	fmt.Fprintf(t.w, "\n%s\n%s\n", head, rule)
	for i, m := range chosen {
		r := results[i]
		var by []string
		for _, k := range r.killers {
			by = append(by, "`"+k+"`")
		}
		if !r.killed() {
			by = []string{"**" + r.word() + "**"}
		}
		fmt.Fprintf(t.w, "| %s | %s | %s | %s |", m.Name, m.Guarantee, m.Breaks, strings.Join(by, ", "))
		if t.o.seeds > 0 {
			fmt.Fprintf(t.w, " %s |", r.seeds)
		}
		fmt.Fprintln(t.w)
	}
	fmt.Fprintln(t.w)
}

func (r result) word() string {
	switch {
	case r.err != nil:
		return "ERROR"
	case r.hung:
		return "hangs"
	case r.killed():
		return "killed"
	default:
		return "SURVIVES"
	}
}
