package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/wire"
)

// press is a packer whose entries end when the test says so, and what became of the proposals.
type press struct {
	*packer
	t    *testing.T
	stop context.CancelFunc

	mu      sync.Mutex
	entries [][]fsm.Command
	flying  []func(error) // those that have not ended
	ends    []string      // of the proposals, in their order: "key written", "key failed: …"
}

// withPress runs a test in a bubble.
func withPress(t *testing.T, test func(t *testing.T, p *press)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p := &press{t: t, stop: stop}
		p.packer = newPacker(p.start)
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.run(ctx)
		}()
		test(t, p)
		stop()
		<-done
	})
}

func (p *press) start(entry []byte, done func(error)) {
	cmds, err := wire.DecodeEntry(entry)
	if err != nil {
		p.t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entries, p.flying = append(p.entries, cmds), append(p.flying, done)
}

// put submits a Put of a value of that many bytes.
func (p *press) put(key string, size int) error {
	note := func(end string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ends = append(p.ends, key+" "+end)
	}
	return p.submit(proposal{
		cmd:     fsm.Put{Key: key, Value: make([]byte, size)},
		written: func() { note("written") },
		failed:  func(err error) { note(fmt.Sprint("failed: ", err)) },
	})
}

func (p *press) mustPut(key string, size int) {
	p.t.Helper()
	if err := p.put(key, size); err != nil {
		p.t.Fatal(err)
	}
}

// land ends the oldest entry in flight, and lets everything happen that follows.
func (p *press) land(err error) {
	p.mu.Lock()
	done := p.flying[0]
	p.flying = p.flying[1:]
	p.mu.Unlock()
	done(err)
	synctest.Wait()
}

// sizes are the numbers of commands in the entries so far.
func (p *press) sizes() (n []int) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		n = append(n, len(e))
	}
	return n
}

func (p *press) want(sizes ...int) {
	p.t.Helper()
	if got := p.sizes(); !slices.Equal(got, sizes) {
		p.t.Errorf("entries of %v commands, want %v", got, sizes)
	}
}

func (p *press) wantEnds(ends ...string) {
	p.t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.ends, ends) {
		p.t.Errorf("ended have %q, want %q", p.ends, ends)
	}
}

func TestALoneChangeLeavesAtOnce(t *testing.T) {
	withPress(t, func(t *testing.T, p *press) {
		p.mustPut("a", 1)
		p.want(1)
		p.wantEnds()
		p.land(nil)
		p.wantEnds("a written")
		p.mustPut("b", 1)
		p.want(1, 1)
	})
}

func TestChangesGatherWhileEntriesAreInFlight(t *testing.T) {
	withPress(t, func(t *testing.T, p *press) {
		for i := range packInFlight {
			p.mustPut(fmt.Sprint("first", i), 1)
			synctest.Wait()
		}
		for _, key := range []string{"a", "b", "c"} {
			p.mustPut(key, 1)
		}
		p.want(1, 1)
		p.land(nil)
		p.want(1, 1, 3)
		for i, key := range []string{"a", "b", "c"} {
			if put := p.entries[2][i].(fsm.Put); put.Key != key {
				t.Errorf("command %d is of %s", i, put.Key)
			}
		}
		p.land(nil)
		p.land(errors.New("lost"))
		p.wantEnds("first0 written", "first1 written", "a failed: lost", "b failed: lost", "c failed: lost")
	})
}

func TestEntriesAreBounded(t *testing.T) {
	fill := func(p *press) {
		for range packInFlight {
			p.mustPut("first", 1)
			synctest.Wait()
		}
	}
	drain := func(p *press) {
		for p.sizes(); len(p.flying) > 0; p.sizes() {
			p.land(nil)
		}
	}
	t.Run("commands", func(t *testing.T) {
		withPress(t, func(t *testing.T, p *press) {
			fill(p)
			for range packCommands + 5 {
				p.mustPut("k", 1)
			}
			drain(p)
			p.want(1, 1, packCommands, 5)
		})
	})
	t.Run("bytes", func(t *testing.T) {
		withPress(t, func(t *testing.T, p *press) {
			fill(p)
			for _, size := range []int{packBytes / 3, packBytes / 3, packBytes / 3, 2 * packBytes, 1, 1} {
				p.mustPut("k", size)
			}
			drain(p)
			p.want(1, 1, 2, 1, 1, 2)
		})
	})
}

// With both lanes full every entry has some of each, and what the leader itself has to write goes before both.
func TestNewSessionsWaitBehindOthersAndAreNotStarved(t *testing.T) {
	withPress(t, func(t *testing.T, p *press) {
		for range packInFlight {
			p.mustPut("first", 1)
			synctest.Wait()
		}
		submit := func(cmd fsm.Command) {
			if err := p.submit(proposal{cmd: cmd}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 * packCommands {
			submit(fsm.OpenSession{TTL: 1})
		}
		for range 2 * packCommands {
			p.mustPut("k", 1)
		}
		p.mustPut("large", 2*packBytes)
		submit(fsm.Expire{Term: 1, Sessions: []fsm.SessionID{1}})
		submit(fsm.OpenSession{TTL: 1, Internal: true}) // a node's own is as urgent as the changes it is for
		for p.sizes(); len(p.flying) > 0; p.sizes() {
			p.land(nil)
		}
		opens, before, large := 0, 0, 0 // before: new sessions in the entries before the last Put
		for i, entry := range p.entries[packInFlight:] {
			n := 0
			for _, cmd := range entry {
				switch cmd := cmd.(type) {
				case fsm.OpenSession:
					if !cmd.Internal {
						n++
					}
				case fsm.Put:
					before = opens
					if cmd.Key == "large" {
						large++
					}
				case fsm.Expire:
					if i > 0 {
						t.Errorf("an Expire waited for %d entries", i)
					}
				}
			}
			if n > packOpens {
				t.Errorf("%d new sessions in an entry", n)
			}
			opens += n
		}
		if opens != 2*packCommands || large != 1 {
			t.Errorf("%d new sessions, %d large values", opens, large)
		}
		if before < packOpens {
			t.Errorf("%d new sessions before the last of the changes", before)
		}
	})
}

func TestTooManyWaitingChangesAreRefused(t *testing.T) {
	withPress(t, func(t *testing.T, p *press) {
		for range packInFlight {
			p.mustPut("first", 1)
			synctest.Wait()
		}
		const large = packQueued / 8
		for range 7 {
			p.mustPut("k", large)
		}
		if err := p.put("refused", large); !errors.Is(err, errBusy) {
			t.Error(err)
		}
		p.land(nil)
		p.mustPut("k", large)
		p.wantEnds("first written")
	})
}

func TestG12_AnEndedPackerFailsEachChangeOnce(t *testing.T) {
	withPress(t, func(t *testing.T, p *press) {
		for i := range packInFlight {
			p.mustPut(fmt.Sprint(i), 1)
			synctest.Wait()
		}
		p.mustPut("queued", 1)
		p.stop()
		synctest.Wait()
		for range packInFlight {
			p.land(nil) // too late
		}
		if err := p.put("late", 1); !errors.Is(err, errClosing) {
			t.Error(err)
		}
		synctest.Wait()
		slices.Sort(p.ends)
		closing := " failed: " + errClosing.Error()
		p.wantEnds("0"+closing, "1"+closing, "queued"+closing)
		p.want(1, 1)
	})
}
