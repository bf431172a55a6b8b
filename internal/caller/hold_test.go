package caller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/internal/lease"
)

// A grant that arrives while its session is suspended waits: it is handed out when the session lives again, and not
// when it ends or the caller goes.
func TestG3_AGrantToASuspendedSessionWaits(t *testing.T) {
	for name, then := range map[string]struct {
		do   func(x *Session, now time.Duration, leave func())
		want error
	}{
		"until it lives": {func(x *Session, now time.Duration, _ func()) { x.lease.Renewed(now) }, nil},
		"until it ends":  {func(x *Session, _ time.Duration, _ func()) { x.lease.End(ErrSessionExpired) }, ErrSessionExpired},
		"until ctx ends": {func(_ *Session, _ time.Duration, leave func()) { leave() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				now := func() time.Duration { return time.Since(start) }
				x := &Session{lease: lease.New(time.Second, time.Minute, now, now())}
				defer x.lease.End(ErrSessionClosed)
				time.Sleep(2 * time.Second)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				var hold *lease.Hold
				var err error
				done := make(chan struct{})
				go func() {
					defer close(done)
					hold, err = x.Hold(ctx)
				}()
				synctest.Wait()
				select {
				case <-done:
					t.Fatalf("handed out to a suspended session: %v", err)
				default:
				}
				then.do(x, now(), leave)
				<-done
				if !errors.Is(err, then.want) || then.want == nil && hold.Check() != nil {
					t.Errorf("error %v, want %v", err, then.want)
				}
			})
		})
	}
}
