package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/coordcell/coord/bench/internal/machine"
	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/report"
	"github.com/coordcell/coord/bench/internal/work"
)

// comparison is one run of the command.
type comparison struct {
	options
	out      io.Writer
	progress io.Writer
	saved    io.Writer // nil: nowhere
	began    time.Time
	records  []report.Record
	longest  map[string]time.Duration // that a service's turn has taken so far
}

// compare measures, and prints the machine, the versions and the table.
func compare(ctx context.Context, o options, out io.Writer) error {
	c := &comparison{options: o, out: out, progress: os.Stderr, began: time.Now(), longest: make(map[string]time.Duration)}
	if o.save != "" {
		f, err := os.OpenFile(o.save, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		c.saved = f
	}
	c.backends = available(ctx, o.backends, o.install, out)
	if len(c.backends) == 0 {
		return errors.New("nothing to compare")
	}
	load := machine.Load()
	left := c.rounds(ctx)
	fmt.Fprintf(out, "\n%s. Load average before: %s, after: %s. %d runs in %v.\n\n",
		machine.Describe(o.dir), load, machine.Load(), o.runs, time.Since(c.began).Round(time.Second))
	for _, b := range c.backends {
		fmt.Fprintf(out, "- %s (%s): %s.\n", b.name, b.Version(), b.About())
	}
	fmt.Fprintln(out)
	if left != "" {
		fmt.Fprintf(out, "%s\n\n", left)
	}
	if err := report.Write(out, c.layout(c.records), c.records); err != nil {
		return err
	}
	return ctx.Err()
}

// rounds gives each service its turn in each round, so that what else the machine does hits all alike. When the time is up,
// it says what is left out.
func (c *comparison) rounds(ctx context.Context) string {
	for round := range c.runs {
		for i, b := range c.backends {
			if round > 0 && time.Since(c.began)+c.longest[b.name] > c.time {
				return fmt.Sprintf("The time of %v was up: round %d ended before %s.", c.time, round+1, names(c.backends[i:]))
			}
			begin := time.Now()
			c.turn(ctx, b, round)
			c.longest[b.name] = max(c.longest[b.name], time.Since(begin))
			if ctx.Err() != nil {
				return fmt.Sprintf("Interrupted in round %d, at %s.", round+1, b.name)
			}
		}
	}
	return ""
}

// turn runs all workloads on cells of one service, a new one where a workload wants it.
func (c *comparison) turn(ctx context.Context, b backend, round int) {
	var cell *running
	stop := func() {
		if cell != nil {
			cell.stop()
		}
		cell = nil
		runtime.GC()
	}
	defer stop()
	for i, w := range c.workloads {
		if w.Fresh && i > 1 { // "start" alone has used it before
			stop()
		}
		if cell == nil {
			begin := time.Now()
			var err error
			if cell, err = c.startCell(ctx, b); err != nil {
				err = fmt.Errorf("the cell did not start: %w", err)
				c.add(report.Record{Backend: b.name, Workload: w.Name, Run: round, Error: oneLine(err)})
				c.say(b, w, round, time.Since(begin), err)
				return
			}
		}
		if !c.do(ctx, b, cell, w, round) {
			return // it hangs: its processes are stopped under it
		}
	}
}

// running is a cell and its folder.
type running struct {
	peer.Cell
	dir   string
	began time.Time
}

func (c *comparison) startCell(ctx context.Context, b backend) (*running, error) {
	dir, err := os.MkdirTemp(c.dir, "coord-bench-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	r := &running{dir: dir, began: time.Now()}
	if r.Cell, err = b.Start(ctx, dir); err != nil {
		_ = os.RemoveAll(dir) // the error counts
		return nil, err
	}
	return r, nil
}

func (r *running) stop() {
	r.Stop()
	_ = os.RemoveAll(r.dir) // a temporary folder
}

// do runs one workload and says whether it returned.
func (c *comparison) do(ctx context.Context, b backend, cell *running, w work.Workload, round int) bool {
	if lacks, ok := cell.Cell.(peer.Lacks); ok && lacks.Lacks(w.Name) {
		c.add(report.Record{Backend: b.name, Workload: w.Name, Run: round, Never: true})
		return true
	}
	const grace = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, w.Limit)
	defer cancel()
	var got []report.Record // by the workload's goroutine, until it has returned
	record := func(r report.Record) {
		r.Backend, r.Workload, r.Run = b.name, w.Name, round
		got = append(got, r)
	}
	e := &work.Env{
		Backend: b.name, Cell: cell, Sizes: c.sizes, Began: cell.began,
		Record: func(metric string, value float64) { record(report.Record{Metric: metric, Value: value}) },
		Usage: func(u work.Usage) {
			share := u.Others.Seconds() / u.Took.Seconds() / float64(runtime.NumCPU())
			record(report.Record{Others: min(1, share)}) // the kernel counts in steps of 10 ms
		},
	}
	begin := time.Now()
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, e) }()
	var err error
	select {
	case err = <-done:
	case <-time.After(w.Limit + grace):
		c.add(report.Record{Backend: b.name, Workload: w.Name, Run: round, Error: fmt.Sprintf("it hung for %v", w.Limit+grace)})
		return false
	}
	switch {
	case errors.Is(err, peer.ErrUnsupported):
		record(report.Record{Never: true})
	case err != nil:
		record(report.Record{Error: oneLine(err)})
	}
	for _, r := range got {
		c.add(r)
	}
	c.say(b, w, round, time.Since(begin), err)
	return true
}

// say prints a line of progress.
func (c *comparison) say(b backend, w work.Workload, round int, took time.Duration, err error) {
	how := "done"
	if err != nil {
		how = oneLine(err)
	}
	fmt.Fprintf(c.progress, "%5.0fs round %d %-14s %-9s %5.1fs %s\n", time.Since(c.began).Seconds(), round+1, b.name, w.Name,
		took.Seconds(), how)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// add keeps a record, in the file too.
func (c *comparison) add(r report.Record) {
	c.records = append(c.records, r)
	if c.saved == nil {
		return
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = fmt.Fprintf(c.saved, "%s\n", line)
	}
	if err != nil {
		fmt.Fprintln(c.progress, "not saved:", err)
	}
}

// layout has all rows that the workloads declare, and the columns that there are records of.
func (o options) layout(records []report.Record) report.Layout {
	var l report.Layout
	for _, w := range o.workloads {
		for _, m := range w.Metrics(o.sizes) {
			l.Rows = append(l.Rows, report.Row{Workload: w.Name, Metric: m.Name, Unit: m.Unit, More: m.More})
		}
	}
	for _, b := range all() {
		if slices.ContainsFunc(records, func(r report.Record) bool { return r.Backend == b.name }) {
			l.Backends = append(l.Backends, b.name)
		}
	}
	return l
}
