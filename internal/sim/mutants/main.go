package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// options are what the command line says.
type options struct {
	run      *regexp.Regexp
	all      bool
	seeds    int
	jobs     int
	markdown bool
	timeout  time.Duration
}

func main() { os.Exit(run()) }

func run() (status int) {
	o, err := parse()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := check(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !ok {
		return 1
	}
	return 0
}

func parse() (o options, err error) {
	names := flag.String("run", "", "only mutants whose names match this regexp")
	flag.BoolVar(&o.all, "all", false, "run every test of the packages concerned, not only those named")
	flag.IntVar(&o.seeds, "seeds", 0, "run so many seeds of the simulation against each mutant as well")
	flag.IntVar(&o.jobs, "j", 1, "mutants at the same time")
	flag.BoolVar(&o.markdown, "markdown", false, "print the table as Markdown, at the end")
	flag.DurationVar(&o.timeout, "timeout", 2*time.Minute, "time limit of one run of tests")
	flag.Parse()
	if flag.NArg() > 0 || o.jobs < 1 {
		return o, fmt.Errorf("-j is at least 1, and there are no arguments: %q", flag.Args())
	}
	o.run, err = regexp.Compile(*names)
	return o, err
}

// check runs the mutants that o names, and reports whether all were killed.
func check(ctx context.Context, o options) (ok bool, err error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return false, err
	}
	var chosen []Mutant
	for _, m := range mutants() {
		if o.run.MatchString(m.Name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return false, fmt.Errorf("no mutant matches %v", o.run)
	}
	hunt := &hunt{root: root, o: o, useless: make(map[string]error)}
	if err := hunt.baseline(ctx, chosen); err != nil {
		return false, err
	}
	table := newTable(os.Stdout, o)
	results := make([]result, len(chosen))
	var all sync.WaitGroup
	places := make(chan struct{}, o.jobs)
	for i, m := range chosen {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			results[i] = hunt.mutant(ctx, m)
			table.progress(m, results[i])
		})
	}
	all.Wait()
	return table.finish(chosen, results), ctx.Err()
}

// moduleRoot is the folder of this module's go.mod.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if filepath.Base(mod) != "go.mod" {
		return "", fmt.Errorf("not within a module")
	}
	return filepath.Dir(mod), nil
}
