// Command scheduler runs the jobs of a crontab on several servers, each job on one of them at a time, and records each run
// in a database that refuses a server which lost a job without noticing.
//
//	scheduler               the demonstration: three servers, which are killed and frozen (see demo.go)
//	scheduler serve FILE    one server, with the Settings in the JSON file
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == "serve" {
		settings, err := readSettings(args[1])
		if err != nil {
			return err
		}
		return serve(ctx, settings, os.Stdout)
	}
	flags := flag.NewFlagSet("scheduler", flag.ContinueOnError)
	jobs := flags.String("jobs", "", "crontab to run; default: the sample of a dozen jobs")
	slow := flags.String("slow", "reindex-search", "the job in whose run a server is frozen; it must be due often")
	keep := flags.Bool("keep", false, "keep the database and the servers' directories")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q; see -h", flags.Arg(0))
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	return demonstrate(ctx, demoOptions{jobs: *jobs, slow: *slow, keep: *keep, out: os.Stdout})
}
