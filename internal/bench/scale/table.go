//go:build unix

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// table is what a run prints.
type table struct{ rows []row }

type row struct{ what, figure, bar, reached string }

// note adds a figure without a bar.
func (t *table) note(what, format string, args ...any) {
	t.rows = append(t.rows, row{what: what, figure: fmt.Sprintf(format, args...)})
}

// check adds a figure and whether it reaches its bar.
func (t *table) check(what, figure, bar string, reached bool) {
	t.rows = append(t.rows, row{what, figure, bar, map[bool]string{true: "yes", false: "NO"}[reached]})
}

// atMost adds a duration that must not be above the bar.
func (t *table) atMost(what string, d, bar time.Duration) {
	t.check(what, round(d).String(), "≤ "+bar.String(), d <= bar)
}

func (t *table) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "what\tfigure\tbar\treached")
	for _, r := range t.rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", r.what, r.figure, r.bar, r.reached)
	}
	tw.Flush()
}

// round keeps three digits or so.
func round(d time.Duration) time.Duration {
	for unit := time.Duration(1); unit < time.Second; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Millisecond)
}

// latency sums up how long calls took.
type latency struct {
	N             int
	P50, P99, Max time.Duration
}

func summarize(d []time.Duration) latency {
	if len(d) == 0 {
		return latency{}
	}
	slices.Sort(d)
	return latency{N: len(d), P50: d[len(d)/2], P99: d[len(d)*99/100], Max: d[len(d)-1]}
}

// worst is the worst of several processes, in each respect.
func (l latency) worst(other latency) latency {
	return latency{N: l.N + other.N, P50: max(l.P50, other.P50), P99: max(l.P99, other.P99), Max: max(l.Max, other.Max)}
}

func (l latency) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, max %v of %d", round(l.P50), round(l.P99), round(l.Max), l.N)
}
