package hub

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coordcell/coord/fsm"
)

func (w *world) setAge(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.age = d
}

// Who asks a server that is cut off is told at once, and not given what still lies there.
func TestG9_StaleIsToldAtOnce(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		watcher := w.watch(Options{Key: "a"})
		w.put("a", "1")
		w.setAge(2*time.Second + 1)
		begin := time.Now()
		if b, err := watcher.Next(t.Context()); !errors.Is(err, ErrStale) || time.Since(begin) > 0 {
			t.Errorf("%+v, %v after %v", b, err, time.Since(begin))
		}
	})
}

// A server that is cut off while its watcher waits does not say that there was nothing new.
func TestG9_AStaleServerTellsNoProgress(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		watcher := w.watch(Options{Key: "a"})
		time.AfterFunc(300*time.Millisecond, func() { w.setAge(2*time.Second + 1) })
		if b, err := watcher.Next(t.Context()); !errors.Is(err, ErrStale) {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

// interrupted is a world in which something happens right after a read of the state.
type interrupted struct {
	*world
	after func()
}

func (i *interrupted) View(read func(*fsm.State)) {
	i.world.View(read)
	i.mu.Lock()
	after := i.after
	i.after = nil
	i.mu.Unlock()
	if after != nil {
		after()
	}
}

// A change that comes right after the state has been read, by the hub or by a cursor that was behind, and before the cursor
// waits for the next one, wakes it at once.
func TestG9_NothingIsMissedBetweenReadingAndWaiting(t *testing.T) {
	for name, opts := range map[string]Options{
		"the hub reads": {Key: "a"}, "the cursor reads": {Key: "a", HasFrom: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 100, func(t *testing.T, w *world) {
				source := &interrupted{world: w}
				w.hub.cfg.Source = source
				w.put("b", "0")
				watcher := w.watch(opts)
				source.mu.Lock()
				source.after = func() { w.put("a", "1") }
				source.mu.Unlock()
				if !opts.HasFrom {
					w.put("b", "1")
				}
				begin := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				b, err := watcher.Next(ctx)
				if err != nil || len(b.Events) != 1 || time.Since(begin) > 0 {
					t.Errorf("%+v, %v after %v", b, err, time.Since(begin))
				}
			})
		})
	}
}

// A state that goes back under a watcher that waits, as one that a snapshot replaces may, does not take its cursor along.
func TestG9_StateGoesBackUnderAWaitingWatcher(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		watcher := w.watch(Options{Key: "a"})
		w.put("a", "1")
		old, index, seq := w.Clone(), w.index, w.seq
		w.put("a", "2")
		w.expect(watcher, "a=1", "a=2")
		time.AfterFunc(100*time.Millisecond, func() { w.replace(old) })
		w.expect(watcher, nothing)
		w.rest(watcher)
		w.index, w.seq = index, seq
		w.put("a", "2")
		w.expect(watcher, nothing)
		w.put("a", "3")
		w.expect(watcher, "a=3")
	})
}
