package history

import (
	"fmt"
	"math"
	"strings"

	"github.com/anishathalye/porcupine"
)

// G5 is checked by a search for an order of the calls in which each takes effect between its start and its return, and
// in which each answer is what the calls before it have left. It is done name by name (locks.go, keys.go).
//
// Such a search is fast only while few calls may have taken effect at any time, and a call whose outcome is unknown may
// do so until the end. So these are not searched for. What is known to have happened is put in the order of its
// revisions, whoever told of it; and for what may have happened unseen the models keep not one state but the set of
// those that are possible. They let such a thing happen more often than it can have, so they may overlook something, but
// what they object to is wrong.

// state is what may be the case, while the index'th of the known changes (or grants) is the last: a set of bits.
type state struct {
	index int
	may   uint8
	value string // of an election
}

// step is one call, or one change that was seen. It returns what may be the case after it, and false if it cannot have
// been as it was.
type step struct {
	call, ret int64
	text      fmt.Stringer
	next      func(state) (state, bool)
}

// stepsEach bounds the search: this many for each call of a name, on average, and some more.
const stepsEach, stepsMore = 100, 100_000

// checkLinear looks for an order of the steps of one name.
func (v *view) checkLinear(what, name string, first state, steps []step) {
	if len(steps) == 0 {
		return
	}
	v.result.Partitions++
	ops := make([]porcupine.Operation, len(steps))
	for i := range steps {
		ops[i] = porcupine.Operation{Input: &steps[i], Call: steps[i].call, Return: max(steps[i].call, steps[i].ret)}
	}
	// The bound is on steps, not on time: in virtual time the clock stands still while the search runs, and a seed must
	// give the same result on a slow machine.
	left := stepsEach*len(steps) + stepsMore
	model := porcupine.Model{
		Init: func() any { return first },
		Step: func(s, input, _ any) (bool, any) {
			if left--; left < 0 {
				return false, s
			}
			next, ok := input.(*step).next(s.(state))
			return ok, next
		},
		Hash: func(s any) uint64 {
			return uint64(s.(state).index)*0x9e3779b97f4a7c15 + uint64(s.(state).may)
		},
	}
	if porcupine.CheckOperations(model, ops) {
		return
	}
	if left < 0 {
		v.result.Undecided++
		v.result.GivenUp = append(v.result.GivenUp, what+" "+name)
		return
	}
	left = math.MaxInt
	_, info := porcupine.CheckOperationsVerbose(model, ops, 0)
	v.addStuck(what, name, steps, info)
}

// addStuck tells how far the search came: the longest order found, and the first call that does not fit in.
func (v *view) addStuck(what, name string, steps []step, info porcupine.LinearizationInfo) {
	var longest []porcupine.Operation
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	placed := make(map[*step]bool)
	for _, op := range longest {
		placed[op.Input.(*step)] = true
	}
	var stuck *step
	for i := range steps {
		if s := &steps[i]; !placed[s] && (stuck == nil || s.ret < stuck.ret) {
			stuck = s
		}
	}
	var before strings.Builder
	for _, op := range longest[max(0, len(longest)-5):] {
		fmt.Fprintf(&before, "\n\t%v", op.Input.(*step).text)
	}
	v.add("G5", duration(uint64(stuck.ret)), "%s %q: no order of the calls explains %v; the longest one found ends with%s",
		what, name, stuck.text, before.String())
}
