package hub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/fsm"
)

// world is a state, a hub over it, and one session that makes changes.
type world struct {
	t   *testing.T
	hub *Hub

	mu      sync.Mutex
	state   *fsm.State
	index   uint64
	seq     uint64
	session fsm.SessionID
	age     time.Duration
}

func (w *world) View(read func(*fsm.State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	read(w.state)
}

func (w *world) Clone() *fsm.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.Clone()
}

func (w *world) fresh() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.age
}

func inWorld(t *testing.T, history int, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, state: fsm.New()}
		w.hub = New(Config{Source: w, Fresh: w.fresh, StaleAfter: 2 * time.Second, Progress: time.Second})
		w.apply(
			fsm.Generation{First: true, Params: fsm.Params{HistoryEvents: history, HistoryBytes: 1 << 20, Sessions: 10, Locks: 10, Keys: 10_000, Waiters: 10, ReapStep: 10}},
			fsm.TermStart{Format: 1},
		)
		out := w.apply(fsm.OpenSession{TTL: int64(time.Minute)})
		w.session = out.Opened[0].Session
		defer w.hub.Close()
		test(t, w)
	})
}

func (w *world) apply(cmds ...fsm.Command) fsm.Output {
	w.mu.Lock()
	w.index++
	out := w.state.Apply(w.index, 1, cmds)
	w.mu.Unlock()
	w.hub.Publish(&out)
	return out
}

func (w *world) change() fsm.Change {
	w.seq++
	return fsm.Change{Session: w.session, Seq: w.seq, Acks: []uint64{w.seq - 1}[:min(1, w.seq-1)]}
}

func (w *world) put(key, value string) fsm.Revision {
	w.t.Helper()
	out := w.apply(fsm.Put{Change: w.change(), Key: key, Value: []byte(value)})
	if out.Replies[0].Result.Code != fsm.OK {
		w.t.Fatalf("put %q: code %d", key, out.Replies[0].Result.Code)
	}
	return out.Replies[0].Result.Revision
}

// replace puts another state in the place of the present one, as a snapshot of the leader does.
func (w *world) replace(s *fsm.State) {
	w.mu.Lock()
	w.state = s
	w.mu.Unlock()
	w.hub.Reset()
}

// reader waits for what its cursor returns.
type reader struct {
	*Cursor
	woken chan struct{} // of one
}

func (w *world) watch(opts Options) *reader {
	w.t.Helper()
	r := &reader{woken: make(chan struct{}, 1)}
	var err error
	r.Cursor, err = w.hub.Watch(opts, func() {
		select {
		case r.woken <- struct{}{}:
		default:
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (r *reader) Next(ctx context.Context) (*Batch, error) {
	for {
		if b, err := r.Cursor.Next(); b != nil || err != nil {
			return b, err
		}
		select {
		case <-r.woken:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// next is the next batch with events, as text, or the error.
func (w *world) next(from *reader) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	for {
		b, err := from.Next(ctx)
		if err != nil {
			return err.Error()
		}
		var keys []string
		for _, e := range b.Events {
			keys = append(keys, e.Key+"="+string(e.Value))
		}
		switch {
		case b.Snapshot:
			return "snapshot " + strings.Join(keys, " ")
		case len(keys) > 0:
			return strings.Join(keys, " ")
		}
	}
}

func (w *world) expect(from *reader, want ...string) {
	w.t.Helper()
	for _, s := range want {
		if got := w.next(from); got != s {
			w.t.Errorf("got %q, want %q", got, s)
		}
	}
}

// rest has the cursor wait, with nothing left to tell, not even progress.
func (w *world) rest(from *reader) {
	w.t.Helper()
	synctest.Wait()
	for {
		switch b, err := from.Cursor.Next(); {
		case err != nil || b != nil && len(b.Events) > 0:
			w.t.Fatalf("%+v, %v", b, err)
		case b == nil:
			return
		}
	}
}

const nothing = "context deadline exceeded"

// A snapshot of the leader replaces the state under a watcher. If its history reaches back to the cursor there is no gap;
// if not, the watcher is told.
func TestG9_StateIsReplaced(t *testing.T) {
	inWorld(t, 16, func(t *testing.T, w *world) {
		plain, snap := w.watch(Options{Key: "a"}), w.watch(Options{Key: "a", Snapshot: true})
		w.expect(snap, "snapshot ")
		w.put("a", "1")
		w.expect(plain, "a=1")
		w.expect(snap, "a=1")
		behind := w.Clone() // this server stays here, while the cell goes on
		for i := 2; i <= 5; i++ {
			w.put("a", fmt.Sprint(i))
		}
		near := w.Clone()
		w.replace(behind)
		synctest.Wait()
		begin := time.Now()
		time.AfterFunc(300*time.Millisecond, func() { w.replace(near) })
		w.expect(plain, "a=2")
		if d := time.Since(begin); d != 300*time.Millisecond {
			t.Errorf("woken after %v", d)
		}
		w.expect(plain, "a=3", "a=4", "a=5", nothing)
		w.expect(snap, "a=2", "a=3", "a=4", "a=5", nothing)
		for i := 6; i <= 30; i++ {
			w.put("a", fmt.Sprint(i))
		}
		synctest.Wait() // until the hub has come to the end, what it has in its tail is still told
		w.expect(plain, ErrCompacted.Error())
		w.expect(snap, "snapshot a=30", nothing)
		w.put("a", "31")
		w.expect(snap, "a=31")
	})
}

// A state that has not come as far as the cursor yet shows the watcher nothing twice.
func TestG9_StateGoesBack(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		watcher := w.watch(Options{Key: "a"})
		w.put("a", "1")
		old, index, seq := w.Clone(), w.index, w.seq
		w.put("a", "2")
		w.put("a", "3")
		w.expect(watcher, "a=1", "a=2", "a=3")
		w.rest(watcher)
		w.replace(old)
		synctest.Wait()
		w.rest(watcher)
		w.index, w.seq = index, seq
		w.put("a", "2")
		w.put("a", "3")
		w.expect(watcher, nothing)
		w.put("a", "4")
		w.expect(watcher, "a=4")
	})
}

func TestG9_OneBatchARevision(t *testing.T) {
	inWorld(t, 10_000, func(t *testing.T, w *world) {
		watcher := w.watch(Options{Prefix: true})
		one := w.watch(Options{Key: "k1999"})
		txn := fsm.Txn{Change: w.change()}
		for i := range 2000 {
			txn.Then = append(txn.Then, fsm.Op{Kind: fsm.OpPut, Key: fmt.Sprintf("k%04d", i)})
		}
		w.apply(txn)
		w.put("z", "1")
		b, err := watcher.Next(t.Context())
		if err != nil || len(b.Events) != 2000 {
			t.Errorf("%d events, %v", len(b.Events), err)
		}
		w.expect(watcher, "z=1")
		w.expect(one, "k1999=")
		w.hub.mu.Lock()
		w.hub.tail.clear(w.hub.reached + 1)
		w.hub.mu.Unlock()
		behind := w.watch(Options{Prefix: true, HasFrom: true})
		if b, err := behind.Next(t.Context()); err != nil || len(b.Events) != 2000 {
			t.Errorf("from the history: %+v, %v", b, err)
		}
	})
}

// Changes in between that nobody asked for are passed over in steps, and none of those asked for is lost.
func TestG9_LongWayBehind(t *testing.T) {
	inWorld(t, 10_000, func(t *testing.T, w *world) {
		watcher := w.watch(Options{Key: "a", Previous: true})
		for i := range 3 * scanMost {
			if i%500 == 0 {
				w.put("a", fmt.Sprint(i))
			}
			w.put("b", fmt.Sprint(i))
		}
		w.expect(watcher, "a=0", "a=500", "a=1000", "a=1500", nothing)
		b, err := watcher.Next(t.Context())
		if err != nil || len(b.Events) > 0 || b.Revision != w.state.Revision() {
			t.Errorf("progress: %+v, %v", b, err)
		}
	})
}

func TestG9_StaleServer(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		watcher, observer := w.watch(Options{Key: "a"}), w.hub.Observe("x")
		defer observer.Close()
		same := func(a, b fsm.LockView) bool { return false }
		if _, err := observer.Next(t.Context(), same); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(3500*time.Millisecond, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.age = 2*time.Second + 1
		})
		begin := time.Now()
		var err error
		for n := 0; err == nil; n++ {
			_, err = watcher.Next(t.Context())
		}
		if d := time.Since(begin); !errors.Is(err, ErrStale) || d > 4500*time.Millisecond {
			t.Errorf("%v after %v", err, d)
		}
		if _, err := observer.Next(t.Context(), same); !errors.Is(err, ErrStale) {
			t.Errorf("observer: %v", err)
		}
	})
}

func TestG12_HubCloses(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		watcher, observer := w.watch(Options{Key: "a"}), w.hub.Observe("x")
		ended := make(chan error)
		go func() {
			for {
				if _, err := watcher.Next(t.Context()); err != nil {
					ended <- err
					return
				}
			}
		}()
		go func() {
			for {
				if _, err := observer.Next(t.Context(), func(_, _ fsm.LockView) bool { return false }); err != nil {
					ended <- err
					return
				}
			}
		}()
		time.Sleep(5 * time.Second)
		w.hub.Close()
		w.hub.Close()
		for range 2 {
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		observer.Close()
		observer.Close()
		if len(w.hub.observers.of) != 0 {
			t.Errorf("%d observers are left", len(w.hub.observers.of))
		}
	})
}

// An observer that reads seldom sees the last state, and is not woken for other locks.
func TestObserver_LeavesOutWhatWasOvertaken(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		o := w.hub.Observe("x")
		defer o.Close()
		changed := func(a, b fsm.LockView) bool {
			return len(a.Holders) != len(b.Holders) || string(a.Holders[0].Data) != string(b.Holders[0].Data)
		}
		holders := func() string {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			v, err := o.Next(ctx, changed)
			if err != nil {
				return err.Error()
			}
			for _, h := range v.Holders {
				return string(h.Data)
			}
			return "free"
		}
		if got := holders(); got != "free" {
			t.Errorf("at first: %s", got)
		}
		w.apply(fsm.Lock{Change: w.change(), Name: "y"})
		select {
		case <-o.woken:
			t.Error("woken for another lock")
		default:
		}
		out := w.apply(fsm.Lock{Change: w.change(), Name: "x", Data: []byte("0")})
		for i := range 5 {
			w.apply(fsm.SetData{Change: w.change(), Name: "x", Token: out.Grants[0].Token, Data: fmt.Append(nil, i)})
		}
		if got := holders(); got != "4" {
			t.Errorf("the last: %s", got)
		}
		if got := holders(); got != nothing {
			t.Errorf("nothing has changed: %s", got)
		}
		w.replace(w.Clone())
		if got := holders(); got != nothing {
			t.Errorf("nor by another copy: %s", got)
		}
	})
}
