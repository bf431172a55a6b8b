package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// simulation is where the seeds of random faults are run.
const (
	simulation = "internal/sim"
	seedsTest  = "^TestSeeds$"
)

// hunt runs tests against mutants.
type hunt struct {
	root    string
	o       options
	useless map[string]error // why the tests of a folder cannot kill anything
}

// result is what became of a mutant.
type result struct {
	killers []string // tests
	missed  []string // runs that were expected to fail and did not
	hung    bool
	seeds   string // what random faults alone found; empty: not tried
	took    time.Duration
	err     error
}

func (r result) killed() bool { return r.err == nil && (len(r.killers) > 0 || r.hung) }

// baseline runs every test that is to kill a mutant on the code as it is. One that fails even so kills nothing.
func (h *hunt) baseline(ctx context.Context, chosen []Mutant) error {
	tests := make(map[string][]string) // regexps by folder
	for _, m := range chosen {
		for _, k := range m.Kills {
			tests[k.Package] = append(tests[k.Package], topLevel(k.Tests))
		}
	}
	for dir, named := range tests {
		g := goTest{root: h.root, dir: dir, run: "^(" + strings.Join(named, "|") + ")$", timeout: 5 * h.o.timeout, short: true, cached: true}
		v, err := g.do(ctx)
		switch {
		case err != nil:
			return err
		case v.broken != "":
			h.useless[dir] = fmt.Errorf("%s does not compile without the mutant:\n%s", dir, v.broken)
		case v.hung || len(v.failed) > 0:
			h.useless[dir] = fmt.Errorf("%s fails without the mutant: %v, hung: %v", dir, v.failed, v.hung)
		}
	}
	return ctx.Err()
}

// topLevel is the part of a -run regexp that names tests, and not subtests.
func topLevel(tests string) string {
	top, _, _ := strings.Cut(tests, "/")
	return strings.TrimSuffix(strings.TrimPrefix(top, "^"), "$")
}

// mutant runs what is to kill m.
func (h *hunt) mutant(ctx context.Context, m Mutant) (r result) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return result{err: err}
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(h.root, dir)
	if err != nil {
		return result{err: err}
	}
	for _, k := range m.Kills {
		if err := h.useless[k.Package]; err != nil {
			return result{err: err}
		}
		h.try(ctx, &r, goTest{root: h.root, overlay: overlay, dir: k.Package, run: "^(" + topLevel(k.Tests) + ")$" + subtests(k.Tests), short: true, timeout: h.o.timeout})
	}
	if h.o.all {
		for _, dir := range m.packages() {
			h.try(ctx, &r, goTest{root: h.root, overlay: overlay, dir: dir, timeout: 10 * h.o.timeout})
		}
	}
	if h.o.seeds > 0 && r.err == nil {
		r.seeds = h.random(ctx, overlay)
	}
	return r
}

// subtests is the rest of a -run regexp.
func subtests(tests string) string {
	if _, sub, ok := strings.Cut(tests, "/"); ok {
		return "/" + sub
	}
	return ""
}

// try makes one run, and takes down how it ended.
func (h *hunt) try(ctx context.Context, r *result, g goTest) {
	if r.err != nil {
		return
	}
	v, err := g.do(ctx)
	switch {
	case err != nil:
		r.err = err
	case ctx.Err() != nil:
		r.err = ctx.Err()
	case v.broken != "":
		r.err = errors.New("it does not compile:\n" + v.broken)
	case v.hung:
		r.hung = true
		r.killers = append(r.killers, g.dir+": hangs in "+strings.Join(v.failed, ", "))
	case len(v.failed) > 0:
		for _, name := range v.failed {
			r.kill(name)
		}
	case v.ran == 0:
		r.err = fmt.Errorf("%s has no test %s", g.dir, g.run)
	default:
		r.missed = append(r.missed, g.dir+" "+g.run)
	}
}

func (r *result) kill(name string) {
	for _, k := range r.killers {
		if k == name {
			return
		}
	}
	r.killers = append(r.killers, name)
}

// random says whether seeds of random faults find the mutant.
func (h *hunt) random(ctx context.Context, overlay string) string {
	g := goTest{
		root: h.root, overlay: overlay, dir: simulation, run: seedsTest, timeout: 10 * h.o.timeout,
		args: []string{"-seeds", fmt.Sprintf("1-%d", h.o.seeds)},
	}
	v, err := g.do(ctx)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case v.broken != "":
		return "error: " + v.broken
	case v.hung:
		return "hangs"
	case len(v.failed) > 0:
		return "found"
	case v.ran == 0:
		return "error: there is no " + seedsTest
	default:
		return "not found"
	}
}
