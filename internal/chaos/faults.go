//go:build linux

package main

import (
	"slices"
	"strings"
	"time"
)

// strike begins a fault, if those that it would hit are free. Whatever it begins, it ends later by an entry of the
// agenda.
func (c *conductor) strike(f fault) error {
	order, leads := c.resolve(f)
	victim := c.members[order[0]]
	if !f.kind.hitsAll() && !c.free(victim, f.kind) {
		c.figures.skipped++
		return nil
	}
	name := victim.name
	if leads {
		name += " (leader)"
	}
	c.claims++
	claim := c.claims
	switch f.kind {
	case kill, shutdown, wipe, full:
		victim.claim = claim
	}
	var err error
	switch f.kind {
	case kill, shutdown, wipe:
		err = c.restart(victim, claim, f)
	case killAll:
		name = "all"
		c.killAll(claim, f)
	case rolling:
		name = "all"
		c.roll(claim, order, f)
	case freeze:
		c.freeze(victim, claim, f)
	case standby:
		name = "all"
		for _, m := range c.members {
			if c.free(m, freeze) {
				c.freeze(m, claim, f)
			}
		}
	case full:
		err = c.fillUp(victim, claim, f)
	case transfer:
		leader := c.leader()
		if leader == nil || !leader.running() {
			c.figures.skipped++
			return nil
		}
		leads, name = true, leader.name
		leader.ask(doTransfer)
	case flap:
		name = c.text(f, order)
		c.flap(claim, order, f)
	case outdated:
		name = c.text(f, order)
		c.cut(claim, f.rules(order, c.ttl), f.lasts)
		c.after(f.lasts/2, func() error {
			c.claims++
			c.cut(c.claims, fault{kind: mute}.rules(order, c.ttl), f.lasts/2)
			return nil
		})
	default:
		name = c.text(f, order)
		c.cut(claim, f.rules(order, c.ttl), f.lasts)
	}
	c.figures.struck(f.kind, leads || f.kind.hitsAll())
	c.say(false, "%s: %s for %v", f.kind, name, f.lasts)
	return err
}

// resolve puts the leader first if the fault is for it. leads says whether whoever is hit leads.
func (c *conductor) resolve(f fault) (order []int, leads bool) {
	order = slices.Clone(f.order)
	leader := c.leader()
	if leader != nil && f.leader {
		i := slices.Index(order, leader.index)
		order[0], order[i] = order[i], order[0]
	}
	return order, leader != nil && order[0] == leader.index
}

// free says whether a fault may have the member's process. A network that fails needs nobody's consent. One disk is
// empty at a time, and only while all processes run: the cell promises to bear the loss of a minority of the disks.
func (c *conductor) free(m *member, k kind) bool {
	switch k {
	case kill, shutdown, freeze, full:
		return m.claim == 0 && m.running()
	case wipe:
		return m.claim == 0 && c.wiped == nil && !slices.ContainsFunc(c.members, func(m *member) bool { return !m.running() })
	}
	return true
}

// freeze stops a process where it stands, for a while.
func (c *conductor) freeze(m *member, claim int, f fault) {
	m.claim = claim
	m.freeze()
	c.after(f.lasts, func() error {
		if m.claim == claim {
			m.thaw()
			m.claim = 0
		}
		return nil
	})
}

// restart ends a process in one of the ways there are, and starts it again when it is gone and the fault is over.
func (c *conductor) restart(m *member, claim int, f fault) error {
	if f.kind == shutdown {
		m.terminate()
	} else {
		m.kill()
	}
	if f.kind == wipe {
		c.wiped = m
	}
	c.after(f.lasts, func() error { return c.comeBack(m, claim, f.kind) })
	return nil
}

// comeBack starts a process again once it is gone.
func (c *conductor) comeBack(m *member, claim int, k kind) error {
	if m.claim != claim {
		return nil // another fault has taken over
	}
	if m.process != nil {
		c.after(20*time.Millisecond, func() error { return c.comeBack(m, claim, k) })
		return nil
	}
	m.claim = 0
	if k == wipe {
		if err := m.wipe(); err != nil {
			return err
		}
		c.after(time.Second, c.admitted)
	}
	return c.start(m)
}

// admitted waits until the cell has taken in the server whose disk was emptied.
func (c *conductor) admitted() error {
	if m := c.wiped; m != nil {
		if s := m.status; s != nil && s.CellID != "" && s.Leader != "" && s.Applied > 0 {
			c.wiped = nil
			c.say(false, "%s has been replaced", m.name)
			return nil
		}
		c.after(time.Second, c.admitted)
	}
	return nil
}

// killAll kills every process at once, whatever else was going on with it.
func (c *conductor) killAll(claim int, f fault) {
	for _, m := range c.members {
		m.claim = claim
		if m.process != nil {
			m.kill()
		}
	}
	for _, m := range c.members {
		c.after(f.lasts, func() error {
			m.unfill()
			m.full = false
			return c.comeBack(m, claim, kill)
		})
	}
}

// roll shuts down and restarts one process after the other. Those that another fault has are left out.
func (c *conductor) roll(claim int, order []int, f fault) {
	if len(order) == 0 {
		return
	}
	m := c.members[order[0]]
	next := func() error { c.roll(claim, order[1:], f); return nil }
	if !c.free(m, shutdown) {
		c.after(0, next)
		return
	}
	m.claim = claim
	m.terminate()
	c.after(f.lasts/time.Duration(c.servers), func() error { return c.comeBack(m, claim, shutdown) })
	var back func() error
	back = func() error {
		if m.claim == claim {
			c.after(100*time.Millisecond, back)
			return nil
		}
		c.after(500*time.Millisecond, next)
		return nil
	}
	c.after(100*time.Millisecond, back)
}

// fillUp leaves no room on a disk. The node stops when it notices, and is started again when there is room.
func (c *conductor) fillUp(m *member, claim int, f fault) error {
	m.full = true
	if err := m.fill(); err != nil {
		return err
	}
	c.after(f.lasts, func() error {
		if m.claim != claim {
			return nil
		}
		m.unfill()
		c.after(3*time.Second, func() error { return c.roomAgain(m, claim) }) // it may be about to stop
		return nil
	})
	return nil
}

func (c *conductor) roomAgain(m *member, claim int) error {
	if m.claim != claim {
		return nil
	}
	m.claim, m.full = 0, false
	if m.process == nil {
		return c.start(m)
	}
	return nil
}

// cut has the network follow more rules for a while.
func (c *conductor) cut(claim int, rules []rule, d time.Duration) {
	c.cuts[claim] = rules
	c.wire()
	c.after(d, func() error {
		delete(c.cuts, claim)
		c.wire()
		return nil
	})
}

// flap cuts and mends again and again.
func (c *conductor) flap(claim int, order []int, f fault) {
	until := time.Now().Add(f.lasts)
	period := c.election/4 + time.Duration(f.amount*float64(2*c.election))
	var again func() error
	again = func() error {
		if time.Now().Before(until) {
			c.cut(claim, f.rules(order, c.ttl), period/2)
			c.after(period, again)
		}
		return nil
	}
	_ = again()
}

func (c *conductor) wire() {
	var all []rule
	for _, rules := range c.cuts {
		all = append(all, rules...)
	}
	c.fabric.set(all)
}

// text says whom a fault of the network is about.
func (c *conductor) text(f fault, order []int) string {
	var b strings.Builder
	for _, i := range order {
		b.WriteString(hostName(i))
	}
	return b.String()
}
