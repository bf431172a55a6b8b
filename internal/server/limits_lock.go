package server

import (
	"fmt"
	"slices"
	"time"

	"github.com/coordcell/coord/fsm"
)

// CheckLock checks a Lock with all that it asks for, but for what depends on the TTL of its session.
func (l Limits) CheckLock(c fsm.Lock) error {
	if err := l.CheckName("lock name", c.Name); err != nil {
		return err
	}
	if err := l.CheckValue("data", c.Data); err != nil {
		return err
	}
	if c.Terms == nil {
		return nil
	}
	return l.checkTerms(c.Name, c.Terms)
}

func (l Limits) checkTerms(first string, t *fsm.Terms) error {
	if n := 1 + len(t.More); n > fsm.MaxNames {
		return fmt.Errorf("%w: %d names: at most %d", ErrInvalid, n, fsm.MaxNames)
	}
	seen := map[string]bool{first: true}
	for _, name := range t.More {
		if err := l.CheckName("lock name", name); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("%w: the name %q twice", ErrInvalid, name)
		}
		seen[name] = true
	}
	switch ttl, delay := time.Duration(t.TTL), time.Duration(t.Delay); {
	case t.Slots < 0 || t.Slots > fsm.MaxSlots:
		return fmt.Errorf("%w: %d slots: must be 1 … %d", ErrInvalid, t.Slots, fsm.MaxSlots)
	case t.Shared && t.Slots > 0:
		return fmt.Errorf("%w: readers have no slots", ErrInvalid)
	case ttl != 0 && (ttl < time.Second || ttl > l.MaxTTL):
		return fmt.Errorf("%w: lock TTL %v: must be 1s … the TTL of its session", ErrInvalid, ttl)
	case delay < 0 || delay > l.MaxTTL:
		return fmt.Errorf("%w: lock delay %v: must be 0 … Limits.MaxTTL, %v", ErrInvalid, delay, l.MaxTTL)
	case len(t.Holding) > fsm.MaxHolding:
		return fmt.Errorf("%w: %d locks held meanwhile: at most %d", ErrInvalid, len(t.Holding), fsm.MaxHolding)
	}
	if i := slices.IndexFunc(t.Holding, func(g fsm.GrantID) bool { return l.CheckName("", g.Name) != nil }); i >= 0 {
		return l.CheckName("name of a lock held meanwhile", t.Holding[i].Name)
	}
	return nil
}
