package coord

import (
	"context"
	"fmt"
	"strings"

	"github.com/coordcell/coord/fsm"
)

// DeadlockError refuses a call that would have waited for itself. Cycle is how, the caller first: each waits for the
// next, and the last for the first. errors.Is finds ErrDeadlock in it.
//
// The cell knows of what callers say: a Lock call that is given the Context of a Lock, or a context made of it (as inside
// Do), says that its caller holds that lock meanwhile. It counts across sessions, nodes and processes. Of calls that say
// nothing no deadlock is found, and none is seen where there is none: that other goroutines of the same session hold or
// wait for something has nothing to do with it.
type DeadlockError struct{ Cycle []Waiting }

// Waiting is one member of a Cycle.
type Waiting struct {
	Session  SessionID // of the call that waits
	Label    string
	Holds    string // what the one before waits for
	Token    Token  // of the grant of Holds; 0: it does not hold it yet, but stands before it in the queue
	WaitsFor string
}

// Error names the whole cycle.
func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString(ErrDeadlock.Error())
	for i, w := range e.Cycle {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		verb := "holds"
		if w.Token == 0 {
			verb = "is ahead for"
		}
		fmt.Fprintf(&b, "%ssession %d %q %s %q and waits for %q", separator, w.Session, w.Label, verb, w.Holds, w.WaitsFor)
	}
	return b.String()
}

// Is makes errors.Is find ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

func deadlockOf(c *fsm.Cycle) error {
	e := &DeadlockError{}
	if c != nil {
		for _, w := range c.Waits {
			e.Cycle = append(e.Cycle, Waiting{w.Session, w.Label, w.Holds, Token(w.Token), w.WaitsFor})
		}
	}
	return e
}

// holdingKey is the key of the innermost Lock that the user of a context holds.
type holdingKey struct{}

func holding(ctx context.Context, l *Lock) context.Context {
	return context.WithValue(ctx, holdingKey{}, l)
}

// holdings are the grants that ctx says its user holds, the innermost first, as far as they have not ended and are of
// this session's cell.
func (s *Session) holdings(ctx context.Context) (held []fsm.GrantID) {
	for l, ok := ctx.Value(holdingKey{}).(*Lock); ok && len(held) < fsm.MaxHolding; {
		if l.Err() == nil && l.session.node.sameCell(s.node) {
			held = append(held, fsm.GrantID{Name: l.name, Token: l.token})
		}
		l, ok = l.hold.Context().Value(holdingKey{}).(*Lock)
	}
	return held
}

func (n *Node) sameCell(other *Node) bool {
	return n == other || n.srv.Status().CellID == other.srv.Status().CellID
}
