package caller

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/lease"
	"github.com/coordcell/coord/internal/wire"
)

// fakeCell opens sessions at once, and answers what a test says.
type fakeCell struct {
	mu    sync.Mutex
	alive func(ids []fsm.SessionID) (lease.Reply, error)
	last  fsm.SessionID

	asking sync.Mutex // held during each answer, for tests that look at what was asked
	ask    func(kind wire.AskKind, question []byte) ([]byte, error)
}

func (c *fakeCell) Route() Route {
	return Route{Leader: "leader", Changed: make(chan struct{})}
}

func (c *fakeCell) Propose(_ context.Context, _ Route, _ fsm.Command, answers chan<- Answer) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	answers <- Answer{Result: fsm.Result{Code: fsm.OK, Session: c.last}}
	return func() {}
}

func (c *fakeCell) KeepAlive(_ context.Context, _ uint64, ids []fsm.SessionID) (lease.Reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alive(ids)
}

func (c *fakeCell) Ask(_ context.Context, kind wire.AskKind, question []byte) ([]byte, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	return c.ask(kind, question)
}

// answers sets what the cell answers to questions.
func (c *fakeCell) answers(ask func(kind wire.AskKind, question []byte) ([]byte, error)) {
	c.asking.Lock()
	defer c.asking.Unlock()
	c.ask = ask
}

func (c *fakeCell) LimitError(fsm.Limit) error { return ErrLimit }

// says sets what the cell answers to renewals.
func (c *fakeCell) says(reply lease.Reply, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alive = func([]fsm.SessionID) (lease.Reply, error) { return reply, err }
}

// withSession runs test in a bubble, with a session of a fake cell.
func withSession(t *testing.T, grace time.Duration, test func(t *testing.T, cell *fakeCell, x *Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cell := &fakeCell{ask: func(wire.AskKind, []byte) ([]byte, error) { return nil, errors.New("not asked for") }}
		cell.says(lease.Reply{}, nil)
		ctx, stop := context.WithCancel(context.Background())
		var tasks sync.WaitGroup
		start := time.Now()
		c := New(Config{
			Cell: cell, Node: "n", Name: "n", ElectionTimeout: 250 * time.Millisecond, MaxTTL: time.Hour,
			Now: func() time.Duration { return time.Since(start) }, Stop: ctx, Stopped: func() error { return ErrClosed },
			Go: func(f func()) bool { tasks.Go(f); return true }, Logger: slog.New(slog.DiscardHandler),
		})
		tasks.Go(c.Run)
		x, err := c.OpenSession(t.Context(), SessionOptions{TTL: time.Second, Grace: grace})
		if err != nil {
			t.Fatal(err)
		}
		test(t, cell, x)
		c.End()
		stop()
		tasks.Wait()
	})
}

// holding registers a hold of the session, which ends when it is marked.
func holding(t *testing.T, x *Session, g fsm.GrantID) *lease.Hold {
	t.Helper()
	h, err := x.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x.OnMark(g, func() { h.End(errStopped) })
	return h
}

var errStopped = errors.New("stopped")

// The leader is told of a stop when the holder may not act any more, and not before.
func TestG3_AMarkStopsTheHolderBeforeTheLeaderIsTold(t *testing.T) {
	withSession(t, 0, func(t *testing.T, cell *fakeCell, x *Session) {
		g := fsm.GrantID{Name: "x", Token: 7}
		held, other := holding(t, x, g), holding(t, x, fsm.GrantID{Name: "y", Token: 8})
		var told []fsm.Mark
		failures := 3
		cell.answers(func(kind wire.AskKind, question []byte) ([]byte, error) {
			if held.Check() == nil {
				t.Error("the leader is told, and the holder may act")
			}
			if failures--; kind != wire.AskStopped || failures >= 0 {
				return nil, ErrNotLeader
			}
			m, err := wire.DecodeStopped(question)
			told = append(told, m.Marks...)
			return nil, err
		})
		mark, late := fsm.Mark{Session: x.id, Token: 7, Name: "x"}, fsm.Mark{Session: x.id, Token: 9, Name: "z"}
		cell.says(lease.Reply{Marks: []fsm.Mark{mark, late}}, nil)
		time.Sleep(5 * time.Second) // each acknowledgement carries them: they are told again
		cell.asking.Lock()
		defer cell.asking.Unlock()
		if !slices.Contains(told, mark) || !slices.Contains(told, late) {
			t.Errorf("told: %v", told)
		}
		if !errors.Is(held.Check(), errStopped) || other.Check() != nil {
			t.Errorf("Check %v; of another grant %v", held.Check(), other.Check())
		}
	})
}

// A mark of a grant that nobody holds yet is as good as its stop: when the answer to the Lock comes, nobody gets it.
func TestG3_AMarkedGrantIsNotHandedOutLater(t *testing.T) {
	withSession(t, 0, func(t *testing.T, cell *fakeCell, x *Session) {
		cell.says(lease.Reply{Marks: []fsm.Mark{{Session: x.id, Token: 7, Name: "x"}}}, nil)
		time.Sleep(time.Second)
		if h := holding(t, x, fsm.GrantID{Name: "x", Token: 7}); h.Check() == nil || !x.Marked(7) {
			t.Errorf("handed out: Check %v, marked %v", h.Check(), x.Marked(7))
		}
		if h := holding(t, x, fsm.GrantID{Name: "x", Token: 8}); h.Check() != nil || x.Marked(8) {
			t.Errorf("another: Check %v, marked %v", h.Check(), x.Marked(8))
		}
	})
}

func TestG3_AMarkedSessionEndsBeforeTheLeaderIsTold(t *testing.T) {
	withSession(t, time.Minute, func(t *testing.T, cell *fakeCell, x *Session) {
		held, told := holding(t, x, fsm.GrantID{Name: "x", Token: 7}), false
		cell.answers(func(wire.AskKind, []byte) ([]byte, error) {
			told = true
			if held.Check() == nil {
				t.Error("the leader is told, and the holder may act")
			}
			return nil, nil
		})
		cell.says(lease.Reply{Marks: []fsm.Mark{{Session: x.id}}}, nil)
		select {
		case <-x.lease.Done():
		case <-time.After(10 * time.Second):
			t.Fatal("it lives on")
		}
		synctest.Wait()
		cell.asking.Lock()
		defer cell.asking.Unlock()
		if !told || !errors.Is(x.lease.Err(), ErrSessionExpired) {
			t.Errorf("told: %v, session: %v", told, x.lease.Err())
		}
	})
}

// While a session is suspended no acknowledgement comes, and a mark may pass by with its end: the cell has handed the
// lock on. The acknowledgement that revives the session later says nothing of it. Whatever may have been lost ends
// before the session lives again.
func TestG3_RevokedWhileSuspended(t *testing.T) {
	withSession(t, time.Minute, func(t *testing.T, cell *fakeCell, x *Session) {
		held, kept := holding(t, x, fsm.GrantID{Name: "x", Token: 7}), holding(t, x, fsm.GrantID{Name: "y", Token: 8})
		cell.says(lease.Reply{}, ErrNotLeader)
		time.Sleep(5 * time.Second)
		if x.lease.State() != lease.Suspended {
			t.Fatal("it is not suspended: this test proves nothing")
		}
		asked := 0
		cell.answers(func(kind wire.AskKind, question []byte) ([]byte, error) {
			if asked++; kind != wire.AskHeld || asked < 3 {
				return nil, ErrNotLeader
			}
			m, err := wire.DecodeHeld(question)
			if m.Session != x.id || len(m.Grants) != 2 {
				t.Errorf("asked for %+v", m)
			}
			return wire.HeldAnswer{Revision: 20, Lost: []fsm.Revision{7}}.Append(nil), err
		})
		cell.says(lease.Reply{}, nil)
		for x.lease.State() != lease.Live {
			if held.Check() == nil || kept.Check() == nil {
				t.Fatal("a suspended holder may act")
			}
			time.Sleep(time.Millisecond)
		}
		if !errors.Is(held.Check(), errStopped) || kept.Check() != nil {
			t.Errorf("what the cell has taken: Check %v; what it has not: %v", held.Check(), kept.Check())
		}
		if !x.Marked(15) || x.Marked(21) {
			t.Error("a grant from the time that was missed is handed out, or one from after it is not")
		}
	})
}

// A refresh counts from the send of the message that was acknowledged, whatever was sent before.
func TestG3_ARefreshCountsFromItsSend(t *testing.T) {
	withSession(t, 0, func(t *testing.T, cell *fakeCell, x *Session) {
		var sent []time.Duration
		var numbers []uint64
		cell.answers(func(_ wire.AskKind, question []byte) ([]byte, error) {
			m, err := wire.DecodeRefresh(question)
			sent, numbers = append(sent, x.caller.cfg.Now()), append(numbers, m.Number)
			time.Sleep(30 * time.Millisecond)
			switch len(sent) {
			case 1:
				return nil, ErrNotLeader
			case 2:
				return wire.RefreshAnswer{Number: m.Number, State: wire.RefreshAgain}.Append(nil), err
			case 3:
				return wire.RefreshAnswer{Number: m.Number - 1, State: wire.Refreshed}.Append(nil), err
			case 4:
				return wire.RefreshAnswer{Number: m.Number, State: wire.Refreshed}.Append(nil), err
			default:
				return wire.RefreshAnswer{Number: m.Number, State: wire.RefreshGone}.Append(nil), err
			}
		})
		g := fsm.GrantID{Name: "x", Token: 7}
		at, err := x.Refresh(t.Context(), g)
		if err != nil || len(sent) != 4 || at != sent[3] || !slices.Equal(numbers, []uint64{1, 2, 3, 4}) {
			t.Errorf("counts from %v, %v; sent at %v under %v", at, err, sent, numbers)
		}
		if _, err := x.Refresh(t.Context(), g); !errors.Is(err, ErrGrantGone) {
			t.Errorf("of a grant that has ended: %v", err)
		}
	})
}
