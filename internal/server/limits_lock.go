package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/coordcell/coord/fsm"
)

// CheckLock names everything that is wrong with a Lock, with all that it asks for, but for what depends on the TTL of its
// session.
func (l Limits) CheckLock(c fsm.Lock) error {
	errs := []error{l.CheckName("lock name", c.Name), l.CheckValue("data", c.Data)}
	if c.Terms != nil {
		errs = append(errs, l.checkTerms(c.Name, c.Terms))
	}
	return errors.Join(errs...)
}

func (l Limits) checkTerms(first string, t *fsm.Terms) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if n := 1 + len(t.More); n > fsm.MaxNames {
		bad("%d names: at most %d", n, fsm.MaxNames)
	}
	seen := map[string]bool{first: true}
	for _, name := range t.More {
		if err := l.CheckName("lock name", name); err != nil {
			errs = append(errs, err)
		}
		if seen[name] {
			bad("%q is named twice", name)
		}
		seen[name] = true
	}
	ttl, delay := time.Duration(t.TTL), time.Duration(t.Delay)
	if t.Slots < 0 || t.Slots > fsm.MaxSlots {
		bad("Slots(%d): must be 1 … %d", t.Slots, fsm.MaxSlots)
	}
	if t.Shared && t.Slots > 0 {
		bad("Shared with Slots(%d): choose one", t.Slots)
	}
	if ttl != 0 && (ttl < time.Second || ttl > l.MaxTTL) {
		bad("WithLockTTL(%v): must be 1s … the session's TTL", ttl)
	}
	if delay < 0 || delay > l.MaxTTL {
		bad("WithLockDelay(%v): must be 0 … Limits.MaxTTL, %v", delay, l.MaxTTL)
	}
	if n := len(t.Holding); n > fsm.MaxHolding {
		bad("%d locks held meanwhile: at most %d", n, fsm.MaxHolding)
	}
	for _, g := range t.Holding {
		if err := l.CheckName("name of a lock held meanwhile", g.Name); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}
