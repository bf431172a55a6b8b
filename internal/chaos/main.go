//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coordcell/coord/internal/history"
)

// Exit statuses.
const (
	exitOK        = 0
	exitViolation = 1
	exitUsage     = 2
	exitBroken    = 3  // the run could not be carried out
	exitSkipped   = 77 // this machine or user may not make namespaces
)

var errUsage = errors.New("usage")

func main() {
	os.Exit(run(os.Args[1:], os.Stdout))
}

func run(args []string, out io.Writer) int {
	if os.Getenv(roleVariable) == roleWorker {
		return work(args[0])
	}
	o, err := parse(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil {
		return exitUsage
	}
	if o.check != "" {
		return judge(out, o.check)
	}
	if o.schedule {
		for _, f := range draw(o.seed, o.servers, o.window, o.ttl) {
			fmt.Fprintln(out, f)
		}
		return exitOK
	}
	if os.Getenv(roleVariable) != roleConductor {
		status, err := sandboxed(append(args, fmt.Sprint("-seed=", o.seed)), out)
		return explain(out, status, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := conduct(ctx, o)
	return explain(out, status, err)
}

// explain turns an error into a sentence and an exit status.
func explain(out io.Writer, status int, err error) int {
	switch {
	case errors.Is(err, errNotAllowed):
		fmt.Fprintln(out, "skipped: processes in network namespaces with disks of their own need root, or user namespaces:", err)
		return exitSkipped
	case err != nil:
		fmt.Fprintln(out, "the run was broken off:", err)
		return exitBroken
	}
	return status
}

func parse(args []string, out io.Writer) (options, error) {
	o := options{out: out}
	set := flag.NewFlagSet("chaos", flag.ContinueOnError)
	set.SetOutput(out)
	set.DurationVar(&o.length, "for", 3*time.Minute, "how long there are faults, in all")
	set.DurationVar(&o.window, "window", time.Minute, "after so long the faults end for a while, and the record is checked")
	set.Uint64Var(&o.seed, "seed", 0, "of the faults and the load; 0 draws one")
	set.IntVar(&o.servers, "servers", 6, "processes: all but one form the cell, and that one joins; 4 … 9")
	set.IntVar(&o.disk, "disk", 64, "MB of the disk of each")
	set.DurationVar(&o.election, "election", 500*time.Millisecond, "Config.ElectionTimeout")
	set.DurationVar(&o.ttl, "ttl", 2*time.Second, "the least TTL of sessions; they have up to three times as much")
	set.DurationVar(&o.think, "think", 100*time.Millisecond, "the longest pause between two calls of a client")
	set.BoolVar(&o.verbose, "v", false, "show every fault as it happens")
	set.BoolVar(&o.schedule, "schedule", false, "print the first window's faults, and do nothing")
	set.BoolVar(&o.all, "keep", false, "keep all records, whatever they show")
	set.StringVar(&o.check, "check", "", "check the records in this directory of an earlier run, and do nothing else")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if o.servers < 4 || o.servers > 9 || o.window <= 0 || o.length <= 0 || o.disk < 16 || o.think <= 0 {
		fmt.Fprintln(out, "-servers must be 4 … 9, -disk at least 16, and -for, -window and -think above 0")
		return o, errUsage
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 32)
	}
	return o, nil
}

// judge checks records that have been kept.
func judge(out io.Writer, dir string) int {
	h, err := readHistory(dir)
	if err != nil {
		return explain(out, 0, err)
	}
	report := history.Verify(h)
	fmt.Fprintf(out, "%d calls, %d grants, %d changes: %d violations\n", report.Ops, report.Grants, report.Changes, len(report.Violations))
	for _, v := range report.Violations {
		fmt.Fprintln(out, " ", v)
	}
	if len(report.Violations) > 0 {
		return exitViolation
	}
	return exitOK
}

// conduct makes one run, and says what came of it.
func conduct(ctx context.Context, o options) (status int, err error) {
	c, err := newConductor(o)
	if err != nil {
		if c != nil && c.dir != "" {
			err = errors.Join(err, os.RemoveAll(c.dir))
		}
		return 0, err
	}
	fmt.Fprintf(o.out, "seed %d, %d processes, in %s\n", o.seed, o.servers, c.dir)
	runErr := c.run(ctx)
	if len(c.violations) > 0 {
		runErr = errors.Join(runErr, c.saveDisks())
	}
	c.close()
	c.figures.print(o.out, c.fabric, c.vault.service)
	if len(c.violations) == 0 && !o.all && (runErr == nil || errors.Is(runErr, context.Canceled)) {
		if runErr == nil {
			fmt.Fprintln(o.out, "no violations")
		}
		return exitOK, errors.Join(runErr, os.RemoveAll(c.dir))
	}
	kept, err := keep(c.dir)
	fmt.Fprintf(o.out, "%d violations\n", len(c.violations))
	for _, v := range c.violations {
		fmt.Fprintln(o.out, " ", v)
	}
	fmt.Fprintf(o.out, "records and logs are kept in %s\n", kept)
	fmt.Fprintf(o.out, "the same faults again, though processes never run the same way twice:\n  go run ./internal/chaos -for %v -window %v -seed %d\n",
		o.length, o.window, o.seed)
	if err = errors.Join(runErr, err); err != nil || len(c.violations) == 0 {
		return exitOK, err
	}
	return exitViolation, nil
}
