package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coordcell/coord/fence"
)

//go:embed testdata/jobs.crontab
var sampleJobs []byte

type demoOptions struct {
	jobs string // path of a crontab; "" is the sample
	slow string // the job in whose run a server is frozen
	keep bool
	out  io.Writer
}

// The lease is as short as it may be, so that hand-overs are: 4 election timeouts. Three servers bear one fault at a time.
const (
	electionTimeout = 500 * time.Millisecond
	ttl             = 2 * time.Second
	slowWork        = 900 * time.Millisecond
)

var serverNames = []string{"alpha", "beta", "gamma"}

// demo is a demonstration under way. All of it runs on one goroutine; the processes speak to it through events.
type demo struct {
	demoOptions
	dir       string
	list      []Job
	ledger    *Ledger
	clock     Clock
	addrs     []string
	processes map[string]*Process
	events    chan Event
	timeline  *Timeline
	windows   []Window
	until     time.Time // every minute up to this one was recorded, or found to be missing
}

// demonstrate starts three servers, does to them what a lock service must bear, and checks the database that they leave.
// Its error says what was wrong with that, or what did not come to pass before ctx ended.
func demonstrate(ctx context.Context, options demoOptions) (err error) {
	dir, err := os.MkdirTemp("", "coord-scheduler-")
	if err != nil {
		return err
	}
	if !options.keep {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	d, err := prepare(dir, options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel() // kills what still runs
		for _, p := range d.processes {
			<-p.exited
		}
		if err != nil {
			d.printServerErrors()
		}
		err = errors.Join(err, d.ledger.Close())
	}()
	if err := d.play(ctx); err != nil {
		return err
	}
	return d.verdict(ctx)
}

func prepare(dir string, options demoOptions) (d *demo, err error) {
	d = &demo{demoOptions: options, dir: dir, processes: make(map[string]*Process), events: make(chan Event, 1024)}
	if d.jobs == "" {
		d.jobs = filepath.Join(dir, "jobs.crontab")
		if err := os.WriteFile(d.jobs, sampleJobs, 0o600); err != nil {
			return nil, err
		}
	}
	if d.list, err = readJobs(d.jobs); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(d.list, func(j Job) bool { return j.Name == d.slow }) {
		return nil, fmt.Errorf("no job %q in %s", d.slow, d.jobs)
	}
	if d.addrs, err = freeAddrs(len(serverNames)); err != nil {
		return nil, err
	}
	if d.ledger, err = openLedger(filepath.Join(dir, "ledger.sqlite"), 300*time.Millisecond); err != nil {
		return nil, err
	}
	d.clock = Clock{Start: time.Now(), First: time.Date(2025, time.March, 3, 8, 50, 0, 0, time.UTC)} // a Monday
	d.timeline = newTimeline(options.out, d.clock)
	return d, nil
}

// play is the story.
func (d *demo) play(ctx context.Context) error {
	d.heading("%d jobs, %d servers on %s; a minute of the jobs takes a second", len(d.list), len(d.addrs), strings.Join(d.addrs, ", "))
	for _, name := range serverNames {
		if err := d.start(ctx, name); err != nil {
			return err
		}
	}
	if err := d.await(ctx, "all jobs to have a runner", func() bool {
		return len(d.timeline.runner) == len(d.list) && d.allHaveSessions()
	}); err != nil {
		return err
	}
	for _, act := range []func(context.Context) error{d.killRunner, d.freezeRunner, d.killLeader} {
		if err := d.calm(ctx, 3*time.Minute); err != nil {
			return err
		}
		if err := act(ctx); err != nil {
			return err
		}
	}
	return d.finish(ctx)
}

// calm lets all jobs catch up and go on for a time.
func (d *demo) calm(ctx context.Context, jobsTime time.Duration) error {
	d.until = d.clock.Now().Add(jobsTime)
	return d.await(ctx, "all jobs to run up to "+hhmm(d.until), func() bool { return d.timeline.CaughtUp(d.list, d.until) })
}

// killRunner kills a server that runs jobs, and starts it again once others have taken them over.
func (d *demo) killRunner(ctx context.Context) error {
	victim := d.pick(func(name string) bool { // preferably one that the other two acts will not hit
		return name != d.timeline.leader && name != d.timeline.runner[d.slow].Who && len(d.timeline.Held(name)) > 0
	})
	d.heading("kill -9 %s, which runs %s", victim, jobNames(d.timeline.Held(victim)))
	return d.killAndRestart(ctx, victim)
}

// killLeader does the same to the leader of the cell.
func (d *demo) killLeader(ctx context.Context) error {
	victim, term := d.timeline.leader, d.timeline.term
	d.heading("kill -9 %s, which leads the cell and runs %s", victim, jobNames(d.timeline.Held(victim)))
	if err := d.killAndRestart(ctx, victim); err != nil {
		return err
	}
	return d.await(ctx, "a new leader of the cell", func() bool { return d.timeline.term > term })
}

func (d *demo) killAndRestart(ctx context.Context, victim string) error {
	held, from := d.timeline.Held(victim), d.clock.Now()
	if err := d.processes[victim].Kill(); err != nil {
		return err
	}
	if err := d.await(ctx, victim+" to be gone", func() bool { return !d.timeline.session[victim] }); err != nil {
		return err
	}
	if err := d.await(ctx, "others to take over from "+victim, func() bool { return d.timeline.HandedOver(victim, held) }); err != nil {
		return err
	}
	d.window("kill -9 "+victim, from)
	d.timeline.Say(victim, "is started again, on the same directory")
	if err := d.start(ctx, victim); err != nil {
		return err
	}
	return d.await(ctx, victim+" to be back", d.allHaveSessions)
}

// freezeRunner stops a server in the middle of a run, with the token in hand and the record not yet written, until others
// have taken over all that it ran, and run the same job; then lets it finish.
func (d *demo) freezeRunner(ctx context.Context) error {
	d.heading("SIGSTOP whoever runs %s, in the middle of a run", d.slow)
	working, err := d.freezeAtWork(ctx)
	if err != nil {
		return err
	}
	victim, held, from := working.Who, d.timeline.Held(working.Who), d.clock.Now()
	d.timeline.session[victim] = false
	d.timeline.Say(victim, "is frozen in %s of %s, token %s in hand; it runs %s", working.Job, hhmm(working.Minute), short(working.Token), jobNames(held))
	if err := d.await(ctx, "others to take over from "+victim, func() bool {
		return d.timeline.HandedOver(victim, held) && d.timeline.ran[d.slow].Token > working.Token
	}); err != nil {
		return err
	}
	d.window("SIGSTOP "+victim, from)

	d.heading("SIGCONT %s, which knows nothing of it", victim)
	if err := d.processes[victim].Thaw(); err != nil {
		return err
	}
	for { // it is for the check at the end to say how its late write must have ended
		e, err := d.next(ctx)
		if err != nil {
			return fmt.Errorf("waiting for the late write of %s: %w", victim, err)
		}
		late := e.Who == victim && e.Job == working.Job && e.Minute.Equal(working.Minute) && e.Token == working.Token
		if late && (e.What == "refused" || e.What == "ran") {
			break
		}
	}
	return d.await(ctx, victim+" to be back", d.allHaveSessions)
}

// freezeAtWork freezes the runner of the slow job while it works. Where the signal came too late, or met the process in a
// transaction, in which it would have locked all others out of the database, it is let go until its next run.
func (d *demo) freezeAtWork(ctx context.Context) (Event, error) {
	for {
		e, err := d.next(ctx)
		if err != nil {
			return Event{}, fmt.Errorf("waiting for a run of %s: %w", d.slow, err)
		}
		if e.What != "working" || e.Job != d.slow || e.Token != d.timeline.runner[d.slow].Token {
			continue
		}
		p := d.processes[e.Who]
		if err := p.Freeze(); err != nil {
			return Event{}, err
		}
		idle, err := d.ledger.Idle(ctx, Run{Job: e.Job, Minute: e.Minute})
		if idle {
			return e, nil
		}
		d.timeline.Say("", "not now (%v): the next run", err)
		if err := p.Thaw(); err != nil {
			return Event{}, err
		}
	}
}

// finish lets the jobs run on for a little, stops the servers, and leaves a database that is complete up to then.
func (d *demo) finish(ctx context.Context) error {
	d.heading("a last few minutes, then SIGTERM to all")
	if err := d.calm(ctx, 3*time.Minute); err != nil {
		return err
	}
	var errs []error
	for _, name := range serverNames {
		errs = append(errs, d.processes[name].Stop(ctx))
	}
	return errors.Join(errs...)
}

// verdict checks the database, prints what it found, and returns an error if that is not as it must be.
func (d *demo) verdict(ctx context.Context) error {
	first := d.clock.First.Add(-time.Minute)
	report, err := check(ctx, d.ledger, d.list, first, d.until, d.windows)
	if err != nil {
		return err
	}
	runs, err := d.ledger.Runs(ctx)
	if err != nil {
		return err
	}
	d.heading("who ran what, by the first letter of its name")
	printStrips(d.out, d.list, runs, d.windows, first, d.until)
	d.heading("the database, from %s to %s", hhmm(d.clock.First), hhmm(d.until))
	for _, w := range d.windows {
		fmt.Fprintf(d.out, "  hand-over window %s to %s: %s\n", hhmm(w.From), hhmm(w.To), w.Why)
	}
	report.print(d.out)
	if d.keep {
		fmt.Fprintf(d.out, "  kept in %s\n", d.dir)
	}
	if !report.OK() {
		return errors.New("the database is not as it must be")
	}
	fmt.Fprintln(d.out, "\nPASS")
	return nil
}

func (d *demo) start(ctx context.Context, name string) error {
	i := slices.Index(serverNames, name)
	settings, err := json.MarshalIndent(Settings{
		Name:            name,
		Listen:          d.addrs[i],
		Servers:         d.addrs,
		Dir:             filepath.Join(d.dir, name),
		Jobs:            d.jobs,
		Ledger:          filepath.Join(d.dir, "ledger.sqlite"),
		ElectionTimeout: electionTimeout,
		TTL:             ttl,
		Clock:           d.clock,
		SlowJob:         d.slow,
		SlowWork:        slowWork,
	}, "", "\t")
	if err != nil {
		return err
	}
	file := filepath.Join(d.dir, name+".json")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		return err
	}
	p, err := startProcess(ctx, name, []string{"serve", file}, filepath.Join(d.dir, name+".log"), d.events)
	if err != nil {
		return err
	}
	d.processes[name] = p
	return nil
}

// await follows the events until done. It fails when ctx ends, or a server does that nobody killed.
func (d *demo) await(ctx context.Context, what string, done func() bool) error {
	for !done() {
		if _, err := d.next(ctx); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
	return nil
}

// next takes the next event in and returns it.
func (d *demo) next(ctx context.Context) (Event, error) {
	select {
	case e := <-d.events:
		d.timeline.Apply(e)
		if e.What == "exited" && !e.process.ending {
			return e, fmt.Errorf("%s ended by itself: %s", e.Who, e.Why)
		}
		return e, nil
	case <-ctx.Done():
		return Event{}, ctx.Err()
	}
}

func (d *demo) pick(fits func(name string) bool) string {
	if i := slices.IndexFunc(serverNames, fits); i >= 0 {
		return serverNames[i]
	}
	return serverNames[slices.IndexFunc(serverNames, func(name string) bool { return name != d.timeline.leader })]
}

func (d *demo) allHaveSessions() bool {
	return !slices.ContainsFunc(serverNames, func(name string) bool { return !d.timeline.session[name] })
}

func (d *demo) window(why string, from time.Time) {
	d.windows = append(d.windows, Window{Why: why, From: from, To: d.clock.Now()})
}

func (d *demo) heading(format string, args ...any) {
	fmt.Fprintf(d.out, "\n%s  %s\n", hhmm(d.clock.Now()), fmt.Sprintf(format, args...))
}

// printServerErrors shows the ends of what the servers wrote to stderr.
func (d *demo) printServerErrors() {
	for _, name := range serverNames {
		b, err := os.ReadFile(filepath.Join(d.dir, name+".log"))
		if err == nil && len(b) > 0 {
			fmt.Fprintf(d.out, "\n--- %s, stderr:\n%s", name, b[max(0, len(b)-4096):])
		}
	}
}

// freeAddrs returns addresses on loopback that nobody listened on just now, neither for TCP nor for UDP.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for len(addrs) < n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all stay open until the last is found, so that they differ
		u, err := net.ListenPacket("udp", l.Addr().String())
		if err != nil {
			continue
		}
		defer u.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func jobNames(held map[string]fence.Token) string {
	if len(held) == 0 {
		return "nothing"
	}
	return strings.Join(slices.Sorted(maps.Keys(held)), ", ")
}
