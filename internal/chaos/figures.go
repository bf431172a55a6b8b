//go:build linux

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordcell/coord/internal/history"
)

// figures are what a run comes to.
type figures struct {
	faults  map[kind]int
	leaders int // of the faults, those that hit the leader
	skipped int // drawn, but what they would have hit was in the hands of another
	stops   int // of nodes whose disk was full
	loops   int // of nodes that got out of raft's snapshot loop
	stormed time.Duration
	healed  []time.Duration // from the last fault of a window until every process used the cell

	calls, grants, changes, batches, partitions, undecided int
}

func newFigures() figures { return figures{faults: make(map[kind]int)} }

func (f *figures) struck(k kind, leader bool) {
	f.faults[k]++
	if leader {
		f.leaders++
	}
}

func (f *figures) total() int {
	n := 0
	for _, count := range f.faults {
		n += count
	}
	return n
}

func (f *figures) add(r history.Report) {
	f.calls += r.Ops
	f.grants += r.Grants
	f.changes += r.Changes
	f.batches += r.Batches
	f.partitions += r.Partitions
	f.undecided += r.Undecided
}

// progress is a line about the run so far.
func (f *figures) progress(members []*member) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d faults, %d of the leader;", f.total(), f.leaders)
	for _, m := range members {
		switch {
		case m.process == nil:
			fmt.Fprintf(&b, " %s down", m.name)
		case m.process.frozen:
			fmt.Fprintf(&b, " %s frozen", m.name)
		case m.status == nil:
			fmt.Fprintf(&b, " %s starting", m.name)
		default:
			role := ""
			if m.status.IsLeader {
				role = "*"
			} else if !m.status.Voter {
				role = "-"
			}
			fmt.Fprintf(&b, " %s%s %d", m.name, role, m.status.Applied)
		}
	}
	return b.String()
}

func (f *figures) print(w io.Writer, fabric *fabric, resource *vaultService) {
	fmt.Fprintf(w, "\n%v under faults, %d faults, %d of them hit the leader\n", f.stormed.Round(time.Second), f.total(), f.leaders)
	for _, k := range slices.Sorted(maps.Keys(f.faults)) {
		fmt.Fprintf(w, "  %-14s %5d\n", k, f.faults[k])
	}
	fmt.Fprintf(w, "%d faults were left out, because another had their process\n", f.skipped)
	fmt.Fprintf(w, "%d times a node stopped because its disk was full\n", f.stops)
	fmt.Fprintf(w, "%d times a node stopped to get out of raft's snapshot loop\n", f.loops)
	fmt.Fprintf(w, "%d packets carried, %d lost\n", fabric.carried.Load(), fabric.lost.Load())
	fmt.Fprintf(w, "%d writes to the resource accepted, %d refused for their tokens\n", resource.accepted.Load(), resource.stale.Load())
	fmt.Fprintf(w, "%d calls, %d grants, %d changes of keys and %d batches of watches checked\n", f.calls, f.grants, f.changes, f.batches)
	fmt.Fprintf(w, "%d names checked for linearizability, %d of them given up\n", f.partitions, f.undecided)
	if len(f.healed) > 0 {
		fmt.Fprintf(w, "after the last fault every process used the cell within %v\n", slices.Max(f.healed).Round(time.Millisecond))
	}
}
