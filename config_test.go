package coord_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/transport"
)

// sound is a Config that can be started.
func sound() coord.Config {
	return coord.Config{InMemory: true, Listen: "alone:1", Expect: 1, Transport: transport.NewMemory()}
}

func TestConfig_EachBadField(t *testing.T) {
	long := strings.Repeat("x", 129)
	for says, spoil := range map[string]func(*coord.Config){
		`Name = "` + long:                          func(c *coord.Config) { c.Name = long },
		`Name = "a\nb": must be`:                   func(c *coord.Config) { c.Name = "a\nb" },
		`Name = "\xff": must be`:                   func(c *coord.Config) { c.Name = "\xff" },
		`Cell = "` + long:                          func(c *coord.Config) { c.Cell = long },
		`Cell = "\x00": must be`:                   func(c *coord.Config) { c.Cell = "\x00" },
		`LogStore = "b": must be`:                  func(c *coord.Config) { c.LogStore = "b" },
		"Dir is empty":                             func(c *coord.Config) { c.InMemory = false },
		`Dir = "d" with InMemory`:                  func(c *coord.Config) { c.Dir = "d" },
		`Listen = "nonsense": must be host:port`:   func(c *coord.Config) { c.Listen = "nonsense" },
		`Advertise = ":7420": must be`:             func(c *coord.Config) { c.Advertise = ":7420" },
		`Advertise = "a:0": must be`:               func(c *coord.Config) { c.Advertise = "a:0" },
		`Advertise = "a": must be`:                 func(c *coord.Config) { c.Advertise = "a" },
		`Join[1] = "b": must be host:port`:         func(c *coord.Config) { c.Expect, c.Join = 3, []string{"a:1", "b"} },
		"Expect = -1: must be 0 … 32":              func(c *coord.Config) { c.Expect, c.Join = -1, []string{"a:1"} },
		"Expect = 100: must be 0 … 32":             func(c *coord.Config) { c.Expect, c.Join = 100, []string{"a:1"} },
		`Expect = 1 forms a cell alone: Join = ["`: func(c *coord.Config) { c.Join = []string{"a:1"} },
		"Join is empty and Expect = 0":             func(c *coord.Config) { c.Expect = 0 },
		"Join is empty and Expect = 3":             func(c *coord.Config) { c.Expect = 3 },
		"ElectionTimeout = 1ms: must be 50ms … 1m": func(c *coord.Config) { c.ElectionTimeout = time.Millisecond },
		"ElectionTimeout = 1h0m0s: must be":        func(c *coord.Config) { c.ElectionTimeout = time.Hour },
		"Limits.Name = -1: must be 1 … 4096":       func(c *coord.Config) { c.Limits.Name = -1 },
		"Limits.Name = 4097: must be 1 … 4096":     func(c *coord.Config) { c.Limits.Name = 4097 },
		"Limits.Value = 1048577: must be":          func(c *coord.Config) { c.Limits.Value = 1<<20 + 1 },
		"Limits.Txn = 1025: must be 1 … 1024":      func(c *coord.Config) { c.Limits.Txn = 1025 },
		"Limits.List = 1048577: must be":           func(c *coord.Config) { c.Limits.List = 1<<20 + 1 },
		"Limits.MaxTTL = 3s: must be 4s":           func(c *coord.Config) { c.Limits.MaxTTL = 3 * time.Second },
		"Limits.Sessions = -1: must be":            func(c *coord.Config) { c.Limits.Sessions = -1 },
		"Limits.Locks = -1: must be":               func(c *coord.Config) { c.Limits.Locks = -1 },
		"Limits.Keys = -1: must be":                func(c *coord.Config) { c.Limits.Keys = -1 },
		"Limits.Waiters = -1: must be":             func(c *coord.Config) { c.Limits.Waiters = -1 },
		"Limits.HistoryEvents = 15: must be 16":    func(c *coord.Config) { c.Limits.HistoryEvents = 15 },
		"Limits.HistoryBytes = 65535: must be":     func(c *coord.Config) { c.Limits.HistoryBytes = 1<<16 - 1 },
	} {
		cfg := sound()
		spoil(&cfg)
		n, err := coord.Start(t.Context(), cfg)
		if err == nil {
			n.Close()
		}
		if !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
	}
}

func TestConfig_AllBadFieldsAtOnce(t *testing.T) {
	_, err := coord.Start(t.Context(), coord.Config{
		Name: "\n", Cell: "\n", Listen: "l", Advertise: "a", Join: []string{"j"}, Expect: -1, ElectionTimeout: 1,
		Limits: coord.Limits{Name: -1, Value: -1, Txn: -1, List: -1, MaxTTL: -1, Sessions: -1, Locks: -1, Keys: -1, Waiters: -1, HistoryEvents: -1, HistoryBytes: -1},
	})
	for _, field := range []string{
		"Name", "Cell", "Dir", "Listen", "Advertise", "Join[0]", "Expect", "ElectionTimeout", "Limits.Name", "Limits.Value",
		"Limits.Txn", "Limits.List", "Limits.MaxTTL", "Limits.Sessions", "Limits.Locks", "Limits.Keys", "Limits.Waiters",
		"Limits.HistoryEvents", "Limits.HistoryBytes",
	} {
		if !strings.Contains(fmt.Sprint(err), field+" ") {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}

// Start keeps nothing of the caller's Config, and leaves it as it was.
func TestConfig_IsCopied(t *testing.T) {
	inEmptyCell(t, 2, nil, func(t *testing.T, c *cell) {
		cfg := c.config(0)
		before, join := cfg, append([]string(nil), cfg.Join...)
		n, err := coord.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		before.Logger, before.Transport, cfg.Logger, cfg.Transport = nil, nil, nil, nil
		if !reflect.DeepEqual(cfg, before) || !reflect.DeepEqual(cfg.Join, join) {
			t.Errorf("%+v", cfg)
		}
		cfg.Join[0], cfg.Join[1] = "nowhere:1", "nowhere:2" // the caller's own
		time.Sleep(10 * time.Second)
		second := c.config(1)
		second.Join = c.addrs(1) // it is to be found
		other, err := coord.Start(t.Context(), second)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := n.WaitReady(c.within(time.Minute)); err != nil {
			t.Error(err)
		}
	})
}

// Every argument of a call that is bad in some way, and what the error must say of it.
func TestBadInput(t *testing.T) {
	tune := func(_ int, cfg *coord.Config) {
		cfg.Limits = coord.Limits{Name: 10, Value: 20, Txn: 3, List: 5, MaxTTL: time.Minute}
	}
	inTunedCell(t, 1, tune, func(t *testing.T, c *cell) {
		ctx, n, s := c.within(time.Minute), c.nodes[0], c.session(0)
		held := c.lock(s, "held")
		value := make([]byte, 21)
		calls := map[string]func(name string) error{
			"Get":     func(name string) error { return second(n.Get(ctx, name)) },
			"Put":     func(name string) error { return second(n.Put(ctx, name, nil)) },
			"Delete":  func(name string) error { return second(n.Delete(ctx, name)) },
			"Session": func(name string) error { return second(s.Put(ctx, name, nil)) },
			"Txn If": func(name string) error {
				return second(n.Txn(ctx, coord.Txn{If: []coord.Condition{coord.KeyAbsent(name)}}))
			},
			"Txn Then": func(name string) error {
				return second(n.Txn(ctx, coord.Txn{Then: []coord.Op{coord.OpPut(name, nil)}}))
			},
			"Txn Else": func(name string) error { return second(n.Txn(ctx, coord.Txn{Else: []coord.Op{coord.OpGet(name)}})) },
			"Watch":    func(name string) error { return second(n.Watch(ctx, name)) },
			"Lock":     func(name string) error { return second(s.Lock(ctx, name)) },
			"TryLock":  func(name string) error { return second(s.TryLock(ctx, name)) },
			"Campaign": func(name string) error { return second(s.Campaign(ctx, name, nil)) },
			"Leader":   func(name string) error { return second(n.Leader(ctx, name)) },
			"Observe":  func(name string) error { return second(n.Observe(ctx, name)) },
			"Lookup":   func(name string) error { return second(n.Lookup(ctx, name)) },
		}
		for what, call := range calls {
			want(t, what+", empty", call(""), coord.ErrInvalid, "is empty")
			want(t, what+", no UTF-8", call("a\xff"), coord.ErrInvalid, `"a\xff" is not UTF-8`)
			want(t, what+", zero byte", call("a\x00"), coord.ErrInvalid, `"a\x00" contains a zero byte`)
			want(t, what+", too long", call("0123456789a"), coord.ErrTooLarge, "of 11 bytes: at most Limits.Name, 10")
		}
		tooLarge := "of 21 bytes: at most Limits.Value, 20"
		want(t, "Put", second(n.Put(ctx, "a", value)), coord.ErrTooLarge, tooLarge)
		want(t, "Session.Put", second(s.Put(ctx, "a", value)), coord.ErrTooLarge, tooLarge)
		want(t, "Txn", second(n.Txn(ctx, coord.Txn{Then: []coord.Op{coord.OpPut("a", value)}})), coord.ErrTooLarge, tooLarge)
		want(t, "ValueIs", second(n.Txn(ctx, coord.Txn{If: []coord.Condition{coord.ValueIs("a", value)}})), coord.ErrTooLarge, tooLarge)
		want(t, "WithData", second(s.Lock(ctx, "a", coord.WithData(value))), coord.ErrTooLarge, tooLarge)
		want(t, "Campaign", second(s.Campaign(ctx, "a", value)), coord.ErrTooLarge, tooLarge)
		four := []coord.Op{coord.OpGet("a"), coord.OpGet("a"), coord.OpGet("a"), coord.OpGet("a")}
		want(t, "Txn", second(n.Txn(ctx, coord.Txn{Then: four})), coord.ErrLimit, "4 in Then: at most Limits.Txn, 3")
		want(t, "Txn", second(n.Txn(ctx, coord.Txn{})), coord.ErrInvalid, "without conditions and operations")
		want(t, "Txn", second(n.Txn(ctx, coord.Txn{If: []coord.Condition{{}}})), coord.ErrInvalid, "If[0] is not a condition")
		want(t, "Txn", second(n.Txn(ctx, coord.Txn{Else: []coord.Op{coord.OpGet("a"), {}}})), coord.ErrInvalid, "Else[1] is not an operation")
		want(t, "List", second(n.List(ctx, "a", coord.WithLimit(6))), coord.ErrLimit, "WithLimit(6): must be 0 … Limits.List, 5")
		want(t, "List", second(n.List(ctx, "a", coord.WithLimit(-1))), coord.ErrInvalid, "WithLimit(-1): must be 0 … 5")
		want(t, "List", second(n.List(ctx, "0123456789a")), coord.ErrTooLarge, "prefix of 11 bytes")
		want(t, "List", second(n.List(ctx, "", coord.WithAfter("\xff"))), coord.ErrInvalid, "WithAfter")
		want(t, "Get", second(n.Get(ctx, "a", coord.WithLimit(1))), coord.ErrInvalid, "are for List")
		for _, ttl := range []time.Duration{-1, 999 * time.Millisecond, time.Minute + 1} {
			err := second(n.NewSession(ctx, coord.WithTTL(ttl)))
			want(t, fmt.Sprint("TTL ", ttl), err, coord.ErrInvalid, ttl.String()+": must be 1s")
			want(t, fmt.Sprint("TTL ", ttl), err, coord.ErrInvalid, "Limits.MaxTTL, 1m0s")
		}
		want(t, "label", second(n.NewSession(ctx, coord.WithLabel("0123456789a"))), coord.ErrTooLarge, "label of 11 bytes")
		want(t, "label", second(n.NewSession(ctx, coord.WithLabel("\xff"))), coord.ErrInvalid, "label")
		want(t, "transfer", n.TransferLeadership(ctx, "nobody"), coord.ErrInvalid, `"nobody"`)
		if err := held.Check(); err != nil {
			t.Errorf("something of value was lost: %v", err)
		}
	})
}

// want checks an error's kind and that it names what is bad.
func want(t *testing.T, what string, err, kind error, says string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "coord: ") {
		t.Errorf("%s: %v, want %v … %s", what, err, kind, says)
	}
}

// What the cell as a whole may hold.
func TestLimits_OfTheCell(t *testing.T) {
	tune := func(_ int, cfg *coord.Config) {
		cfg.Limits = coord.Limits{Sessions: 3, Locks: 2, Keys: 4, Waiters: 1}
	}
	inTunedCell(t, 3, tune, func(t *testing.T, c *cell) {
		ctx := c.within(time.Minute)
		a, b, d := c.session(0), c.session(1), c.session(2)
		want(t, "a fourth session", second(c.nodes[0].NewSession(ctx)), coord.ErrLimit, "Limits.Sessions, 3")
		c.lock(a, "x")
		y := c.lock(a, "y")
		want(t, "a third lock", second(b.Lock(ctx, "z")), coord.ErrLimit, "Limits.Locks, 2")
		short, cancel := context2s(t)
		defer cancel()
		waiting := c.acquire(short, b, "x")
		time.Sleep(100 * time.Millisecond)
		want(t, "a second waiter", second(d.Lock(ctx, "x")), coord.ErrLimit, "Limits.Waiters, 1")
		if g := <-waiting; g.err == nil {
			t.Error("granted twice")
		}
		for i := range 4 {
			c.mustPut(i%3, fmt.Sprint("k", i), "x")
		}
		want(t, "a fifth key", second(c.nodes[0].Put(ctx, "k4", nil)), coord.ErrLimit, "Limits.Keys, 4")
		c.mustPut(0, "k3", "overwritten")
		_, err := c.nodes[0].Txn(ctx, coord.Txn{Then: []coord.Op{coord.OpDelete("k0"), coord.OpPut("k5", nil), coord.OpPut("k6", nil)}})
		want(t, "a Txn with one too many", err, coord.ErrLimit, "Limits.Keys, 4")
		if kv, err := c.nodes[1].Get(ctx, "k0"); err != nil {
			t.Errorf("a Txn was performed in part: %+v, %v", kv, err)
		}
		if err := y.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		c.lock(b, "z")
		if err := a.Close(ctx); err != nil {
			t.Fatal(err)
		}
		c.session(0)
	})
}

// Every call of a closed node says so, and none hangs.
func TestG12_ClosedNode(t *testing.T) {
	inCell(t, 1, func(t *testing.T, c *cell) {
		n, s := c.nodes[0], c.session(0)
		l := c.lock(s, "x")
		for range 2 {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
		ctx := t.Context()
		for what, err := range map[string]error{
			"Err": n.Err(), "WaitReady": n.WaitReady(ctx), "Get": second(n.Get(ctx, "a")), "stale": second(n.Get(ctx, "a", coord.Stale())),
			"List": second(n.List(ctx, "a")), "Put": second(n.Put(ctx, "a", nil)), "Delete": second(n.Delete(ctx, "a")),
			"Txn": second(n.Txn(ctx, coord.Txn{Then: []coord.Op{coord.OpGet("a")}})), "Watch": second(n.Watch(ctx, "a")),
			"NewSession": second(n.NewSession(ctx)), "Lookup": second(n.Lookup(ctx, "a")), "Leader": second(n.Leader(ctx, "a")),
			"Observe": second(n.Observe(ctx, "a")), "Transfer": n.TransferLeadership(ctx, ""), "Session": s.Err(),
			"Session.Put": second(s.Put(ctx, "a", nil)), "Lock": second(s.Lock(ctx, "a")), "Check": l.Check(), "Lock.Err": l.Err(),
		} {
			if !errors.Is(err, coord.ErrClosed) {
				t.Errorf("%s: %v, want ErrClosed", what, err)
			}
		}
		if err := n.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		_, _, _ = n.Status(), n.Members(), n.Name()
	})
}
