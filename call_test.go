package coord_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// What the operations of a Txn return is bounded before anything is performed: the answer has to fit a message.
func TestG7_TxnThatReturnsTooMuch(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		n := c.nodes[c.others(c.leader())[0]]
		ctx := c.within(time.Minute)
		large := bytes.Repeat([]byte{'x'}, 64<<10)
		txn := coord.Txn{Then: []coord.Op{coord.OpPut("marker", nil)}}
		for i := range 40 {
			key := fmt.Sprint("large", i)
			if _, err := n.Put(ctx, key, large); err != nil {
				t.Fatal(err)
			}
			txn.Then = append(txn.Then, coord.OpGet(key))
		}
		if _, err := n.Txn(ctx, txn); !errors.Is(err, coord.ErrTooLarge) {
			t.Errorf("2.5 MiB: %v", err)
		}
		if _, err := n.Get(ctx, "marker"); !errors.Is(err, coord.ErrKeyNotFound) {
			t.Errorf("it was performed all the same: %v", err)
		}
		txn.Then = txn.Then[:31]
		if r, err := n.Txn(ctx, txn); err != nil || len(r.Results) != 31 {
			t.Errorf("just below 2 MiB: %d results, %v", len(r.Results), err)
		}
	})
}

// A change may be on its way for longer than the call that made it. What it carries is not the caller's any more.
func TestChangeKeepsWhatItWasGiven(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		n := c.nodes[leader]
		c.mustPut(leader, "warm", "up")
		for _, i := range c.others(leader) {
			c.lab.SetDelay(c.addr(leader), c.addr(i), 50*time.Millisecond)
		}
		var fill sync.WaitGroup
		for i := range 2 { // entries that are being written: what follows waits
			fill.Go(func() { c.mustPut(leader, fmt.Sprint("fill", i), "") })
			time.Sleep(time.Millisecond)
		}
		value := []byte("as it was")
		if _, err := n.Put(c.within(10*time.Millisecond), "k", value); !errors.Is(err, coord.ErrOutcomeUnknown) {
			t.Fatalf("Put: %v", err)
		}
		copy(value, "AS IT IS ")
		fill.Wait()
		time.Sleep(time.Second)
		kv, err := n.Get(c.within(time.Minute), "k")
		if err != nil || string(kv.Value) != "as it was" {
			t.Errorf("%q, %v", kv.Value, err)
		}
	})
}

// The label of a node's own session is its name, which no limit of names concerns.
func TestLimits_ShortNames(t *testing.T) {
	short := func(i int, cfg *coord.Config) { cfg.Limits.Name = 4; cfg.Name = fmt.Sprint("a long name ", i) }
	inTunedCell(t, 3, short, func(t *testing.T, c *cell) {
		for i := range c.nodes {
			c.mustPut(i, "k", "v")
		}
	})
}

func TestTransferLeadership_ToNobody(t *testing.T) {
	inCell(t, 1, func(t *testing.T, c *cell) {
		if err := c.nodes[0].TransferLeadership(t.Context(), ""); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("alone: %v", err)
		}
	})
}

func TestTransferLeadership_ToADeadServer(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		dead := c.others(leader)[0]
		id := c.nodes[dead].ID()
		c.kill(dead)
		for i := range c.nodes {
			if i == dead {
				continue
			}
			began := time.Now()
			err := c.nodes[i].TransferLeadership(t.Context(), id)
			if err == nil || errors.Is(err, coord.ErrNoLeader) || time.Since(began) > 10*election {
				t.Errorf("to a dead server, from server %d: %v after %v", i, err, time.Since(began))
			}
		}
	})
}

// A context that ends while somebody leads ends a call with its own error, and with the cause that it was given.
func TestErrorsOfTheContext(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		mine := errors.New("mine")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(mine)
		n, s := c.nodes[c.others(c.leader())[0]], c.session(0)
		for name, call := range map[string]func() error{
			"Get":        func() error { _, err := n.Get(ctx, "k"); return err },
			"List":       func() error { _, err := n.List(ctx, "k"); return err },
			"Lookup":     func() error { _, err := n.Lookup(ctx, "k"); return err },
			"Leader":     func() error { _, err := n.Leader(ctx, "k"); return err },
			"Watch":      func() error { _, err := n.Watch(ctx, "k"); return err },
			"Observe":    func() error { _, err := n.Observe(ctx, "k"); return err },
			"Put":        func() error { _, err := n.Put(ctx, "k", nil); return err },
			"NewSession": func() error { _, err := n.NewSession(ctx); return err },
			"Lock":       func() error { _, err := s.Lock(ctx, "k"); return err },
			"Transfer":   func() error { return n.TransferLeadership(ctx, "") },
			"WaitReady":  func() error { return n.WaitReady(ctx) },
		} {
			err := call()
			if !errors.Is(err, context.Canceled) || !errors.Is(err, mine) || errors.Is(err, coord.ErrNoLeader) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Calls that name no session know of no limit of one.
func TestManyCallsWithoutASession(t *testing.T) {
	inCell(t, 1, func(t *testing.T, c *cell) {
		var calls sync.WaitGroup
		for i := range 6000 {
			calls.Go(func() {
				if _, err := c.nodes[0].Put(c.t.Context(), fmt.Sprint("k", i%10), nil); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	})
}

// That others are ahead can only be said by somebody who leads.
func TestMaxWait_WithoutALeader(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		s := c.session(leader, coord.WithTTL(time.Minute))
		for _, i := range c.others(leader) {
			c.kill(i)
		}
		for _, settle := range []time.Duration{0, 10 * election} { // it still leads; it leads no more
			time.Sleep(settle)
			_, err := s.Lock(t.Context(), "free", coord.WithMaxWait(time.Second))
			if !errors.Is(err, coord.ErrNoLeader) || errors.Is(err, coord.ErrLocked) {
				t.Errorf("after %v: %v", settle, err)
			}
		}
	})
}

// What lies in the log before a node has caught up is no news.
func TestHooks_BeginWithThePresent(t *testing.T) {
	var mu sync.Mutex
	var told []coord.Token
	hooks := func(_ int, cfg *coord.Config) {
		cfg.Hooks.Granted = func(g coord.GrantInfo) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, g.Token)
		}
	}
	taken := func() []coord.Token {
		mu.Lock()
		defer mu.Unlock()
		out := told
		told = nil
		return out
	}
	inTunedCell(t, 1, hooks, func(t *testing.T, c *cell) {
		s := c.session(0)
		old := c.lock(s, "old")
		time.Sleep(time.Second)
		if got := taken(); len(got) != 1 || got[0] != old.Token() {
			t.Fatalf("told of %v", got)
		}
		c.kill(0)
		c.start(0)
		c.ready()
		l := c.lock(c.session(0), "new")
		time.Sleep(time.Second)
		if got := taken(); len(got) != 1 || got[0] != l.Token() {
			t.Errorf("told of %v, want %v", got, l.Token())
		}
	})
}

// The default TTL fits whatever the bounds are.
func TestDefaultTTL_FitsTheBounds(t *testing.T) {
	slow := func(_ int, cfg *coord.Config) { cfg.ElectionTimeout = 3 * time.Second }
	inTunedCell(t, 1, slow, func(t *testing.T, c *cell) {
		s, err := c.nodes[0].NewSession(c.within(time.Minute))
		if err != nil || s.TTL() != 12*time.Second {
			t.Errorf("%v, %v", s.TTL(), err)
		}
	})
}
