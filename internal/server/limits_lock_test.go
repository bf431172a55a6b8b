package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coordcell/coord/fsm"
)

func TestLimitsOfALock(t *testing.T) {
	l := Limits{}.WithDefaults()
	names := func(n int) (more []string) {
		for i := range n {
			more = append(more, fmt.Sprint("name", i))
		}
		return more
	}
	for what, test := range map[string]struct {
		terms fsm.Terms
		want  error
	}{
		"64 names":         {fsm.Terms{More: names(fsm.MaxNames - 1)}, nil},
		"65 names":         {fsm.Terms{More: names(fsm.MaxNames)}, ErrInvalid},
		"an empty name":    {fsm.Terms{More: []string{""}}, ErrInvalid},
		"a name twice":     {fsm.Terms{More: []string{"b", "x"}}, ErrInvalid},
		"a long name":      {fsm.Terms{More: []string{strings.Repeat("n", l.Name+1)}}, ErrTooLarge},
		"a slot":           {fsm.Terms{Slots: fsm.MaxSlots}, nil},
		"too many slots":   {fsm.Terms{Slots: fsm.MaxSlots + 1}, ErrInvalid},
		"negative slots":   {fsm.Terms{Slots: -1}, ErrInvalid},
		"readers in slots": {fsm.Terms{Shared: true, Slots: 2}, ErrInvalid},
		"a lease":          {fsm.Terms{TTL: 1e9}, nil},
		"a short lease":    {fsm.Terms{TTL: 1e9 - 1}, ErrInvalid},
		"a long lease":     {fsm.Terms{TTL: int64(l.MaxTTL) + 1}, ErrInvalid},
		"a delay":          {fsm.Terms{Delay: int64(l.MaxTTL)}, nil},
		"a long delay":     {fsm.Terms{Delay: int64(l.MaxTTL) + 1}, ErrInvalid},
		"a negative delay": {fsm.Terms{Delay: -1}, ErrInvalid},
		"much held":        {fsm.Terms{Holding: make([]fsm.GrantID, fsm.MaxHolding+1)}, ErrInvalid},
		"nothing held":     {fsm.Terms{Holding: make([]fsm.GrantID, 1)}, ErrInvalid},
	} {
		err := l.checkCommand(fsm.Lock{Name: "x", Terms: &test.terms})
		if test.want == nil && err != nil || !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", what, err, test.want)
		}
	}
	for _, cmd := range []fsm.Command{fsm.HandOver{}, fsm.Revoke{}, fsm.FinishRevoke{}, fsm.ExpireGrants{}, fsm.EndDelay{}, fsm.SetFormat{}} {
		if err := l.checkCommand(cmd); !errors.Is(err, ErrInvalid) {
			t.Errorf("%T: %v", cmd, err)
		}
	}
	for _, cmd := range []fsm.Command{fsm.HandOver{Name: "x"}, fsm.Revoke{Name: "x"}, fsm.RevokeSession{Target: 1}} {
		if _, change := keyOf(cmd); l.checkCommand(cmd) != nil || !change {
			t.Errorf("%T: %v, a change: %v", cmd, l.checkCommand(cmd), change)
		}
	}
}
