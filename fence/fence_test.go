package fence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/coordcell/coord/fence"
	"github.com/coordcell/coord/fence/fencetest"
)

func TestTokenText(t *testing.T) {
	for _, token := range []fence.Token{0, 1, 42, 1 << 53, 1<<64 - 1} {
		text, err := token.MarshalText()
		if err != nil || string(text) != token.String() {
			t.Fatalf("MarshalText(%d) = %q, %v", token, text, err)
		}
		var back fence.Token
		if err := back.UnmarshalText(text); err != nil || back != token {
			t.Fatalf("UnmarshalText(%q) = %d, %v", text, back, err)
		}
	}
	for _, bad := range []string{"", "-1", "+1", "0x10", "1_000", " 1", "1.0", "18446744073709551616"} {
		token := fence.Token(7)
		if err := token.UnmarshalText([]byte(bad)); err == nil || token != 7 {
			t.Errorf("UnmarshalText(%q) = %d, %v; want an error and the value kept", bad, token, err)
		}
	}
	if b, err := json.Marshal(map[string]fence.Token{"token": 1<<64 - 1}); err != nil || string(b) != `{"token":"18446744073709551615"}` {
		t.Errorf("JSON: %s, %v", b, err)
	}
}

func TestStaleError(t *testing.T) {
	want := fence.StaleError{Resource: "r", Got: 3, Highest: 5}
	for _, err := range []error{want, &want, fmt.Errorf("write: %w", &want), fmt.Errorf("write: %w", want)} {
		var value fence.StaleError
		var pointer *fence.StaleError
		if !errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrNoToken) {
			t.Errorf("%v: is not ErrStale alone", err)
		}
		if !errors.As(err, &value) || value != want {
			t.Errorf("%v: As a StaleError gave %+v", err, value)
		}
		if !errors.As(err, &pointer) || *pointer != want {
			t.Errorf("%v: As a *StaleError gave %+v", err, pointer)
		}
		var other *json.SyntaxError
		if errors.As(err, &other) {
			t.Errorf("%v: As a foreign error", err)
		}
	}
}

func TestMemory(t *testing.T) {
	fencetest.Run(t, func(*testing.T) (fence.Guard, func() fence.Guard) { return fence.NewMemory(), nil })
}

// A write that failed may have taken effect in part, and nobody can undo it in memory.
func TestG4_MemoryKeepsTheTokenOfAFailedWrite(t *testing.T) {
	m := fence.NewMemory()
	failure := errors.New("half done")
	if err := m.Do(t.Context(), "r", 6, func(context.Context) error { return failure }); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	err := m.Do(t.Context(), "r", 5, func(context.Context) error { return nil })
	if !errors.Is(err, fence.ErrStale) {
		t.Fatalf("token 5 after a failed write with 6: %v, want ErrStale", err)
	}
}

func TestMemoryResourcesDoNotWaitForEachOther(t *testing.T) {
	m := fence.NewMemory()
	err := m.Do(t.Context(), "a", 1, func(ctx context.Context) error {
		return m.Do(ctx, "b", 1, func(context.Context) error { return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
}
