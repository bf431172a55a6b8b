package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/coordcell/coord/bench/internal/stats"
)

// Row of a table.
type Row struct {
	Workload, Metric, Unit string
	More                   bool // more is better
}

// Layout of a table: its rows and columns, in order.
type Layout struct {
	Rows     []Row
	Backends []string
}

// Write prints the table as Markdown, and below it what went wrong and how busy the machine was.
func Write(out io.Writer, l Layout, records []Record) error {
	var text strings.Builder
	fmt.Fprintf(&text, "| | unit | %s |\n|---|---|%s\n", strings.Join(l.Backends, " | "), strings.Repeat("---:|", len(l.Backends)))
	for _, row := range l.Rows {
		unit := row.Unit
		if row.More {
			unit += " ↑"
		}
		fmt.Fprintf(&text, "| %s | %s |", row.Metric, unit)
		for _, b := range l.Backends {
			fmt.Fprintf(&text, " %s |", cell(row, b, records))
		}
		text.WriteString("\n")
	}
	text.WriteString("\n")
	text.WriteString(failures(records))
	text.WriteString(noise(records))
	_, err := io.WriteString(out, text.String())
	return err
}

// cell is "median (smallest–largest)"; "–" where the service has nothing of the kind, "failed" where it should have, and
// nothing where it was not tried.
func cell(row Row, backend string, records []Record) string {
	var values []float64
	failed, never := false, false
	for _, r := range records {
		if r.Backend != backend || r.Workload != row.Workload {
			continue
		}
		failed = failed || r.Error != ""
		never = never || r.Never
		if r.Metric == row.Metric {
			values = append(values, r.Value)
		}
	}
	switch {
	case len(values) == 1:
		return number(values[0])
	case len(values) > 1:
		median := stats.Median(values)
		return fmt.Sprintf("%s (%s–%s)", number(median), number(values[0]), number(values[len(values)-1]))
	case failed:
		return "failed"
	case never:
		return "–"
	}
	return ""
}

// number has three digits that count.
func number(v float64) string {
	size := math.Abs(v)
	switch {
	case size >= 1e5:
		return fmt.Sprintf("%.0fk", v/1000)
	case size >= 1e4:
		return fmt.Sprintf("%.1fk", v/1000)
	case size >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case size >= 9.995:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// failures lists each that was met, and how often.
func failures(records []Record) string {
	times := make(map[string]int)
	var order []string
	for _, r := range records {
		if r.Error == "" {
			continue
		}
		line := fmt.Sprintf("%s, %s: %s", r.Backend, r.Workload, r.Error)
		if times[line]++; times[line] == 1 {
			order = append(order, line)
		}
	}
	var text strings.Builder
	for _, line := range order {
		fmt.Fprintf(&text, "- failed %d×: %s\n", times[line], line)
	}
	if len(order) > 0 {
		text.WriteString("\n")
	}
	return text.String()
}

// noise is what others did in the timed parts.
func noise(records []Record) string {
	var shares []float64
	for _, r := range records {
		if r.Metric == "" && r.Error == "" && !r.Never {
			shares = append(shares, 100*r.Others)
		}
	}
	if len(shares) == 0 {
		return ""
	}
	slices.Sort(shares)
	return fmt.Sprintf("CPU of this machine that went to others in the %d timed parts: median %.0f %%, at most %.0f %% in nine of ten, %.0f %% in the worst.\n",
		len(shares), stats.Median(shares), stats.Quantile(shares, .9), shares[len(shares)-1])
}
