package server

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
)

// Limits bounds what a call may ask for, and what a cell may hold.
type Limits struct {
	Name, Value, Txn, List         int
	MaxTTL                         time.Duration
	Sessions, Locks, Keys, Waiters int
	HistoryEvents, HistoryBytes    int
}

// The hard bounds keep one change well below the largest frame and log entry.
const (
	mostName     = 4 << 10
	mostValue    = 1 << 20
	mostTxn      = 1024
	mostList     = 1 << 20
	mostTxnBytes = 2 << 20 // of names and values in one Txn
	reapStep     = 500
)

// WithDefaults fills what is 0.
func (l Limits) WithDefaults() Limits {
	fill := func(p *int, d int) {
		if *p == 0 {
			*p = d
		}
	}
	fill(&l.Name, 512)
	fill(&l.Value, 64<<10)
	fill(&l.Txn, 128)
	fill(&l.List, 10_000)
	fill(&l.Sessions, 1_000_000)
	fill(&l.Locks, 4_000_000)
	fill(&l.Keys, 4_000_000)
	fill(&l.Waiters, 100_000)
	fill(&l.HistoryEvents, 500_000)
	fill(&l.HistoryBytes, 64<<20)
	if l.MaxTTL == 0 {
		l.MaxTTL = 24 * time.Hour
	}
	return l
}

// Validate names every field that is out of bounds.
func (l Limits) Validate(leastTTL time.Duration) error {
	var errs []error
	check := func(field string, v, least, most int) {
		if v < least || v > most {
			errs = append(errs, fmt.Errorf("%w: Limits.%s = %d: must be %d … %d", ErrInvalid, field, v, least, most))
		}
	}
	const many = 1 << 30
	check("Name", l.Name, 1, mostName)
	check("Value", l.Value, 1, mostValue)
	check("Txn", l.Txn, 1, mostTxn)
	check("List", l.List, 1, mostList)
	check("Sessions", l.Sessions, 1, many)
	check("Locks", l.Locks, 1, many)
	check("Keys", l.Keys, 1, many)
	check("Waiters", l.Waiters, 1, many)
	check("HistoryEvents", l.HistoryEvents, 16, many)
	check("HistoryBytes", l.HistoryBytes, 64<<10, many)
	if l.MaxTTL < leastTTL || l.MaxTTL > 365*24*time.Hour {
		errs = append(errs, fmt.Errorf("%w: Limits.MaxTTL = %v: must be %v (1s, or 4 × ElectionTimeout) … 8760h", ErrInvalid, l.MaxTTL, leastTTL))
	}
	return errors.Join(errs...)
}

// Params are those of the limits that are part of the cell's state.
func (l Limits) Params() fsm.Params {
	return fsm.Params{
		HistoryEvents: l.HistoryEvents, HistoryBytes: l.HistoryBytes,
		Sessions: l.Sessions, Locks: l.Locks, Keys: l.Keys, Waiters: l.Waiters,
		ReapStep: reapStep,
	}
}

// LimitError is the error for a change that the cell has refused because of a limit. Its values are the cell's.
func (s *Server) LimitError(l fsm.Limit) error { return caller.LimitError(s.params(), l) }

// CheckName checks the name of a lock, an election or a key.
func (l Limits) CheckName(what, name string) error {
	if name == "" {
		return fmt.Errorf("%w: %s is empty", ErrInvalid, what)
	}
	return l.CheckPrefix(what, name)
}

// CheckPrefix checks a name that may be empty.
func (l Limits) CheckPrefix(what, name string) error {
	if len(name) > l.Name {
		return fmt.Errorf("%w: %s of %d bytes: at most Limits.Name, %d", ErrTooLarge, what, len(name), l.Name)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%w: %s %q is not UTF-8", ErrInvalid, what, name)
	}
	if strings.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("%w: %s %q contains a zero byte", ErrInvalid, what, name)
	}
	return nil
}

// CheckValue checks a value, or the data of a lock.
func (l Limits) CheckValue(what string, value []byte) error {
	if len(value) > l.Value {
		return fmt.Errorf("%w: %s of %d bytes: at most Limits.Value, %d", ErrTooLarge, what, len(value), l.Value)
	}
	return nil
}

// CheckTxn checks a transaction.
func (l Limits) CheckTxn(t fsm.Txn) error {
	for _, part := range []struct {
		name string
		n    int
	}{{"If", len(t.If)}, {"Then", len(t.Then)}, {"Else", len(t.Else)}} {
		if part.n > l.Txn {
			return fmt.Errorf("%w: %d in %s: at most Limits.Txn, %d", ErrLimit, part.n, part.name, l.Txn)
		}
	}
	if len(t.If)+len(t.Then)+len(t.Else) == 0 {
		return fmt.Errorf("%w: a Txn without conditions and operations", ErrInvalid)
	}
	bytes := 0
	for i, c := range t.If {
		if err := l.checkCondition(i, c); err != nil {
			return err
		}
		bytes += len(c.Key) + len(c.Value)
	}
	for _, branch := range []struct {
		name string
		ops  []fsm.Op
	}{{"Then", t.Then}, {"Else", t.Else}} {
		for i, op := range branch.ops {
			if op.Kind < fsm.OpGet || op.Kind > fsm.OpDelete {
				return fmt.Errorf("%w: %s[%d] is not an operation: use OpPut, OpDelete or OpGet", ErrInvalid, branch.name, i)
			}
			if err := l.CheckName(fmt.Sprintf("key of %s[%d]", branch.name, i), op.Key); err != nil {
				return err
			}
			if err := l.CheckValue(fmt.Sprintf("value of %s[%d]", branch.name, i), op.Value); err != nil {
				return err
			}
			bytes += len(op.Key) + len(op.Value)
		}
	}
	if bytes > mostTxnBytes {
		return fmt.Errorf("%w: a Txn with %d bytes of names and values: at most %d", ErrTooLarge, bytes, mostTxnBytes)
	}
	return nil
}

func (l Limits) checkCondition(i int, c fsm.Condition) error {
	if c.Kind < fsm.KeyAt || c.Kind > fsm.HeldBy {
		return fmt.Errorf("%w: If[%d] is not a condition: use KeyAt, KeyAbsent, ValueIs, HeldBy or Lock.Held", ErrInvalid, i)
	}
	if err := l.CheckName(fmt.Sprintf("name of If[%d]", i), c.Key); err != nil {
		return err
	}
	return l.CheckValue(fmt.Sprintf("value of If[%d]", i), c.Value)
}

// checkCommand is what the leader asks of a change that another server passes on. That server has checked it against
// its own limits; the leader's are those that count.
func (l Limits) checkCommand(cmd fsm.Command) error {
	switch c := cmd.(type) {
	case fsm.OpenSession:
		if c.Internal { // labelled with the name of its node
			l.Name = mostName
		}
		return errors.Join(l.CheckPrefix("label", c.Label), l.checkTTL(time.Duration(c.TTL)))
	case fsm.Lock:
		return l.CheckLock(c)
	case fsm.HandOver:
		return l.CheckName("lock name", c.Name)
	case fsm.Revoke:
		return l.CheckName("lock name", c.Name)
	case fsm.SetData:
		return errors.Join(l.CheckName("lock name", c.Name), l.CheckValue("value", c.Data))
	case fsm.Put:
		return errors.Join(l.CheckName("key", c.Key), l.CheckValue("value", c.Value))
	case fsm.Delete:
		return l.CheckName("key", c.Key)
	case fsm.Txn:
		return l.CheckTxn(c)
	case fsm.Unlock, fsm.Withdraw, fsm.CloseSession, fsm.RevokeSession:
		return nil
	default:
		return fmt.Errorf("%w: %T is not for another server to propose", ErrInvalid, cmd)
	}
}

func (l Limits) checkTTL(ttl time.Duration) error {
	if ttl < time.Second || ttl > l.MaxTTL {
		return fmt.Errorf("%w: TTL %v: must be 1s … Limits.MaxTTL, %v", ErrInvalid, ttl, l.MaxTTL)
	}
	return nil
}
