package hub

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/fsm"
)

// Cursors far apart in the history, of one key and of many, with and without the previous values, return the same as the
// history itself: whether from the tail, by themselves from behind it, or as they come.
func TestG9_TailAndHistoryTellTheSame(t *testing.T) {
	inWorld(t, 10_000, func(t *testing.T, w *world) {
		keep := w.watch(Options{Key: "nobody's"})
		for i := range 40 {
			w.put(fmt.Sprint("k", i%4), fmt.Sprint(i))
		}
		synctest.Wait()
		txn := fsm.Txn{Change: w.change()}
		for i := range 4 {
			txn.Then = append(txn.Then, fsm.Op{Kind: fsm.OpPut, Key: fmt.Sprint("k", i), Value: []byte("x")})
		}
		w.apply(txn)
		for i := range 40 {
			w.put(fmt.Sprint("k", i%4), fmt.Sprint(i))
		}
		synctest.Wait()
		w.hub.mu.Lock()
		from := w.hub.tail.from
		w.hub.tail.trim(from + 50)
		w.hub.mu.Unlock()
		for _, opts := range []Options{
			{Key: "k1"}, {Key: "k1", Previous: true}, {Key: "k", Prefix: true}, {Prefix: true, Previous: true}, {Key: "k1", Prefix: true},
		} {
			opts.HasFrom = true
			watcher := w.watch(opts)
			g := group{key: opts.Key, prefix: opts.Prefix}
			var want, got []string
			for e := range w.state.Events(0) {
				if g.matches(e.Key) {
					if !opts.Previous {
						e.Previous = nil
					}
					want = append(want, fmt.Sprintf("%+v", e))
				}
			}
			last := fsm.Revision(0)
			for {
				b, err := watcher.Cursor.Next()
				if err != nil {
					t.Fatal(err)
				}
				if b == nil {
					select {
					case <-watcher.woken:
						continue
					case <-time.After(time.Second / 2):
					}
					break
				}
				if b.Revision <= last {
					t.Errorf("revision %d after %d", b.Revision, last)
				}
				last = b.Revision
				for _, e := range b.Events {
					got = append(got, fmt.Sprintf("%+v", e))
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%+v:\ngot  %v\nwant %v", opts, got, want)
			}
			watcher.Close()
		}
		keep.Close()
	})
}

// Who receives a change cannot write to the state with it, and all who receive it have it from one copy.
func TestG10_ReceiversShareACopy(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		one, two, late := w.watch(Options{Key: "a"}), w.watch(Options{Prefix: true}), w.watch(Options{Key: "a", Previous: true})
		for _, r := range []*reader{one, two, late} {
			if b, err := r.Cursor.Next(); b != nil || err != nil {
				t.Fatal(b, err)
			}
		}
		w.put("a", "1")
		w.put("a", "2")
		synctest.Wait()
		var batches []*Batch
		for _, r := range []*reader{one, two, late} {
			for range 2 {
				b, err := r.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				batches = append(batches, b)
			}
		}
		if batches[0] != batches[2] || batches[1] != batches[3] || batches[0] == batches[1] {
			t.Error("one change was copied for each of two receivers")
		}
		for _, b := range batches {
			for _, e := range b.Events {
				clear(e.Value)
				clear(e.Previous)
			}
		}
		if kv, _ := w.state.Get("a"); string(kv.Value) != "2" {
			t.Errorf("the state has become %q", kv.Value)
		}
		made := 0
		for range 2 {
			batches[0].Form(func(*Batch) any { made++; return made })
		}
		if made != 1 {
			t.Errorf("made %d times", made)
		}
	})
}

// The cursors that a change does not concern are left alone, and go on where they are when the history has gone far past
// what they saw last.
func TestG9_QuietKeyOutlastsTheHistory(t *testing.T) {
	inWorld(t, 16, func(t *testing.T, w *world) {
		quiet, under := w.watch(Options{Key: "a"}), w.watch(Options{Key: "a/", Prefix: true})
		for _, r := range []*reader{quiet, under} {
			if b, err := r.Cursor.Next(); b != nil || err != nil {
				t.Fatal(b, err)
			}
		}
		for range 20 {
			for i := range 10 {
				w.put(fmt.Sprint("b", i), "x")
			}
			synctest.Wait()
		}
		for _, r := range []*reader{quiet, under} {
			select {
			case <-r.woken:
				t.Error("woken for another key")
			default:
			}
		}
		w.put("a/1", "1")
		w.put("a", "1")
		w.expect(quiet, "a=1")
		w.expect(under, "a/1=1", nothing)
		w.expect(quiet, nothing)
		w.rest(quiet)
		for range 4 {
			for range 10 {
				w.put("b", "x")
			}
			synctest.Wait()
		}
		time.Sleep(1500 * time.Millisecond) // it is told that progress is due
		if b, err := quiet.Cursor.Next(); err != nil || b == nil || len(b.Events) > 0 {
			t.Errorf("progress: %+v, %v", b, err)
		}
		if b, err := quiet.Cursor.Next(); b != nil || err != nil {
			t.Errorf("nothing more: %+v, %v", b, err)
		}
		w.put("a", "2")
		w.expect(quiet, "a=2")
	})
}

// A cursor that nobody reads keeps nothing and is not looked at; it is told how far behind it is when it is read.
func TestG9_UnreadCursor(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		unread, read := w.watch(Options{Prefix: true}), w.watch(Options{Prefix: true})
		for i := range 90 {
			begin := time.Now()
			w.put("a", fmt.Sprint(i))
			w.expect(read, fmt.Sprint("a=", i))
			if d := time.Since(begin); d > 0 {
				t.Fatalf("a change took %v", d)
			}
		}
		for i := range 90 {
			w.expect(unread, fmt.Sprint("a=", i))
		}
		for i := range 110 {
			w.put("a", fmt.Sprint(i))
			w.expect(read, fmt.Sprint("a=", i))
		}
		synctest.Wait()
		w.expect(unread, ErrCompacted.Error())
		unread.Close()
		read.Close()
		time.Sleep(2 * time.Second)
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		if w.hub.running || len(w.hub.tail.revisions) > 0 || len(w.hub.index.prefixes) > 0 {
			t.Errorf("after the last cursor: running %v, %d revisions, %d groups", w.hub.running, len(w.hub.tail.revisions), len(w.hub.index.prefixes))
		}
	})
}

// The tail is bounded, by what is in it as well.
func TestG12_TailIsBounded(t *testing.T) {
	var tail tail
	tail.clear(1)
	for i := range fsm.Revision(3 * tailMost) {
		tail.add(i+1, []fsm.Event{{Key: "k", Revision: i + 1}})
	}
	if n := len(tail.revisions); n != tailMost || tail.from != 2*tailMost+1 || tail.revisions[0].number != tail.from {
		t.Errorf("%d revisions from %d", n, tail.from)
	}
	for i := range fsm.Revision(100) {
		tail.add(3*tailMost+i+1, []fsm.Event{{Key: "k", Value: make([]byte, 1<<20), Revision: 3*tailMost + i + 1}})
	}
	if n := len(tail.revisions); n != 3 || tail.bytes > tailMostBytes {
		t.Errorf("%d revisions, %d bytes", n, tail.bytes)
	}
}

// Cursors come and go while keys change, and each sees what it asked for; afterwards nothing is left of them.
func TestG9_CursorsComeAndGo(t *testing.T) {
	inWorld(t, 10_000, func(t *testing.T, w *world) {
		done := make(chan struct{})
		const readers = 50
		for i := range readers {
			go func() {
				for range 20 {
					opts := Options{Key: fmt.Sprint("k", i%7), Prefix: i%2 == 0}
					r := w.watch(opts)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%5+1)*10*time.Millisecond)
					last := fsm.Revision(0)
					for {
						b, err := r.Next(ctx)
						if err != nil {
							break
						}
						if b.Revision <= last && len(b.Events) > 0 {
							t.Errorf("revision %d after %d", b.Revision, last)
						}
						last = b.Revision
					}
					cancel()
					r.Close()
				}
				done <- struct{}{}
			}()
		}
		stop := make(chan struct{})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				w.put(fmt.Sprint("k", i%7), fmt.Sprint(i))
			}
		}()
		for range readers {
			<-done
		}
		close(stop)
		<-stopped
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		if len(w.hub.cursors) > 0 || len(w.hub.index.keys) > 0 || len(w.hub.index.prefixes) > 0 {
			t.Errorf("%d cursors, %d and %d groups are left", len(w.hub.cursors), len(w.hub.index.keys), len(w.hub.index.prefixes))
		}
	})
}

// The hub may be behind the state that a snapshot shows; what follows the snapshot does not go back.
func TestG9_ProgressDoesNotGoBack(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		first := w.watch(Options{Key: "other"})
		synctest.Wait()
		w.mu.Lock()
		w.index++
		w.state.Apply(w.index, 1, []fsm.Command{fsm.Put{Change: w.change(), Key: "a", Value: []byte("1")}}) // the hub has not heard of it yet
		w.mu.Unlock()
		watcher := w.watch(Options{Prefix: true, Snapshot: true})
		var last fsm.Revision
		for range 4 {
			b, err := watcher.Next(t.Context())
			if err != nil || b.Revision < last {
				t.Errorf("%+v, %v after revision %d", b, err, last)
			}
			last = b.Revision
		}
		first.Close()
	})
}

// A cursor has been silent for as long as it has been there, and not since the hub began.
func TestG9_ProgressIsNotToldAtOnce(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		first := w.watch(Options{Key: "other"})
		time.Sleep(time.Minute + 10*time.Millisecond)
		begin := time.Now()
		watcher := w.watch(Options{Key: "a"})
		if b, err := watcher.Next(t.Context()); err != nil || time.Since(begin) < 700*time.Millisecond || time.Since(begin) > 1250*time.Millisecond {
			t.Errorf("%+v, %v after %v", b, err, time.Since(begin))
		}
		first.Close()
	})
}
