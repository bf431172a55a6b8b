//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are those of the command line.
type options struct {
	length, window         time.Duration
	seed                   uint64
	election, ttl, think   time.Duration
	servers, disk          int
	verbose, schedule, all bool
	check                  string
	out                    io.Writer
}

// conductor runs the cell, does to it what the schedule says, and judges what came of it. All of it runs on one
// goroutine: what processes say and what is to be done later are taken one after the other in until.
type conductor struct {
	options
	dir     string
	began   time.Time
	vault   *vault
	fabric  *fabric
	members []*member
	events  chan event
	done    chan struct{} // closed when nobody takes events any more
	journal *os.File

	agenda []deed
	claims int
	cuts   map[int][]rule // by claim
	wiped  *member        // the last one whose disk was emptied, until it is back
	loads  int            // that were started
	window int            // number of the present one
	record string         // directory of the window's records; "" while there is no load

	figures    figures
	violations []string
}

// deed is something to be done at a time.
type deed struct {
	at time.Time
	do func() error
}

// Roles of the program, by the variable that says which.
const (
	roleVariable  = "COORD_CHAOS_ROLE"
	roleConductor = "conductor"
	roleWorker    = "worker"
)

const (
	startPatience  = 60 * time.Second // for a new cell
	healPatience   = 30 * time.Second // for a cell from the last fault on
	finishPatience = 90 * time.Second // for clients to end
	quietPatience  = 60 * time.Second // for what is left of sessions to go, and for the replicas to be level
)

func newConductor(o options) (c *conductor, err error) {
	if err := privateMounts(); err != nil {
		return nil, err
	}
	c = &conductor{
		options: o, began: time.Now(), events: make(chan event, 1024), done: make(chan struct{}), cuts: make(map[int][]rule),
		figures: newFigures(),
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.dir, c.journal, err = newRunDir(); err != nil {
		return c, err
	}
	if err := os.Mkdir(c.logs(), 0o700); err != nil {
		return c, err
	}
	if c.vault, err = openVault(filepath.Join(c.dir, "vault.sock")); err != nil {
		return c, err
	}
	var ports []*os.File
	for i := range o.servers {
		m := &member{index: i, name: hostName(i), disk: filepath.Join(c.dir, "disks", hostName(i))}
		c.members = append(c.members, m)
		if err := mountDisk(m.disk, o.disk); err != nil {
			return c, err
		}
		if m.host, err = newHost(i); err != nil {
			return c, fmt.Errorf("%w: %w", errNotAllowed, err)
		}
		ports = append(ports, m.host.tun)
	}
	c.fabric = newFabric(ports)
	return c, nil
}

// close ends all processes and everything else but the directory.
func (c *conductor) close() {
	close(c.done)
	for _, m := range c.members {
		if m.host != nil {
			m.host.close()
		}
		_ = syscall.Unmount(m.disk, syscall.MNT_DETACH)
	}
	if c.fabric != nil {
		c.fabric.close()
	}
	if c.vault != nil {
		_ = c.vault.close()
	}
	if c.journal != nil {
		_ = c.journal.Close()
	}
}

// saveDisks copies the data directories to where they outlive their file systems.
func (c *conductor) saveDisks() error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, os.CopyFS(filepath.Join(c.dir, "data", m.name), os.DirFS(m.disk)))
	}
	return errors.Join(errs...)
}

func (c *conductor) logs() string { return filepath.Join(c.dir, "logs") }

// say adds a line to the journal, and shows it if loud.
func (c *conductor) say(loud bool, format string, args ...any) {
	line := fmt.Sprintf("%8.2fs  %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
	fmt.Fprintf(c.journal, "%s  (%v)\n", line, machineTime()) // the time that the records have
	if loud || c.verbose {
		fmt.Fprintln(c.out, line)
	}
}

// violate notes that something is as it must not be.
func (c *conductor) violate(guarantee, format string, args ...any) {
	text := guarantee + ": " + fmt.Sprintf(format, args...)
	c.violations = append(c.violations, text)
	c.say(true, "VIOLATION %s", text)
}

// after puts a deed on the agenda.
func (c *conductor) after(d time.Duration, do func() error) {
	at := time.Now().Add(d)
	i, _ := slices.BinarySearchFunc(c.agenda, at, func(d deed, at time.Time) int { return d.at.Compare(at) })
	c.agenda = slices.Insert(c.agenda, i, deed{at, do})
}

// until takes events and does deeds until what is true, and reports whether it came to be within d. ctx is the user's
// patience.
func (c *conductor) until(ctx context.Context, d time.Duration, what func() bool) (bool, error) {
	end := time.NewTimer(d)
	defer end.Stop()
	for !what() {
		next := time.NewTimer(time.Hour)
		if len(c.agenda) > 0 {
			next.Reset(time.Until(c.agenda[0].at))
		}
		select {
		case e := <-c.events:
			c.take(e)
		case <-next.C:
			if len(c.agenda) > 0 {
				first := c.agenda[0]
				c.agenda = c.agenda[1:]
				if err := first.do(); err != nil {
					return false, err
				}
			}
		case <-end.C:
			return what(), nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
		next.Stop()
	}
	return true, nil
}

// take notes what a process said, and looks at how it ended.
func (c *conductor) take(e event) {
	m := e.member
	switch {
	case e.process != m.process: // an earlier one
	case e.exited:
		m.process, m.status = nil, nil
		c.exited(m, e.process)
	case e.note.What == noteStatus:
		m.status, m.statusAt = e.note.Status, time.Now()
	case e.note.What == noteComplaint:
		c.violate(e.note.Guarantee, "%s: %s", m.name, e.note.Text)
	case e.note.What == noteStopped:
		e.process.stopped, e.process.loop = e.note.Text, e.note.Loop
	default:
		m.answers[e.note.What] = e.note
		c.say(false, "%s: %s %s %s", m.name, e.note.What, e.note.Text, e.note.Err)
	}
}

// exited judges the end of a process.
func (c *conductor) exited(m *member, p *process) {
	log, err := os.ReadFile(p.logFile)
	if err != nil {
		c.violate("log", "%s: %v", m.name, err)
	}
	if line := alarm(log); line != "" {
		c.violate("G12", "%s wrote to %s: %s", m.name, filepath.Base(p.logFile), line)
	}
	state := p.cmd.ProcessState
	switch {
	case p.stopped != "" && m.full && strings.Contains(p.stopped, syscall.ENOSPC.Error()):
		c.figures.stops++
		c.say(false, "%s stopped by itself, as it must: %s", m.name, p.stopped)
	case p.loop: // which only a new start ends
		c.figures.loops++
		c.say(true, "%s stopped by itself, and is started again: %s", m.name, p.stopped)
		c.after(0, func() error { return c.startAgain(m) })
	case p.stopped != "":
		c.violate("G12", "%s stopped by itself (%v): %s", m.name, state, p.stopped)
	case !p.ending:
		c.violate("G12", "%s ended by itself: %v; see %s", m.name, state, filepath.Base(p.logFile))
	case state.Exited() && state.ExitCode() != 0:
		c.violate("G12", "%s did not stop as it was asked to: %v; see %s", m.name, state, filepath.Base(p.logFile))
	}
}

// startAgain starts a process that has ended by itself, once no fault has it any more: many faults end with a start of
// their own.
func (c *conductor) startAgain(m *member) error {
	switch {
	case m.process != nil:
		return nil
	case m.claim != 0:
		c.after(100*time.Millisecond, func() error { return c.startAgain(m) })
		return nil
	}
	return c.start(m)
}

// start starts a member's process, with clients if the others have theirs.
func (c *conductor) start(m *member) error {
	err := m.launch(settings{
		Name: m.name, Cell: "chaos", Dir: filepath.Join(m.disk, "node"), Listen: hostAddr(m.index) + ":7420",
		Join: c.addrs(), Expect: c.expect(m), ElectionTimeout: c.election, TTL: c.ttl, Think: c.think,
		Vault: filepath.Join(c.dir, "vault.sock"),
	}, c.logs(), c.events, c.done)
	if err == nil && c.record != "" {
		c.load(m)
	}
	return err
}

// load starts the clients of one process.
func (c *conductor) load(m *member) {
	c.loads++
	m.order(order{
		Do: doLoad, First: c.loads, Seed: c.seed,
		File: filepath.Join(c.record, fmt.Sprintf("%s.%d.json", m.name, m.launches)),
	})
}

// expect is how many form the cell: all but the last one, which joins.
func (c *conductor) expect(m *member) int {
	if m.index == c.servers-1 {
		return 0
	}
	return c.servers - 1
}

func (c *conductor) addrs() []string {
	var addrs []string
	for _, m := range c.members[:c.servers-1] {
		addrs = append(addrs, hostAddr(m.index)+":7420")
	}
	return addrs
}

// leader is who leads, by its own word; nil if nobody says so.
func (c *conductor) leader() *member {
	var leader *member
	for _, m := range c.members {
		if m.status != nil && m.status.IsLeader && (leader == nil || m.status.Term > leader.status.Term) {
			leader = m
		}
	}
	return leader
}

// run is all of it. Its error is why it could not be done; violations are no error.
func (c *conductor) run(ctx context.Context) error {
	for _, m := range c.members {
		if err := c.start(m); err != nil {
			return err
		}
	}
	if err := c.probeAll(ctx, startPatience, "a new cell"); err != nil {
		return err
	}
	for left := c.length; left > 0 && len(c.violations) == 0; left -= c.options.window {
		c.window++
		if err := c.play(ctx, min(left, c.options.window)); err != nil {
			return fmt.Errorf("window %d: %w", c.window, err)
		}
	}
	return c.stop(ctx)
}

// stop ends all processes as a user would.
func (c *conductor) stop(ctx context.Context) error {
	for _, m := range c.members {
		if m.running() {
			m.terminate()
		}
	}
	return c.gone(ctx)
}

// gone waits until no process runs any more.
func (c *conductor) gone(ctx context.Context) error {
	ok, err := c.until(ctx, 2*stopPatience, func() bool {
		return !slices.ContainsFunc(c.members, func(m *member) bool { return m.process != nil })
	})
	if err == nil && !ok {
		err = errors.New("some processes do not end")
	}
	return err
}
