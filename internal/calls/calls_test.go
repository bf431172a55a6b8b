package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/internal/failstop"
	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

const (
	echo  wire.Method = 1000 // replies with its payload
	later wire.Method = 1001 // is kept by the test
	fail  wire.Method = 1002 // fails in the way its payload names
	count wire.Method = 1003 // sends three replies and ends
)

// book is a directory that a test fills.
type book struct {
	mu    sync.Mutex
	addrs map[string]string
}

func (b *book) Lookup(id string) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	addr, ok := b.addrs[id]
	return addr, ok
}

func (b *book) set(id, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addrs[id] = addr
}

func (b *book) remove(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.addrs, id)
}

// world is some nodes on one network.
type world struct {
	t    testing.TB
	net  transport.Network
	book *book
}

func newWorld(t testing.TB, net transport.Network) *world {
	return &world{t: t, net: net, book: &book{addrs: make(map[string]string)}}
}

type node struct {
	*Exchange
	id     string
	addr   string
	mux    *transport.Mux
	sw     *failstop.Switch
	served chan *Request // requests of the method later
	ended  chan struct{} // closed when Serve has returned
}

func (w *world) node(id string, change func(*Config)) *node {
	w.t.Helper()
	host := id
	if _, ok := w.net.(*transport.Memory); !ok {
		host = "127.0.0.1"
	}
	ep, err := w.net.Listen(context.Background(), host+":0")
	if err != nil {
		w.t.Fatal(err)
	}
	mux, err := transport.NewMux(ep, transport.MuxConfig{Cell: "test", Node: id})
	if err != nil {
		w.t.Fatal(err)
	}
	n := &node{
		id: id, addr: mux.Addr(), mux: mux, sw: failstop.New(),
		served: make(chan *Request, 100000), ended: make(chan struct{}),
	}
	cfg := Config{Mux: mux, Directory: w.book, Handler: n.handle, Switch: n.sw}
	if change != nil {
		change(&cfg)
	}
	n.Exchange = New(cfg)
	w.book.set(id, n.addr)
	go func() {
		defer close(n.ended)
		n.Serve()
	}()
	w.t.Cleanup(n.stop)
	return n
}

// addr is where the directory has a node.
func (w *world) addr(id string) string {
	addr, _ := w.book.Lookup(id)
	return addr
}

func (n *node) stop() {
	n.Close()
	n.mux.Close()
	<-n.ended
}

func (n *node) handle(_ context.Context, r *Request) {
	switch r.Method {
	case later:
		n.served <- r
	case fail:
		r.Fail(failures[string(r.Payload)])
	case count:
		for i := range 3 {
			r.Send([]byte{byte(i)})
		}
		r.End()
	case echo, wire.MethodKeepAlive:
		r.Reply(r.Payload)
	default:
		r.Fail(ErrUnknownMethod)
	}
}

var failures = map[string]error{
	"leader":  fmt.Errorf("propose: %w", &NotLeaderError{Leader: "n-7"}),
	"nobody":  &NotLeaderError{},
	"busy":    ErrBusy,
	"unknown": ErrUnknownMethod,
	"large":   ErrTooLarge,
	"text":    errors.New("no such thing"),
	"long":    errors.New(strings.Repeat("ä", 1000)),
	"bytes":   errors.New("a\xffb"),
}

// bubble runs a test in virtual time on a memory network. A goroutine that outlives it makes it fail.
func bubble(t *testing.T, test func(t *testing.T, net *transport.Memory, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := transport.NewMemory()
		test(t, net, newWorld(t, net))
	})
}

// collect gathers what a stream receives.
type collect struct {
	mu      sync.Mutex
	replies []string
	errs    []error
}

func (c *collect) receive(reply []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.errs = append(c.errs, err)
		return
	}
	c.replies = append(c.replies, string(reply))
}

func (c *collect) got() (replies []string, errs []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.replies...), append([]error(nil), c.errs...)
}

var ctx = context.Background()

func TestCall(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", nil)
		for _, size := range []int{0, 1, 127, 128, 100 << 10, 4<<20 - maxOverhead} {
			want := strings.Repeat("x", size)
			for _, c := range []struct{ from, to *node }{{a, b}, {b, a}} {
				if got, err := c.from.Call(ctx, c.to.id, echo, []byte(want)); err != nil || string(got) != want {
					t.Errorf("%d bytes to %s: %d, %v", size, c.to.id, len(got), err)
				}
			}
		}
		if _, err := a.Call(ctx, "b", echo, make([]byte, 4<<20-maxOverhead+1)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("too large: %v", err)
		}
	})
}

func TestErrorsTravel(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, _ := w.node("a", nil), w.node("b", nil)
		call := func(how string) error {
			_, err := a.Call(ctx, "b", fail, []byte(how))
			return err
		}
		var notLeader *NotLeaderError
		if err := call("leader"); !errors.As(err, &notLeader) || notLeader.Leader != "n-7" {
			t.Errorf("leader: %v", err)
		}
		if err := call("nobody"); !errors.As(err, &notLeader) || notLeader.Leader != "" {
			t.Errorf("nobody: %v", err)
		}
		for how, want := range map[string]error{"busy": ErrBusy, "unknown": ErrUnknownMethod, "large": ErrTooLarge} {
			if err := call(how); !errors.Is(err, want) {
				t.Errorf("%s: %v", how, err)
			}
		}
		for how, want := range map[string]string{
			"text": "no such thing", "long": strings.Repeat("ä", maxErrorText/2), "bytes": "a\uFFFDb",
		} {
			var remote *RemoteError
			if err := call(how); !errors.As(err, &remote) || remote.Text != want {
				t.Errorf("%s: %v", how, err)
			}
		}
		if _, err := a.Call(ctx, "b", 9999, nil); !errors.Is(err, ErrUnknownMethod) {
			t.Errorf("unknown method: %v", err)
		}
	})
}

func TestStream(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", nil)
		var got collect
		if _, err := a.Stream(ctx, "b", count, nil, got.receive); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		replies, errs := got.got()
		if fmt.Sprintf("%q", replies) != `["\x00" "\x01" "\x02"]` || len(errs) != 1 || errs[0] != io.EOF {
			t.Errorf("%q, %v", replies, errs)
		}

		got = collect{}
		if _, err := a.Stream(ctx, "b", later, nil, got.receive); err != nil {
			t.Fatal(err)
		}
		r := <-b.served
		time.Sleep(20 * time.Minute)
		r.Send([]byte("granted"))
		r.Reply(nil)
		r.Reply([]byte("too late"))
		r.Fail(io.ErrUnexpectedEOF)
		time.Sleep(time.Second)
		replies, errs = got.got()
		if fmt.Sprintf("%q", replies) != `["granted" ""]` || len(errs) != 1 || errs[0] != io.EOF {
			t.Errorf("%q, %v", replies, errs)
		}
	})
}

func TestSeveralRepliesToACall(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, _ := w.node("a", nil), w.node("b", nil)
		var remote *RemoteError
		if _, err := a.Call(ctx, "b", count, nil); !errors.As(err, &remote) {
			t.Errorf("%v", err)
		}
		if got, err := a.Call(ctx, "b", echo, []byte("x")); err != nil || string(got) != "x" {
			t.Errorf("the next call: %q, %v", got, err)
		}
	})
}

// Replies come in whatever order they are given.
func TestOutOfOrder(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", nil)
		const n = 500
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				want := fmt.Sprint(i)
				if got, err := a.Call(ctx, "b", later, []byte(want)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", want, got, err)
				}
			})
		}
		var requests []*Request
		for range n {
			requests = append(requests, <-b.served)
		}
		for i := range requests {
			r := requests[n-1-i]
			r.Reply(r.Payload)
		}
		wg.Wait()
	})
}

func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T, _ *transport.Memory, w *world) {
		a, b := w.node("a", nil), w.node("b", nil)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		start := time.Now()
		_, err := a.Call(short, "b", later, nil)
		if !errors.Is(err, ErrNoReply) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("call: %v after %v", err, time.Since(start))
		}
		<-(<-b.served).Done()

		if _, err := a.Call(short, "b", echo, nil); !errors.Is(err, ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("call with a context that has ended: %v", err)
		}

		var got collect
		stop, err := a.Stream(ctx, "b", later, nil, got.receive)
		if err != nil {
			t.Fatal(err)
		}
		r := <-b.served
		r.Send([]byte("first"))
		time.Sleep(time.Second)
		stop()
		stop()
		<-r.Done()
		r.Send([]byte("second"))
		r.End()
		time.Sleep(time.Second)
		if replies, errs := got.got(); len(replies) != 1 || len(errs) != 0 {
			t.Errorf("%q, %v", replies, errs)
		}
		if n := len(a.onlyLink(t).side.(*outbound).pending); n != 0 {
			t.Errorf("%d requests pending", n)
		}
	})
}

// onlyLink returns the one connection that the node has dialled.
func (n *node) onlyLink(t *testing.T) *link {
	t.Helper()
	var found *link
	for _, l := range n.all() {
		if _, ok := l.side.(*outbound); ok {
			if found != nil {
				t.Fatal("several connections")
			}
			found = l
		}
	}
	if found == nil {
		t.Fatal("no connection")
	}
	return found
}
