package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Violation is something that a cell which keeps its guarantees cannot have shown.
type Violation struct {
	Guarantee string // "G3"
	Text      string
	At        time.Duration // when it was seen
}

func (v Violation) String() string { return fmt.Sprintf("%s at %v: %s", v.Guarantee, v.At, v.Text) }

// Report is what came of a history.
type Report struct {
	Violations []Violation // by time; the last one says how many more there are than are told

	// A check of nothing finds nothing: how much there was to be checked.
	Ops, Grants, Changes, Batches int
	Partitions                    int      // names whose calls were looked at for linearizability
	Undecided                     int      // of these, those that were given up because the search took too many steps
	GivenUp                       []string // which
}

// mostEach bounds the violations that are told of one guarantee: one fault mostly breaks it many times.
const mostEach = 20

// Verify returns what a history shows to be broken. The history must begin with an empty cell, and must hold every
// change of the locks, elections and keys that occur in it.
func Verify(h *History) Report {
	v := newView(h)
	v.checkExclusion()
	v.checkReleased()
	v.checkTokens()
	v.checkFence()
	v.checkQueues()
	v.checkOnce()
	v.checkCounters()
	v.checkExpiry()
	v.checkStreams()
	v.checkGaps()
	v.checkSnapshots()
	v.checkLocks()
	v.checkKeys()
	return v.report()
}

// Lost returns the calls that had not returned when the record ended. That is a violation only where every process
// lived on and every context has ended.
func Lost(h *History) (lost []Violation) {
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Return == Pending {
			lost = append(lost, Violation{"G12", fmt.Sprintf("%v has not returned", op), op.Call})
		}
	}
	return lost
}

func (v *view) add(guarantee string, at time.Duration, format string, args ...any) {
	v.count[guarantee]++
	if v.count[guarantee] > mostEach {
		return
	}
	v.result.Violations = append(v.result.Violations, Violation{guarantee, fmt.Sprintf(format, args...), at})
}

func (v *view) report() Report {
	slices.SortStableFunc(v.result.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Guarantee, b.Guarantee), cmp.Compare(a.Text, b.Text))
	})
	all := 0
	for _, n := range v.count {
		all += n
	}
	if told := v.result.Violations; len(told) < all {
		last := told[len(told)-1]
		v.result.Violations = append(told, Violation{last.Guarantee, fmt.Sprintf("and %d more violations", all-len(told)), last.At})
	}
	return v.result
}

// String is the call as violations name it.
func (op *Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d client %d %s %s", op.ID, op.Client, op.Kind, op.Name)
	if op.Session != 0 {
		fmt.Fprintf(&b, " session %d", op.Session)
	}
	if op.If != (Condition{}) {
		fmt.Fprintf(&b, " if %+v", op.If)
	}
	if op.Value != "" {
		fmt.Fprintf(&b, " value %q", op.Value)
	}
	if op.Holder != 0 {
		fmt.Fprintf(&b, " holder %d", op.Holder)
	}
	if op.Token != 0 {
		fmt.Fprintf(&b, " token %d", op.Token)
	}
	if op.Revision != 0 {
		fmt.Fprintf(&b, " revision %d", op.Revision)
	}
	fmt.Fprintf(&b, " [%v, ", op.Call)
	if op.Return == Pending {
		b.WriteString("…]")
	} else {
		fmt.Fprintf(&b, "%v] %s", op.Return, op.Outcome)
	}
	if op.Err != "" {
		fmt.Fprintf(&b, " %q", op.Err)
	}
	return b.String()
}
