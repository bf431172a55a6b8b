package server

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coordcell/coord/fsm"
)

func TestDefaultLimitsAreValid(t *testing.T) {
	l := Limits{}.WithDefaults()
	if err := l.Validate(time.Second); err != nil {
		t.Error(err)
	}
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s has no default", v.Type().Field(i).Name)
		}
	}
	if own := (Limits{Name: 3, MaxTTL: time.Hour}).WithDefaults(); own.Name != 3 || own.MaxTTL != time.Hour {
		t.Errorf("defaults replace what is given: %+v", own)
	}
}

func TestEveryLimitHasBounds(t *testing.T) {
	for i := range reflect.TypeFor[Limits]().NumField() {
		for _, bad := range []int64{-1, math.MaxInt32 + 1} {
			l := Limits{}.WithDefaults()
			field := reflect.TypeFor[Limits]().Field(i)
			if field.Name == "MaxTTL" && bad > 0 {
				bad = int64(366 * 24 * time.Hour)
			}
			if field.Type.Bits() == 32 && bad > math.MaxInt32 {
				bad = math.MaxInt32 // where int has 32 bits
			}
			reflect.ValueOf(&l).Elem().Field(i).SetInt(bad)
			if err := l.Validate(time.Second); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "Limits."+field.Name) {
				t.Errorf("%s = %d: %v", field.Name, bad, err)
			}
		}
	}
	l := Limits{}.WithDefaults()
	l.Name, l.MaxTTL = mostName+1, time.Second
	if err := l.Validate(4 * time.Second); err == nil || !strings.Contains(err.Error(), "Name") || !strings.Contains(err.Error(), "MaxTTL") {
		t.Errorf("of two wrong fields: %v", err)
	}
}

// Another server has its own limits; the leader's count.
func TestTheLeaderChecksWhatOthersPropose(t *testing.T) {
	l := Limits{Name: 4, Value: 4, Txn: 2, MaxTTL: time.Minute}.WithDefaults()
	const ttl = int64(10 * time.Second)
	long, large := "12345", make([]byte, 5)
	put := fsm.Op{Kind: fsm.OpPut, Key: "k"}
	for _, c := range []struct {
		cmd  fsm.Command
		want error
	}{
		{fsm.OpenSession{TTL: ttl, Label: "1234"}, nil},
		{fsm.OpenSession{TTL: ttl, Label: long}, ErrTooLarge},
		{fsm.OpenSession{TTL: ttl, Label: long, Internal: true}, nil},
		{fsm.OpenSession{TTL: int64(time.Hour)}, ErrInvalid},
		{fsm.OpenSession{TTL: 1}, ErrInvalid},
		{fsm.Lock{Name: "n", Data: large[:4]}, nil},
		{fsm.Lock{}, ErrInvalid},
		{fsm.Lock{Name: "a\x00b"}, ErrInvalid},
		{fsm.Lock{Name: "\xff"}, ErrInvalid},
		{fsm.Lock{Name: "n", Data: large}, ErrTooLarge},
		{fsm.SetData{Name: "n", Data: large}, ErrTooLarge},
		{fsm.Put{Key: long}, ErrTooLarge},
		{fsm.Put{Key: "k", Value: large}, ErrTooLarge},
		{fsm.Delete{}, ErrInvalid},
		{fsm.Txn{}, ErrInvalid},
		{fsm.Txn{Then: []fsm.Op{put}, Else: []fsm.Op{put}}, nil},
		{fsm.Txn{Then: []fsm.Op{put, put}, Else: []fsm.Op{put, put}}, nil},
		{fsm.Txn{Then: []fsm.Op{put, put, put}}, ErrLimit},
		{fsm.Txn{Then: []fsm.Op{{Kind: 99, Key: "k"}}}, ErrInvalid},
		{fsm.Txn{If: []fsm.Condition{{Kind: fsm.ValueIs, Key: "k", Value: large}}}, ErrTooLarge},
		{fsm.Unlock{Name: "n"}, nil},
		{fsm.Withdraw{}, nil},
		{fsm.CloseSession{}, nil},
		{fsm.Expire{Sessions: []fsm.SessionID{1}}, ErrInvalid}, // the leader's own to decide
		{fsm.TermStart{}, ErrInvalid},
		{fsm.RemoveMember{ID: "id"}, ErrInvalid},
	} {
		if err := l.checkCommand(c.cmd); !errors.Is(err, c.want) {
			t.Errorf("%T%+v: %v, want %v", c.cmd, c.cmd, err, c.want)
		}
	}
}
