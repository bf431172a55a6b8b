// Package cancel says why a context has ended.
package cancel

import (
	"context"
	"fmt"
)

// Reason is the error of a context that has ended: context.Canceled or context.DeadlineExceeded, which callers test for,
// together with the cause that it was given, if there is one.
func Reason(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || cause == err {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
