package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/proc"
	"github.com/coordcell/coord/bench/internal/report"
	"github.com/coordcell/coord/bench/internal/work"
)

func main() {
	proc.RaiseFiles()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the command. Two words are for processes that it starts itself: "serve BACKEND …" is a server, "hold BACKEND SPEC"
// keeps sessions.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 1 && (args[0] == "serve" || args[0] == "hold") {
		return child(ctx, args)
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.from != "" {
		records, err := report.ReadFile(o.from)
		if err != nil {
			return err
		}
		return report.Write(out, o.layout(records), records)
	}
	return compare(ctx, o, out)
}

func child(ctx context.Context, args []string) error {
	b, err := find(args[1])
	if err != nil {
		return err
	}
	if args[0] == "hold" {
		cell, err := b.Attach(args[2])
		if err != nil {
			return err
		}
		return work.Hold(ctx, cell, os.Stdin, os.Stdout)
	}
	s, ok := b.Backend.(peer.Server)
	if !ok {
		return fmt.Errorf("%s has servers of its own", args[1])
	}
	return s.Serve(ctx, args[2:])
}

// options is what the command line says.
type options struct {
	backends  []backend
	workloads []work.Workload
	sizes     work.Sizes
	runs      int
	time      time.Duration
	dir       string
	install   bool
	save      string
	from      string
}

func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	var o options
	short := flags.Bool("short", false, "one small run of everything: its figures mean little")
	backends := flags.String("backends", names(defaults()), "services, of: "+names(all()))
	workloads := flags.String("workloads", workloadNames(), "what is done with them")
	flags.IntVar(&o.runs, "runs", 3, "rounds over all services; the table has their medians")
	flags.DurationVar(&o.time, "time", 25*time.Minute, "begin nothing that would end after it")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "the servers' folders are made below it: put it on a real disk")
	flags.BoolVar(&o.install, "install", false, "install missing Debian packages with apt-get")
	flags.StringVar(&o.save, "save", "", "append what is measured to this file, as it comes")
	flags.StringVar(&o.from, "from", "", "measure nothing, print the table of a file that -save wrote, with the same sizes")
	z := full()
	flags.DurationVar(&z.Window, "window", z.Window, "how long each timed part is")
	callers := list{&z.Callers}
	flags.Var(callers, "callers", "how many callers lock at once")
	watchers := list{&z.Watchers}
	flags.Var(watchers, "watchers", "how many watch one prefix")
	flags.IntVar(&z.Waiters, "waiters", z.Waiters, "how many wait for one lock")
	flags.IntVar(&z.Sessions, "sessions", z.Sessions, "how many are kept alive at once")
	flags.IntVar(&z.Held, "held", z.Held, "how many locks are held at once")
	flags.DurationVar(&z.HeldTime, "held-time", z.HeldTime, "take them for at most that long")
	flags.IntVar(&z.Kills, "kills", z.Kills, "how often the leader is killed in a round")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *short {
		z = shorter(z)
		o.runs = 1
		o.time = min(o.time, 5*time.Minute)
	}
	o.sizes = z
	o.dir = filepath.Clean(o.dir)
	if flags.NArg() > 0 {
		return o, fmt.Errorf("what is %q? Everything is a flag: see -h", flags.Arg(0))
	}
	if o.runs < 1 || o.runs > 100 {
		return o, fmt.Errorf("-runs %d: must be 1 to 100", o.runs)
	}
	for _, name := range strings.Split(*backends, ",") {
		b, err := find(name)
		if err != nil {
			return o, err
		}
		o.backends = append(o.backends, b)
	}
	return o, o.choose(strings.Split(*workloads, ","))
}

// choose takes the named workloads, in their own order. Every cell is started, so start is always among them.
func (o *options) choose(names []string) error {
	for _, w := range work.All() {
		if i := slices.Index(names, w.Name); i >= 0 || w.Name == "start" {
			o.workloads = append(o.workloads, w)
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n == w.Name })
	}
	if len(names) > 0 {
		return fmt.Errorf("no workload %q; there are: %s", names[0], workloadNames())
	}
	return nil
}

// full takes about 25 minutes for all of the default services.
func full() work.Sizes {
	return work.Sizes{
		Window: time.Second, Callers: []int{1, 64, 512}, Waiters: 100, Readers: 64, Watchers: []int{100, 1000}, Puts: 50,
		Sessions: 3000, TTL: 6 * time.Second, Held: 200_000, HeldTime: 6 * time.Second, Kills: 3,
	}
}

// shorter is at most 5 minutes.
func shorter(z work.Sizes) work.Sizes {
	z.Window = min(z.Window, 400*time.Millisecond)
	z.Waiters, z.Watchers, z.Puts = min(z.Waiters, 20), z.Watchers[:1], min(z.Puts, 10)
	z.Sessions, z.HeldTime, z.Kills = min(z.Sessions, 500), min(z.HeldTime, time.Second), min(z.Kills, 1)
	return z
}

func workloadNames() string {
	var names []string
	for _, w := range work.All() {
		names = append(names, w.Name)
	}
	return strings.Join(names, ",")
}

// list is a flag of numbers, separated by commas.
type list struct{ numbers *[]int }

func (l list) String() string {
	if l.numbers == nil {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*l.numbers), " ", ","), "[]")
}

func (l list) Set(text string) error {
	var numbers []int
	for _, field := range strings.Split(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return fmt.Errorf("%q: must be numbers from 1 on, separated by commas", text)
		}
		numbers = append(numbers, n)
	}
	*l.numbers = numbers
	return nil
}
