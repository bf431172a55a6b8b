package work

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordcell/coord"

	"github.com/coordcell/coord/bench/internal/coordcell"
	"github.com/coordcell/coord/bench/internal/peer"
)

// alone is a cell of one server in memory, in this process.
type alone struct {
	*coord.Node
	kills atomic.Int64
}

func newAlone(t *testing.T) *alone {
	t.Helper()
	node, err := coord.Start(t.Context(), coord.Config{
		InMemory: true, Listen: "127.0.0.1:0", Expect: 1, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	if err := node.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &alone{Node: node}
}

func (*alone) Spec() string                             { return "" }
func (*alone) PIDs() []int                              { return []int{os.Getpid()} }
func (*alone) Leader(context.Context) (int, int, error) { return 0, os.Getpid(), nil }
func (*alone) Restart(context.Context, int) error       { return nil }
func (*alone) Stop()                                    {}
func (a *alone) Kill(int) error                         { a.kills.Add(1); return nil }
func (a *alone) Client(context.Context) (peer.Client, error) {
	return coordcell.NewClient(a.Node), nil
}

// Every workload records each metric that it declares, and no other.
func TestWorkloads(t *testing.T) {
	sizes := Sizes{
		Window: 50 * time.Millisecond, Callers: []int{1, 8}, Waiters: 5, Readers: 4, Watchers: []int{3}, Puts: 4,
		Held: 300, HeldTime: 10 * time.Second, Kills: 2, Sessions: 10, TTL: 4 * time.Second,
	}
	for _, w := range All() {
		if w.Name == "sessions" { // needs a process of its own: TestHold, TestDepartures
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			cell := newAlone(t)
			ctx, cancel := context.WithTimeout(t.Context(), w.Limit)
			defer cancel()
			got := make(map[string]int)
			e := &Env{Cell: cell, Sizes: sizes, Began: time.Now(), Usage: func(Usage) {}, Record: func(metric string, value float64) {
				got[metric]++
				if value <= 0 && !strings.Contains(metric, "memory") {
					t.Errorf("%s is %v", metric, value)
				}
			}}
			if err := w.Run(ctx, e); err != nil {
				t.Fatal(err)
			}
			for _, m := range w.Metrics(sizes) {
				if want := map[bool]int{true: sizes.Kills, false: 1}[w.Name == "failover"]; got[m.Name] != want {
					t.Errorf("%s: recorded %d times", m.Name, got[m.Name])
				}
				delete(got, m.Name)
			}
			if len(got) > 0 {
				t.Errorf("recorded but not declared: %v", got)
			}
			if s := cell.Status(); w.Name == "held" && s.Locks != sizes.Held {
				t.Errorf("%d locks are held, want %d", s.Locks, sizes.Held)
			}
		})
	}
}

// The process that holds sessions does as it is told, line by line.
func TestHold(t *testing.T) {
	cell := newAlone(t)
	in, orders := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Hold(t.Context(), cell, in, out) }()
	ask := func(order string) string {
		t.Helper()
		if _, err := io.WriteString(orders, order+"\n"); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 200)
		n, err := answers.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(line[:n]))
	}
	if got := ask("open 7 4"); got != "ok" {
		t.Errorf("open: %s", got)
	}
	if got := cell.Status().Sessions; got != 7 {
		t.Errorf("%d sessions are open, want 7", got)
	}
	if got := ask("keys"); got != "ok" {
		t.Errorf("keys: %s", got)
	}
	if l, err := cell.List(t.Context(), "eph/"); err != nil || len(l.Keys) != 7 || l.Keys[0].Session == 0 {
		t.Errorf("got %d keys, %v", len(l.Keys), err)
	}
	if got := ask("renewals"); got != "0" {
		t.Errorf("renewals: %s, before any", got)
	}
	if got := ask("dance"); got != `error: unknown order "dance"` {
		t.Errorf("got %s", got)
	}
	orders.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestDepartures(t *testing.T) {
	d := departures{at: make(map[string]time.Time), all: make(chan struct{}), want: 2}
	d.saw("a")
	d.saw("a")
	select {
	case <-d.all:
		t.Fatal("one key counts for two")
	default:
	}
	d.saw("b")
	<-d.all
	d.saw("c") // late, and no more than that
	if n, first, last := d.so(); n != 3 || last.Before(first) {
		t.Errorf("%d from %v to %v", n, first, last)
	}
}

// A watcher that is told of several puts by one event is not waited for, nor counted more often.
func TestAudience(t *testing.T) {
	a := newAudience(2, 4)
	for _, value := range []string{"-1", "4", "no number", "0"} {
		a.saw(0, value)
	}
	a.saw(1, "3")
	if a.events.Load() != 2 || a.seen[0].Load() != 1 || a.seen[3].Load() != 1 || a.taken().Len() != 2 {
		t.Errorf("%d events, %d times", a.events.Load(), a.taken().Len())
	}
}

func TestEach(t *testing.T) {
	var sum atomic.Int64
	if err := each(t.Context(), 100, 7, func(_ context.Context, i int) error { sum.Add(int64(i)); return nil }); err != nil || sum.Load() != 4950 {
		t.Errorf("%d, %v", sum.Load(), err)
	}
	bad := errors.New("bad")
	err := parallel(t.Context(), 3, func(ctx context.Context, i int) error {
		if i == 1 {
			return bad
		}
		<-ctx.Done() // the others are told
		return ctx.Err()
	})
	if err != bad {
		t.Errorf("got %v, want the first error", err)
	}
}
