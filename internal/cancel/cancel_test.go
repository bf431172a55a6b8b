package cancel

import (
	"context"
	"errors"
	"testing"
)

func TestReason(t *testing.T) {
	if err := Reason(t.Context()); err != nil {
		t.Errorf("of a context that has not ended: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Reason(ctx); err != context.Canceled {
		t.Errorf("without a cause: %v", err)
	}
	mine := errors.New("mine")
	ctx, because := context.WithCancelCause(t.Context())
	because(mine)
	if err := Reason(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, mine) {
		t.Errorf("with a cause: %v", err)
	}
}
