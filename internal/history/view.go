package history

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
	"time"
)

// view is a history arranged for the checks, and what they have found.
type view struct {
	h      *History
	result Report
	count  map[string]int // violations by guarantee

	locks map[string][]*Op // by name: calls about a lock or election, also Puts on the condition that it is held
	keys  map[string][]*Op // by key

	// alive is when a session lived for certain, the latest such moment: something was called then that only a living
	// session can have done.
	alive map[uint64]time.Duration
	// closed is when the end of a session was first asked for.
	closed map[uint64]time.Duration

	grants   map[string][]*grant // by name, by token
	changes  map[string][]*change
	all      []*change // of every key, by revision
	puts     map[string]*Op
	watchers []*watcher
	coverage map[string][]span // by key, made when it is asked for
}

// never is later than everything.
const never time.Duration = math.MaxInt64

// grant is one that is known to have been made: it was returned, or seen by others.
type grant struct {
	name    string
	token   uint64
	session uint64
	op      *Op           // that it answered; nil if its caller never learned of it
	call    time.Duration // not made before
	known   time.Duration // made by then: when the first to know it did
}

func newView(h *History) *view {
	v := &view{
		h: h, count: make(map[string]int),
		locks: make(map[string][]*Op), keys: make(map[string][]*Op),
		alive: make(map[uint64]time.Duration), closed: make(map[uint64]time.Duration),
		grants: make(map[string][]*grant), puts: make(map[string]*Op), coverage: make(map[string][]span),
	}
	for i := range h.Ops {
		v.sort(&h.Ops[i])
	}
	for _, name := range names(v.locks) {
		v.grants[name] = v.grantsOf(name)
		v.result.Grants += len(v.grants[name])
	}
	v.watchers = watchersOf(h)
	v.mergeChanges()
	v.result.Ops, v.result.Batches, v.result.Changes = len(h.Ops), len(h.Batches), len(v.all)
	return v
}

func (v *view) sort(op *Op) {
	switch op.Kind {
	case Lock, TryLock, Campaign, Unlock, Resign, Check, Lookup, Leader, Proclaim:
		v.locks[op.Name] = append(v.locks[op.Name], op)
	case Put, Delete, Get:
		v.keys[op.Name] = append(v.keys[op.Name], op)
		if op.If.Lock != "" {
			v.locks[op.If.Lock] = append(v.locks[op.If.Lock], op)
		}
		if op.Kind == Put {
			v.puts[op.Value] = op
		}
	case Close:
		if at, ok := v.closed[op.Session]; !ok || op.Call < at {
			v.closed[op.Session] = op.Call
		}
	}
	if op.provesLife() {
		v.alive[op.Session] = max(v.alive[op.Session], op.Call)
	}
}

// provesLife says whether op's session lived at some moment from its call on.
func (op *Op) provesLife() bool {
	if op.Outcome != OK || op.Session == 0 {
		return false
	}
	switch op.Kind {
	case Open, Alive, Check, Lock, TryLock, Campaign, Unlock, Resign, Proclaim:
		return true
	case Put:
		return !op.Lasting
	}
	return false
}

// ret is when op returned, or never.
func (op *Op) ret() time.Duration {
	if op.Return == Pending {
		return never
	}
	return op.Return
}

// asks says whether op asks for a grant.
func (op *Op) asks() bool { return op.Kind == Lock || op.Kind == TryLock || op.Kind == Campaign }

// frees says whether op gives a grant back.
func (op *Op) frees() bool { return op.Kind == Unlock || op.Kind == Resign }

// open says whether op's effect is not known: it may have one, or may have one yet.
func (op *Op) open() bool { return op.Return == Pending || op.Outcome == Unknown || op.Outcome == "" }

// The texts of the errors by which the cell refuses a call because of its state.
const (
	textLocked   = "coord: locked"
	textNotHeld  = "coord: not held"
	textConflict = "coord: conflict"
	textNotFound = "coord: key not found"
	textSession  = "coord: session"
	textExpired  = "coord: session expired"
)

// refused says whether the cell itself refused op with this error. That a session has ended is known to its own process
// before the cell, so an error that goes back to that says nothing of the cell's state.
func (op *Op) refused(text string) bool {
	return op.Return != Pending && op.Outcome == Refused && strings.Contains(op.Err, text) && !strings.Contains(op.Err, textSession)
}

// maybe says whether a request for a grant that was not answered with one may have been granted all the same, and
// taken back in the background.
func (op *Op) maybe() bool {
	return op.asks() && (op.Return == Pending || op.Outcome != OK && !op.refused(textLocked))
}

// grantsOf gathers what is known to have been granted of a name.
func (v *view) grantsOf(name string) []*grant {
	byToken := make(map[uint64]*grant)
	maybe := make(map[uint64]time.Duration) // by session: its first request that may have been granted unknown to it
	for _, op := range v.locks[name] {
		switch {
		case op.maybe():
			if _, ok := maybe[op.Session]; !ok {
				maybe[op.Session] = op.Call
			}
		case op.asks() && op.Outcome == OK:
			if g := byToken[op.Token]; g != nil {
				v.add("G2", op.Return, "%q: token %d was granted twice: %v; %v", name, op.Token, g.op, op)
				continue
			}
			byToken[op.Token] = &grant{name: name, token: op.Token, session: op.Session, op: op, call: op.Call, known: op.Return}
		}
	}
	for _, op := range v.locks[name] {
		if op.Outcome != OK || op.Holder == 0 || op.Return == Pending {
			continue
		}
		g := byToken[op.Token]
		if g == nil {
			call, asked := maybe[op.Holder]
			if !asked || call > op.Return {
				v.add("G5", op.Return, "session %d never asked for the %q that it is said to hold: %v", op.Holder, name, op)
			}
			g = &grant{name: name, token: op.Token, session: op.Holder, call: call, known: never}
			byToken[op.Token] = g
		}
		if g.session != op.Holder {
			v.add("G1", op.Return, "%q: token %d is that of session %d: %v", name, op.Token, g.session, op)
		}
		g.known = min(g.known, op.Return)
	}
	return slices.SortedFunc(maps.Values(byToken), func(a, b *grant) int { return cmp.Compare(a.token, b.token) })
}

func (g *grant) String() string {
	if g.op != nil {
		return g.op.String()
	}
	return "a grant of it to session " + itoa(g.session) + " with token " + itoa(g.token) + " that others saw"
}

// findGrant finds a grant by its token, as slices.BinarySearch does.
func findGrant(grants []*grant, token uint64) (int, bool) {
	return slices.BinarySearchFunc(grants, token, func(g *grant, t uint64) int { return cmp.Compare(g.token, t) })
}

// mark is a number that was known at a time.
type mark struct {
	at     time.Duration
	number uint64
	by     any // who knew it
}

// frontier answers what the highest number was that was known before a time.
type frontier []mark

func newFrontier(marks []mark) frontier {
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(marks); i++ {
		if marks[i].number < marks[i-1].number {
			marks[i].number, marks[i].by = marks[i-1].number, marks[i-1].by
		}
	}
	return marks
}

// before returns the mark of the highest number known before t, not at t: what happens at the same time may have
// happened in either order.
func (f frontier) before(t time.Duration) (mark, bool) {
	i := sort.Search(len(f), func(i int) bool { return f[i].at >= t })
	if i == 0 {
		return mark{}, false
	}
	return f[i-1], true
}

// names returns the keys of m, sorted, so that the same history is always checked in the same order.
func names[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
