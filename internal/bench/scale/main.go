//go:build unix

package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// plan is what the command line says.
type plan struct {
	size     float64 // of the full load
	ttl      time.Duration
	lasts    time.Duration
	callers  int // calls under way in each process that makes calls
	watchers int
	dir      string
	spread   time.Duration
	profile  string
	verbose  bool
}

// scenario measures one thing. It fills in the table as it goes.
type scenario func(context.Context, plan, *table) error

func scenarios() map[string]scenario {
	return map[string]scenario{
		"sessions": sessions, "coldstart": coldstart, "locks": locks, "zone": zone, "overload": overload,
	}
}

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if os.Getenv(childVariable) != "" {
		if err := serve(); err != nil {
			log.Fatal(err)
		}
		return
	}
	names := slices.Sorted(maps.Keys(scenarios()))
	var p plan
	flag.Float64Var(&p.size, "size", 1, "of the full load; 0.001 to 2")
	flag.DurationVar(&p.ttl, "ttl", 12*time.Second, "of sessions that are renewed; at least 4s")
	flag.DurationVar(&p.lasts, "for", time.Minute, "how long sessions and overload last, at most 10m")
	flag.IntVar(&p.callers, "callers", 1024, "calls under way in each process, in locks and overload")
	flag.IntVar(&p.watchers, "watchers", 0, "in zone: keys instead of locks, and so many watchers of all of them")
	flag.DurationVar(&p.spread, "spread", 10*time.Second, "in coldstart: the full jitter with which clients come back, 0 to 1m")
	flag.StringVar(&p.dir, "dir", "", "where to make the folder for the servers' disks (default: where temporary files go)")
	flag.StringVar(&p.profile, "profile", "", "write CPU profiles of the servers to this existing folder")
	flag.BoolVar(&p.verbose, "v", false, "say what goes on")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: scale [flags] %s\n", strings.Join(names, "|"))
		flag.PrintDefaults()
	}
	flag.Parse()
	measure, known := scenarios()[flag.Arg(0)]
	if !known || flag.NArg() != 1 || p.size < 0.001 || p.size > 2 || p.ttl < 4*time.Second || p.lasts <= 0 ||
		p.lasts > 10*time.Minute || p.callers < 1 || p.watchers < 0 || p.spread < 0 || p.spread > time.Minute {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(p, flag.Arg(0), measure); err != nil {
		log.Fatal(err)
	}
}

func run(p plan, name string, measure scenario) error {
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, p.lasts+10*time.Minute)
	defer cancel()
	var t table
	begin := time.Now()
	err := measure(ctx, p, &t)
	fmt.Printf("%s, %g of the full size, in %v\n", name, p.size, time.Since(begin).Round(time.Second))
	t.print(os.Stdout)
	return err
}

// scaled is n at the size that was asked for.
func (p plan) scaled(n int) int { return max(1, int(float64(n)*p.size)) }

func (p plan) say(format string, args ...any) {
	if p.verbose {
		log.Printf(format, args...)
	}
}
