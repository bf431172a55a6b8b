//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coordcell/coord/internal/history"
)

// play is one window: clients at work under faults, then none, then the judgement. The cell lives on from one window to
// the next; what clients left in it does not, so that each record can be checked by itself.
func (c *conductor) play(ctx context.Context, length time.Duration) error {
	seed := c.seed + uint64(c.window) - 1
	c.say(true, "window %d: %v of faults, seed %d", c.window, length, seed)
	c.record = filepath.Join(c.dir, fmt.Sprint("window-", c.window))
	if err := os.Mkdir(c.record, 0o700); err != nil {
		return err
	}
	for _, m := range c.members {
		c.load(m)
	}
	for _, f := range draw(seed, c.servers, length, c.ttl) {
		c.after(f.at, func() error { return c.strike(f) })
	}
	began := time.Now()
	over := func() bool { return len(c.violations) > 0 }
	for left := length; left > 0 && !over(); left = length - time.Since(began) {
		if _, err := c.until(ctx, min(left, 30*time.Second), over); err != nil {
			return err
		}
		c.say(true, "%s", c.figures.progress(c.members))
	}
	c.figures.stormed += time.Since(began)
	if over() {
		return c.giveUp(ctx)
	}
	c.heal()
	if err := c.probeAll(ctx, healPatience, "the last fault"); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{c.finish, c.level, c.compare, c.clean, c.check} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// giveUp kills everything after a violation, and adds what the records show up to then.
func (c *conductor) giveUp(ctx context.Context) error {
	c.agenda = nil
	for _, m := range c.members {
		if m.process != nil {
			m.kill()
		}
	}
	if err := c.gone(ctx); err != nil {
		return err
	}
	return c.check(ctx)
}

// heal ends all faults.
func (c *conductor) heal() {
	c.agenda, c.cuts = nil, make(map[int][]rule)
	c.wire()
	for _, m := range c.members {
		m.unfill()
		if p := m.process; p != nil && p.frozen {
			m.thaw()
		}
	}
	for _, m := range c.members {
		switch {
		case m == c.wiped && m.claim != 0: // killed, and to come back with an empty disk
			c.after(0, func() error { return c.comeBack(m, m.claim, wipe) })
		default:
			m.claim++ // of nobody
			claim := m.claim
			c.after(0, func() error { return c.ensure(m, claim) })
		}
	}
	c.say(false, "all faults end")
}

// ensure sees to it that a process runs: one that is about to end is waited for.
func (c *conductor) ensure(m *member, claim int) error {
	switch {
	case m.claim != claim:
		return nil
	case m.process != nil && !m.process.ending && m.process.stopped == "":
		m.claim = 0
		c.after(3*time.Second, func() error { m.full = m.full && m.process == nil; return nil })
		return nil
	case m.process != nil:
		c.after(20*time.Millisecond, func() error { return c.ensure(m, claim) })
		return nil
	}
	m.claim, m.full = 0, false
	return c.start(m)
}

// probeAll wants every process to answer a session, a lock and a read in time.
func (c *conductor) probeAll(ctx context.Context, patience time.Duration, since string) error {
	began := time.Now()
	asked := make(map[*process]time.Time)
	ok, err := c.until(ctx, patience, func() bool { return c.probed(asked) })
	if err != nil {
		return err
	}
	if !ok {
		for _, m := range c.members {
			n, answered := m.answered(doProbe)
			c.say(true, "%s: answered %v: %s; %+v", m.name, answered, n.Err, m.status)
		}
		c.violate("liveness", "not every process can use the cell within %v of %s", patience, since)
		return nil
	}
	took := time.Since(began)
	c.figures.healed = append(c.figures.healed, took)
	c.wiped = nil
	c.say(false, "every process uses the cell %v after %s", took.Round(time.Millisecond), since)
	return nil
}

// probed asks every process that runs, and says whether all have answered well. One whose answer is an error is asked
// again.
func (c *conductor) probed(asked map[*process]time.Time) bool {
	all := true
	for _, m := range c.members {
		if m.process == nil || m.status == nil {
			all = false
			continue
		}
		n, ok := m.answered(doProbe)
		if at := asked[m.process]; at.IsZero() || ok && n.Err != "" && time.Since(at) > time.Second {
			asked[m.process] = time.Now()
			m.ask(doProbe)
			ok = false
		}
		all = all && ok && n.Err == ""
	}
	return all
}

// everybody gives all an order and waits for their answers.
func (c *conductor) everybody(ctx context.Context, do string, patience time.Duration) error {
	for _, m := range c.members {
		m.ask(do)
	}
	ok, err := c.until(ctx, patience, func() bool {
		return !slices.ContainsFunc(c.members, func(m *member) bool {
			_, answered := m.answered(do)
			return m.process != nil && !answered
		})
	})
	if err != nil {
		return err
	}
	for _, m := range c.members {
		if n, answered := m.answered(do); m.process != nil && (!answered || n.Err != "") {
			c.violate("liveness", "%s: %s: answered %v, %s", m.name, do, answered, n.Err)
		}
	}
	if !ok {
		c.violate("G12", "not all have done %s within %v", do, patience)
	}
	return nil
}

// finish lets the clients go on for a little without faults, and then ends them.
func (c *conductor) finish(ctx context.Context) error {
	if _, err := c.until(ctx, c.ttl, func() bool { return false }); err != nil {
		return err
	}
	defer func() { c.record = "" }()
	return c.everybody(ctx, doFinish, finishPatience)
}

// level waits until nobody holds anything any more, and all replicas have come to the same entry with the same counts.
func (c *conductor) level(ctx context.Context) error {
	ok, err := c.until(ctx, quietPatience, func() bool {
		var first *member
		for _, m := range c.members {
			s := m.status
			switch {
			case m.process == nil:
				continue
			case s == nil || time.Since(m.statusAt) > 10*statusEvery || s.Locks+s.Waiting > 0 || s.Leader == "":
				return false
			case first == nil:
				first = m
			}
			f := first.status
			if s.Applied != f.Applied || s.Committed != f.Committed || s.Leader != f.Leader {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, m := range c.members {
		if !ok {
			c.say(true, "%s: %+v", m.name, m.status)
		}
	}
	if !ok {
		c.violate("liveness", "after %v without clients, locks are held or replicas are behind", quietPatience)
	}
	return nil
}

// compare wants the replicas to have the same counts and keys. Sessions of processes that were killed may still end
// meanwhile, so it asks again for a while.
func (c *conductor) compare(ctx context.Context) error {
	var differ string
	for began := time.Now(); time.Since(began) < quietPatience; {
		if err := c.everybody(ctx, doDigest, callPatience); err != nil {
			return err
		}
		if differ = c.difference(); differ == "" {
			return nil
		}
		c.say(false, "once more: %s", differ)
		if _, err := c.until(ctx, time.Second, func() bool { return false }); err != nil {
			return err
		}
	}
	c.violate("G10", "%s", differ)
	return nil
}

// difference is one between two replicas, or "".
func (c *conductor) difference() string {
	var first *member
	for _, m := range c.members {
		switch {
		case m.process == nil || m.status == nil:
			continue
		case first == nil:
			first = m
			continue
		}
		a, b := first.status, m.status
		if a.Applied == b.Applied && (a.Revision != b.Revision || a.Sessions != b.Sessions || a.Keys != b.Keys) {
			return fmt.Sprintf("%s and %s differ at entry %d: %+v and %+v", first.name, m.name, a.Applied, *a, *b)
		}
		x, _ := first.answered(doDigest)
		y, _ := m.answered(doDigest)
		if x.Text != y.Text {
			return fmt.Sprintf("%s has %s, %s has %s", first.name, x.Text, m.name, y.Text)
		}
	}
	return ""
}

// clean removes what the clients left.
func (c *conductor) clean(ctx context.Context) error {
	i := slices.IndexFunc(c.members, (*member).running)
	if i < 0 {
		return nil
	}
	m := c.members[i]
	m.ask(doClean)
	_, err := c.until(ctx, callPatience, func() bool { _, ok := m.answered(doClean); return ok })
	if err != nil {
		return err
	}
	if n, ok := m.answered(doClean); !ok || n.Err != "" {
		c.violate("liveness", "%s: %s: answered %v, %s", m.name, doClean, ok, n.Err)
	}
	return nil
}

// check judges the records of the window.
func (c *conductor) check(context.Context) error {
	began := time.Now()
	h, err := readHistory(c.windowDir())
	if err != nil {
		return err
	}
	report := history.Verify(h)
	for _, v := range report.Violations {
		c.violate(v.Guarantee, "%s", v)
	}
	c.figures.add(report)
	for _, name := range report.GivenUp {
		c.say(true, "note: the search for an order of the calls of %s was given up", name)
	}
	c.say(true, "window %d: %d calls, %d grants, %d changes checked in %v", c.window, report.Ops, report.Grants, report.Changes,
		time.Since(began).Round(time.Millisecond))
	if len(c.violations) == 0 {
		return os.RemoveAll(c.windowDir())
	}
	return nil
}

func (c *conductor) windowDir() string { return filepath.Join(c.dir, fmt.Sprint("window-", c.window)) }

// readHistory puts together the records in a directory.
func readHistory(dir string) (*history.History, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("there are no records in %s", dir)
	}
	var files []io.Reader
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		files = append(files, f)
	}
	return history.Read(files...)
}
