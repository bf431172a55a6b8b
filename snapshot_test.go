package coord_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// hearing counts the lines of a log that contain a text.
type hearing struct {
	slog.Handler
	text  string
	count *atomic.Int64
}

func (h hearing) Enabled(context.Context, slog.Level) bool { return true }
func (h hearing) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(strings.ToLower(r.Message), h.text) {
		h.count.Add(1)
	}
	return nil
}
func (h hearing) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h hearing) WithGroup(string) slog.Handler      { return h }

// A server that was away for longer than the others keep their logs is sent the whole state. Who resumes a watch there
// has no gap, if the history reaches back, and is told if it does not; and its reads, locks and ids are those of the cell.
func TestG9_WatchOverAnInstalledSnapshot(t *testing.T) {
	for _, history := range []int{0, 16} {
		t.Run(fmt.Sprint("history ", history), func(t *testing.T) {
			var installed atomic.Int64
			tune := func(i int, cfg *coord.Config) {
				cfg.Limits.HistoryEvents = history
				cfg.Logger = slog.New(hearing{slog.DiscardHandler, "installed remote snapshot", &installed})
			}
			inEmptyCell(t, 3, tune, func(t *testing.T, c *cell) {
				c.lab.SetSnapshots(50, 0)
				for i := range 3 {
					c.start(i)
				}
				c.ready()
				away := c.others(c.leader())[0]
				writer := c.others(away)[0]
				session := c.session(writer)
				held := c.lock(session, "x")
				c.mustPut(writer, "k/start", "")
				w := c.watch(away, "k/", coord.Prefix(), coord.FromRevision(0))
				last := next(t, w).Revision
				c.isolate(away)
				if _, err := ending(w); !errors.Is(err, coord.ErrNoLeader) {
					t.Errorf("cut off: %v", err)
				}
				const changes = 130
				for i := range changes {
					c.mustPut(writer, fmt.Sprintf("k/%d", i%7), fmt.Sprint(i))
				}
				time.Sleep(2 * time.Minute) // the logs are compacted
				c.lab.HealAll()
				c.ready()
				if installed.Load() == 0 {
					t.Error("no snapshot was installed: this test proves nothing")
				}
				resumed, err := c.nodes[away].Watch(c.within(time.Minute), "k/", coord.Prefix(), coord.FromRevision(last+1))
				if history != 0 {
					if !errors.Is(err, coord.ErrCompacted) {
						t.Errorf("resumed below the history: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer resumed.Close()
				for i := range changes {
					if got, want := text(next(t, resumed)), fmt.Sprintf("put k/%d=%d", i%7, i); got != want {
						t.Fatalf("got %s, want %s", got, want)
					}
				}
				info, err := c.nodes[away].Lookup(c.within(time.Minute), "x")
				if err != nil || len(info.Holders) != 1 || info.Holders[0].Token != held.Token() {
					t.Errorf("%v, %v", info, err)
				}
				if err := held.Check(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
