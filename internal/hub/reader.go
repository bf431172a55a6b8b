package hub

import (
	"context"
	"time"

	"github.com/coordcell/coord/fsm"
)

// Reader is a stream of batches that is pulled: a Cursor, or one that reads at another node. See Cursor.
type Reader interface {
	Next() (*Batch, error)
	Closed() bool
	Close()
	Age() time.Duration // of the last proof of a leader: what was returned was complete then
}

// LockReader follows one lock: an Observer, or one that reads at another node. See Observer.
type LockReader interface {
	Next(ctx context.Context, changed func(before, after fsm.LockView) bool) (fsm.LockView, error)
	Close()
}

// Age is that of the server's last proof of a leader.
func (c *Cursor) Age() time.Duration { return c.hub.cfg.Fresh() }
