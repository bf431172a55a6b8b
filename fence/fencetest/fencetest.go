// Package fencetest is the suite that every fence.Guard passes.
package fencetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coordcell/coord/fence"
)

// Run tests a guard. open returns a new one that has accepted nothing, once for each test. For a guard whose memory
// outlives the process, reopen returns another guard on the same resource, as a restarted process would open it; it is
// nil for one whose memory does not. What open has taken, it gives back with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) (guard fence.Guard, reopen func() fence.Guard)) {
	fresh := func(test func(t *testing.T, g fence.Guard)) func(t *testing.T) {
		return func(t *testing.T) {
			g, _ := open(t)
			test(t, g)
		}
	}
	t.Run("G4_RisingTokensAreAccepted", fresh(testRising))
	t.Run("G4_StaleTokenIsRefused", fresh(testStale))
	t.Run("G4_ConcurrentWritesNeverGoDown", fresh(testConcurrent))
	t.Run("G4_FailedWriteOpensNothing", fresh(testFailedWrite))
	t.Run("G4_MemorySurvivesReopen", func(t *testing.T) {
		g, reopen := open(t)
		if reopen == nil {
			t.Skip("this guard's memory ends with its process")
		}
		testReopen(t, g, reopen)
	})
	t.Run("NoTokenIsRefused", fresh(testNoToken))
	t.Run("ResourcesAreApart", fresh(testResources))
	t.Run("PanicLeavesItUsable", fresh(testPanic))
	t.Run("EndedContext", fresh(testEndedContext))
	t.Run("ContextEndsWhileWaiting", fresh(testContextEndsWhileWaiting))
}

const resource = "jobs/7"

func testRising(t *testing.T, g fence.Guard) {
	for _, token := range []fence.Token{1, 2, 2, 2, 7, 1 << 40, 1 << 52, 1 << 52} {
		accept(t, g, resource, token)
	}
}

func testStale(t *testing.T, g fence.Guard) {
	accept(t, g, resource, 10)
	refuse(t, g, resource, 9, 10)
	refuse(t, g, resource, 1, 10)
	accept(t, g, resource, 10) // a refusal changes nothing
	accept(t, g, resource, 11)
	refuse(t, g, resource, 10, 11)
}

// testConcurrent lets many writers with tokens in no order at the guard at once, and looks at what it let through, in order.
func testConcurrent(t *testing.T, g fence.Guard) {
	const writers, each = 8, 25
	var (
		mu       sync.Mutex
		accepted []fence.Token
		inside   atomic.Int32
		highest  fence.Token
	)
	tokens := make([][]fence.Token, writers)
	for w := range tokens {
		for range each {
			token := 1 + fence.Token(rand.Uint64N(writers*each))
			tokens[w] = append(tokens[w], token)
			highest = max(highest, token)
		}
	}

	start := make(chan struct{})
	var done sync.WaitGroup
	for w := range tokens {
		done.Go(func() {
			<-start
			for _, token := range tokens[w] {
				err := g.Do(t.Context(), resource, token, func(context.Context) error {
					if inside.Add(1) != 1 {
						t.Errorf("two writes to one resource at the same time")
					}
					defer inside.Add(-1)
					runtime.Gosched()
					mu.Lock()
					defer mu.Unlock()
					accepted = append(accepted, token)
					return nil
				})
				var stale *fence.StaleError
				switch {
				case err == nil:
				case !errors.As(err, &stale):
					t.Errorf("token %d: %v", token, err)
				case stale.Got != token || stale.Highest <= token:
					t.Errorf("token %d refused with %+v", token, *stale)
				}
			}
		})
	}
	close(start)
	done.Wait()

	for i := 1; i < len(accepted); i++ {
		if accepted[i] < accepted[i-1] {
			t.Fatalf("accepted token %d after %d", accepted[i], accepted[i-1])
		}
	}
	if len(accepted) == 0 || accepted[len(accepted)-1] != highest {
		t.Fatalf("the highest token, %d, was not the last accepted: %v", highest, accepted)
	}
}

func testFailedWrite(t *testing.T, g fence.Guard) {
	accept(t, g, resource, 5)
	failure := errors.New("disk full")
	if err := g.Do(t.Context(), resource, 6, func(context.Context) error { return failure }); !errors.Is(err, failure) {
		t.Fatalf("Do returned %v, want the write's error", err)
	}
	refuseSome(t, g, resource, 4)
	accept(t, g, resource, 6) // the holder tries again
	refuse(t, g, resource, 5, 6)
}

func testReopen(t *testing.T, g fence.Guard, reopen func() fence.Guard) {
	accept(t, g, resource, 20)
	g = reopen()
	refuse(t, g, resource, 19, 20)
	accept(t, g, resource, 20)
	accept(t, g, resource, 21)
	g = reopen()
	refuse(t, g, resource, 20, 21)
}

func testNoToken(t *testing.T, g fence.Guard) {
	for range 2 {
		ran := false
		err := g.Do(t.Context(), resource, 0, func(context.Context) error { ran = true; return nil })
		if !errors.Is(err, fence.ErrNoToken) || ran {
			t.Fatalf("token 0: error %v, write run: %v; want ErrNoToken and no write", err, ran)
		}
		accept(t, g, resource, 3) // neither before nor after the first token
	}
}

func testResources(t *testing.T, g fence.Guard) {
	accept(t, g, "a", 100)
	accept(t, g, "A", 2)
	accept(t, g, "a/b", 3)
	accept(t, g, "ä", 4)
	accept(t, g, "'; --", 5)
	refuse(t, g, "a", 99, 100)
	refuse(t, g, "A", 1, 2)
	accept(t, g, "a/b", 4)
}

func testPanic(t *testing.T, g fence.Guard) {
	accept(t, g, resource, 5)
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Fatalf("recovered %v, want the write's panic", r)
			}
		}()
		_ = g.Do(t.Context(), resource, 6, func(context.Context) error { panic("boom") })
		t.Fatal("the panic of write was swallowed")
	}()
	refuseSome(t, g, resource, 4)
	accept(t, g, resource, 7)
}

func testEndedContext(t *testing.T, g fence.Guard) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ran := false
	err := g.Do(ctx, resource, 9, func(context.Context) error { ran = true; return nil })
	if !errors.Is(err, context.Canceled) || ran {
		t.Fatalf("ended ctx: error %v, write run: %v; want context.Canceled and no write", err, ran)
	}
	accept(t, g, resource, 5) // 9 was not accepted
}

func testContextEndsWhileWaiting(t *testing.T, g fence.Guard) {
	writing, finish, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		first <- g.Do(t.Context(), resource, 5, func(context.Context) error {
			close(writing)
			<-finish
			return nil
		})
	}()
	select {
	case <-writing:
	case err := <-first:
		t.Fatalf("token 5: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		second <- g.Do(ctx, resource, 9, func(context.Context) error {
			t.Error("a write ran beside another")
			return nil
		})
	}()
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("Do returned %v, want context.Canceled", err)
	}
	close(finish)
	if err := <-first; err != nil {
		t.Errorf("token 5: %v", err)
	}
	accept(t, g, resource, 6) // 9 was not accepted
}

func accept(t *testing.T, g fence.Guard, resource string, token fence.Token) {
	t.Helper()
	runs := 0
	err := g.Do(t.Context(), resource, token, func(context.Context) error { runs++; return nil })
	if err != nil || runs != 1 {
		t.Fatalf("resource %q, token %d: error %v, write ran %d times; want it accepted", resource, token, err, runs)
	}
}

func refuse(t *testing.T, g fence.Guard, resource string, token, highest fence.Token) {
	t.Helper()
	stale := refuseSome(t, g, resource, token)
	if want := (fence.StaleError{Resource: resource, Got: token, Highest: highest}); stale != want {
		t.Fatalf("resource %q, token %d: refused with %+v, want %+v", resource, token, stale, want)
	}
}

// refuseSome is refuse where it is the guard's choice which token was accepted last.
func refuseSome(t *testing.T, g fence.Guard, resource string, token fence.Token) fence.StaleError {
	t.Helper()
	ran := false
	err := g.Do(t.Context(), resource, token, func(context.Context) error { ran = true; return nil })
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) || ran {
		t.Fatalf("resource %q, token %d: error %v, write run: %v; want a StaleError and no write", resource, token, err, ran)
	}
	return *stale
}
