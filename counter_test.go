package coord_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/coordcell/coord"
)

// counter increments the key "n" from every server, and counts what it was told.
type counter struct {
	c *cell

	mu            sync.Mutex
	done, unknown int
}

func number(b []byte) int { return int(binary.BigEndian.Uint16(b)) }

// run increments until stop is called.
func (k *counter) run(workers int) (stop func()) {
	ctx, cancel := context.WithCancel(k.c.t.Context())
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				if n := k.c.node(i % k.c.size); n != nil {
					k.increment(n, []time.Duration{20 * time.Second, 5 * time.Millisecond}[i%2])
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// increment reads the number and writes the next one, if it is still the same then. It tries no longer than most.
func (k *counter) increment(n *coord.Node, most time.Duration) {
	ctx := k.c.within(most)
	kv, err := n.Get(ctx, "n", coord.Stale())
	if err != nil {
		return
	}
	next := binary.BigEndian.AppendUint16(nil, uint16(number(kv.Value)+1))
	res, err := n.Txn(ctx, coord.Txn{
		If:   []coord.Condition{coord.ValueIs("n", kv.Value)},
		Then: []coord.Op{coord.OpPut("n", next)},
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil && res.Succeeded:
		k.done++
	case errors.Is(err, coord.ErrOutcomeUnknown):
		k.unknown++
	case err != nil && !errors.Is(err, coord.ErrClosed) && !errors.Is(err, context.DeadlineExceeded):
		k.c.t.Errorf("increment: %v", err)
	}
}
