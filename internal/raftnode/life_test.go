package raftnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// From the moment the switch is thrown nothing leaves the node, nothing is applied, and the node stops.
func TestG11_APoisonedNodeIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		l.propose(t, "before")
		time.Sleep(election)
		term := l.ActiveTerm()
		cause := errors.New("disk")
		release := linger(l)
		l.sw.Trip(cause)
		l.wire.mu.Lock()
		l.wire.sent = func() { t.Error("a request left the node") }
		l.wire.mu.Unlock()
		mustSendNothing(t, l, c.others(l)[0])
		if l.ActiveTerm() != 0 {
			t.Error("it is active")
		}
		if err := l.WaitEvidence(t.Context(), term, 0, false); !errors.Is(err, cause) {
			t.Errorf("evidence: %v", err)
		}
		if _, err := l.ReadIndex(t.Context()); !errors.Is(err, cause) {
			t.Errorf("read: %v", err)
		}
		f := c.others(l)[0]
		id, addr := raft.ServerID(l.ID()), raft.ServerAddress(l.ID())
		head := f.inbound.header()
		var append1 raft.AppendEntriesResponse
		var vote raft.RequestVoteResponse
		var prevote raft.RequestPreVoteResponse
		for name, err := range map[string]error{
			"append":  f.wire.AppendEntries(id, addr, &raft.AppendEntriesRequest{RPCHeader: head, Term: term}, &append1),
			"vote":    f.wire.RequestVote(id, addr, &raft.RequestVoteRequest{RPCHeader: head, Term: term + 9, LeadershipTransfer: true}, &vote),
			"prevote": f.wire.RequestPreVote(id, addr, &raft.RequestPreVoteRequest{RPCHeader: head, Term: term + 9}, &prevote),
		} {
			if err == nil {
				t.Errorf("%s: answered", name)
			}
		}
		if state := l.raft.Load().State(); state == raft.Shutdown {
			t.Error("raft was shut down already: the test shows little")
		}
		release()
		<-l.Done()
		if err := l.Propose(t.Context(), []byte("after")); !errors.Is(err, cause) || !errors.Is(err, ErrNotProposed) {
			t.Errorf("propose: %v", err)
		}
		if err := l.WaitApplied(t.Context(), 1<<40); !errors.Is(err, cause) {
			t.Errorf("wait: %v", err)
		}
		c.leader(l).propose(t, "the others go on")
	})
}

// linger keeps raft running behind a thrown switch, as a call that is under way does.
func linger(m *member) (release func()) {
	m.inflight.enter()
	return m.inflight.leave
}

func mustSendNothing(t *testing.T, from, to *member) {
	t.Helper()
	id, addr, head, tr := raft.ServerID(to.ID()), raft.ServerAddress(to.ID()), from.inbound.header(), from.network
	_, pipeline := tr.AppendEntriesPipeline(id, addr)
	for name, err := range map[string]error{
		"append":   tr.AppendEntries(id, addr, &raft.AppendEntriesRequest{RPCHeader: head}, &raft.AppendEntriesResponse{}),
		"pipeline": pipeline,
		"vote":     tr.RequestVote(id, addr, &raft.RequestVoteRequest{RPCHeader: head}, &raft.RequestVoteResponse{}),
		"prevote":  tr.RequestPreVote(id, addr, &raft.RequestPreVoteRequest{RPCHeader: head}, &raft.RequestPreVoteResponse{}),
		"snapshot": tr.InstallSnapshot(id, addr, &raft.InstallSnapshotRequest{RPCHeader: head}, &raft.InstallSnapshotResponse{}, strings.NewReader("")),
		"timeout":  tr.TimeoutNow(id, addr, &raft.TimeoutNowRequest{RPCHeader: head}, &raft.TimeoutNowResponse{}),
	} {
		if !errors.Is(err, from.sw.Err()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A poisoned follower does not even answer heartbeats, which would not have touched its disk.
func TestG11_APoisonedFollowerAnswersNoHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		f := c.others(l)[0]
		time.Sleep(election)
		beat := &raft.AppendEntriesRequest{RPCHeader: l.inbound.header(), Term: l.ActiveTerm()}
		var resp raft.AppendEntriesResponse
		if err := l.wire.AppendEntries(raft.ServerID(f.ID()), raft.ServerAddress(f.ID()), beat, &resp); err != nil || !resp.Success {
			t.Fatalf("%v %+v", err, resp)
		}
		defer linger(f)()
		f.sw.Trip(errors.New("disk"))
		if err := l.wire.AppendEntries(raft.ServerID(f.ID()), raft.ServerAddress(f.ID()), beat, &resp); err == nil {
			t.Error("it answers")
		}
	})
}

// A store that failed reports success to raft, because raft cannot live with the error. That answer must not count.
func TestG11_TheAnswerToAFailedWriteDoesNotLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		dead, f := c.others(l)[0], c.others(l)[1]
		time.Sleep(election)
		c.cut(dead, l, f)
		f.store.set(func(s *memStore) { s.failWrite = errors.New("input/output error") })
		if err := l.Propose(t.Context(), []byte("x")); !errors.Is(err, ErrUnknown) {
			t.Errorf("an entry on one disk of three: %v", err)
		}
		if l.machine.has("x") {
			t.Error("it was applied")
		}
		<-f.Done()
	})
}

// A leader whose own disk fails does not count itself.
func TestG11_AFailedLeaderHandsNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		l.store.set(func(s *memStore) { s.failWrite = errors.New("no space left on device") })
		if err := l.Propose(t.Context(), []byte("x")); !errors.Is(err, ErrUnknown) {
			t.Errorf("propose: %v", err)
		}
		<-l.Done()
		if l.machine.has("x") {
			t.Error("it was applied")
		}
		n := c.leader(l)
		n.propose(t, "y")
		if n.machine.has("x") {
			t.Error("it was replicated")
		}
	})
}

// A broken invariant in the machine stops the node, and nothing more is applied: an error and a panic alike.
func TestG12_ABrokenMachineStopsTheNode(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("impossible") },
		"panic": func() error { panic("impossible") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCell(t, 3, 0, nil)
				l := c.leader()
				f := c.others(l)[0]
				gate := make(chan struct{})
				f.machine.mu.Lock()
				f.machine.fail = func(data []byte) error {
					switch string(data) {
					case "good":
						<-gate
					case "bad":
						return fail()
					}
					return nil
				}
				f.machine.mu.Unlock()
				release := linger(f)
				for _, s := range []string{"good", "bad", "later", "last"} {
					l.propose(t, s)
				}
				time.Sleep(election / 2)
				close(gate) // the rest is on its way to the machine by now
				time.Sleep(election / 2)
				release()
				<-f.Done()
				if err := f.sw.Err(); err == nil || !strings.Contains(err.Error(), "impossible") || !strings.Contains(err.Error(), "entry") {
					t.Errorf("it stopped for %v", err)
				}
				if got := f.machine.list(); len(got) != 1 || got[0] != "good" {
					t.Errorf("it applied %v", got)
				}
			})
		})
	}
}

// Raft forgets the futures of what it has not applied when it is shut down. Nobody may wait for them.
func TestG12_ProposalsEndWithTheNode(t *testing.T) {
	for _, poisoned := range []bool{false, true} {
		t.Run(fmt.Sprint("poisoned ", poisoned), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCell(t, 1, 0, nil)
				l := c.leader()
				gate := make(chan struct{})
				l.machine.mu.Lock()
				l.machine.fail = func([]byte) error { <-gate; return nil }
				l.machine.mu.Unlock()
				var answered atomic.Int32
				var wg sync.WaitGroup
				for range 300 {
					wg.Go(func() {
						_ = l.Propose(context.Background(), []byte("x"))
						answered.Add(1)
					})
				}
				time.Sleep(latency)
				if n := answered.Load(); n != 0 {
					t.Fatalf("%d were answered before", n)
				}
				if poisoned {
					l.sw.Trip(errors.New("disk"))
				} else {
					go func() { _ = l.Shutdown() }()
				}
				time.Sleep(2 * election)
				close(gate)
				<-l.Done()
				wg.Wait()
			})
		})
	}
}

// A leader without a quorum ends its proposals within an election timeout or two of Shutdown.
func TestShutdownWithoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, func(_ int, cfg *Config) { cfg.ElectionTimeout = 10 * time.Second })
		l := c.leader()
		c.cut(l, c.others(l)...)
		got := make(chan error, 1)
		go func() { got <- l.Propose(context.Background(), []byte("x")) }()
		time.Sleep(latency)
		began := time.Now()
		_ = l.Shutdown()
		if d := time.Since(began); d > 11*time.Second {
			t.Errorf("Shutdown took %v", d)
		}
		if err := <-got; !errors.Is(err, ErrUnknown) {
			t.Errorf("propose: %v", err)
		}
	})
}

// A poisoned leader does not wait for anybody: what is under way is answered as unknown.
func TestAPoisonedLeaderStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, func(_ int, cfg *Config) { cfg.ElectionTimeout = 10 * time.Second })
		l := c.leader()
		c.cut(l, c.others(l)...)
		got := make(chan error, 1)
		go func() { got <- l.Propose(context.Background(), []byte("x")) }()
		time.Sleep(latency)
		began := time.Now()
		l.sw.Trip(errors.New("disk"))
		if err := <-got; !errors.Is(err, ErrUnknown) {
			t.Errorf("propose: %v", err)
		}
		if d := time.Since(began); d > 10*latency {
			t.Errorf("the proposal was answered after %v", d)
		}
	})
}

func TestProposeSaysWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		if err := c.others(l)[0].Propose(t.Context(), []byte("x")); !errors.Is(err, ErrNotProposed) {
			t.Errorf("on a follower: %v", err)
		}
		c.cut(l, c.others(l)...)
		ctx, cancel := context.WithTimeout(t.Context(), latency)
		defer cancel()
		if err := l.Propose(ctx, []byte("x")); !errors.Is(err, ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with ctx ended: %v", err)
		}
		if err := l.Propose(t.Context(), []byte("x")); !errors.Is(err, ErrUnknown) {
			t.Errorf("leadership lost: %v", err)
		}
		_ = l.Shutdown()
		if err := l.Propose(t.Context(), []byte("x")); !errors.Is(err, ErrNotProposed) || !errors.Is(err, ErrStopped) {
			t.Errorf("after Shutdown: %v", err)
		}
	})
}

// A term is begun because raft leads it, not because somebody heard of it: LeaderCh and observations may all be lost.
func TestG3_TermStartIsALevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 1, 0, nil)
		l := c.leader()
		stop := make(chan struct{})
		var thieves sync.WaitGroup
		for range 200 { // take nearly every wake-up
			thieves.Go(func() {
				for {
					select {
					case <-l.raft.Load().LeaderCh():
					case <-l.observed:
					case <-l.kicked:
					case <-stop:
						return
					}
				}
			})
		}
		for range 20 {
			before := l.ActiveTerm()
			l.inbound.resign(before)
			eventually(t, "the next term is active", func() bool { return l.ActiveTerm() > before })
			l.propose(t, "x")
		}
		close(stop)
		thieves.Wait()
	})
}

// An answer has shown a later term, and raft did not look: the node must not stay a leader that may not act.
func TestG3_ALeaderThatMayNotActStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 1, 0, nil)
		l := c.leader()
		term := l.ActiveTerm()
		l.network.answered("x", &raft.AppendEntriesRequest{Term: term}, &raft.AppendEntriesResponse{Term: term + 1}, l.evidence.next())
		if l.ActiveTerm() != 0 {
			t.Error("it is active")
		}
		eventually(t, "a later term is active", func() bool { return l.ActiveTerm() > term })
	})
}

// Leadership that comes and goes: Activated and Deactivated come in pairs (see activity), and each active term is one
// whose TermStart was applied.
func TestG3_LeadershipFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		for i := range 30 {
			l := c.leader()
			term := l.ActiveTerm()
			switch i % 3 {
			case 0:
				l.inbound.resign(term)
			case 1:
				_ = l.Transfer(t.Context(), "")
			case 2:
				c.cut(l, c.others(l)...)
				c.leader(l)
				c.heal()
			}
			eventually(t, "a later term is active", func() bool { return c.leader().ActiveTerm() > term })
			if i%2 == 0 {
				c.leader().propose(t, fmt.Sprint(i))
			}
		}
	})
}

// The TermStart that counts carries the nonce of the term, and was appended in that term.
func TestG3_WhichTermStartCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 1, 0, nil)
		l := c.leader()
		term := l.ActiveTerm()
		l.termMu.Lock()
		nonce := l.start.nonce
		l.termMu.Unlock()
		l.deactivate(ErrNotActive)
		l.termStarted(nonce, term)
		if l.ActiveTerm() != 0 {
			t.Error("a copy of it made the term active again")
		}
		l.start.active = false // as before it was applied
		l.acts.terms = nil
		other := nonce
		other[0]++
		l.termStarted(other, term)
		l.termStarted(nonce, term-1)
		l.termStarted(nonce, term+1)
		l.termStarted([16]byte{}, term)
		l.start.term = term - 1 // proposed in one term, appended in the next
		l.termStarted(nonce, term)
		l.start.term = term
		if l.ActiveTerm() != 0 {
			t.Error("a TermStart counted that must not")
		}
		l.evidence.see(term + 1)
		l.termStarted(nonce, term)
		if l.active.Load() != 0 {
			t.Error("it counted although a later term has been seen")
		}
		l.evidence.seen.Store(term)
		l.termStarted(nonce, term)
		if l.ActiveTerm() != term {
			t.Error("the one of the term did not count")
		}
	})
}

// When Activated runs nothing can have been acknowledged for the term: ActiveTerm does not report it yet.
func TestG3_ActivatedComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *member
		c := startCell(t, 1, 0, func(_ int, cfg *Config) {
			was := cfg.Activated
			cfg.Activated = func(term uint64) {
				if l != nil && (l.ActiveTerm() != 0 || l.WaitEvidence(context.Background(), term, 0, false) == nil) {
					t.Error("active before Activated has returned")
				}
				was(term)
			}
		})
		l = c.leader()
		term := l.ActiveTerm()
		l.inbound.resign(term)
		eventually(t, "the next term is active", func() bool { return l.ActiveTerm() > term })
	})
}

func TestTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 1, nil)
		l := c.leader()
		if err := l.Transfer(t.Context(), "n3"); err == nil {
			t.Error("to a non-voter")
		}
		if err := l.Transfer(t.Context(), l.ID()); err == nil {
			t.Error("to itself")
		}
		for _, m := range c.nodes[:3] {
			l := c.leader()
			if m == l {
				continue
			}
			began := time.Now()
			if err := l.Transfer(t.Context(), m.ID()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the target leads", func() bool { return m.ActiveTerm() != 0 })
			if d := time.Since(began); d > 20*latency {
				t.Errorf("it took %v", d)
			}
		}
		if err := c.others(c.leader())[0].Transfer(t.Context(), ""); !errors.Is(err, ErrNotActive) {
			t.Errorf("on a follower: %v", err)
		}
	})
}

// A transfer to a follower that does not answer must not refuse writes for longer than it says.
func TestAStuckTransferIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		f := c.others(l)[0]
		c.cut(f, l)
		l.propose(t, "x") // f lacks it
		term := l.ActiveTerm()
		for range 3 {
			began := time.Now()
			got := make(chan error, 1)
			go func() { got <- l.Transfer(t.Context(), f.ID()) }()
			time.Sleep(latency)
			if err := l.Propose(t.Context(), []byte("y")); !errors.Is(err, ErrNotProposed) {
				t.Errorf("while it lasts: %v", err)
			}
			if err := <-got; err == nil {
				t.Fatal("it succeeded")
			}
			if d := time.Since(began); d > 2*election+latency {
				t.Errorf("it took %v", d)
			}
			l.propose(t, "z")
		}
		if l.ActiveTerm() != term {
			t.Error("the leader changed: the test shows nothing")
		}
	})
}

// A leader whose disk hangs, and raft's main loop with it, is replaced at once; it must not go on leading.
func TestAHungStoreHandsTheLeadershipOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		l.propose(t, "x")
		time.Sleep(election)
		hang := make(chan struct{})
		l.store.set(func(s *memStore) { s.hang = hang })
		go func() { _ = l.Propose(context.Background(), []byte("stuck")) }()
		time.Sleep(20 * election)
		if l.ActiveTerm() == 0 {
			t.Fatal("raft mended that itself: the test shows nothing")
		}
		began := time.Now()
		l.Stall()
		n := c.leader(l)
		if d := time.Since(began); d > 50*latency {
			t.Errorf("the next leader took %v", d)
		}
		n.propose(t, "y")
		eventually(t, "the old leader is inactive, though its disk hangs", func() bool { return l.ActiveTerm() == 0 })
		l.sw.Trip(errors.New("the disk does not answer"))
		close(hang) // as the store promises: its calls return when the switch is thrown
		<-l.Done()
		if n.machine.has("stuck") {
			t.Error("what hung was committed")
		}
	})
}

// Stall goes on to the next voter if the best one cannot be reached, and does nothing elsewhere.
func TestStallTriesTheNextVoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		time.Sleep(election)
		c.others(l)[0].Stall()
		first := l.byProgress()[0]
		for _, m := range c.others(l) {
			if m.ID() == string(first) {
				l.wire.cut(m.ID(), true)
			}
		}
		l.Stall()
		if n := c.leader(l); n.ID() == string(first) {
			t.Error("the one that was cut off leads")
		}
	})
}

func TestLeaderChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		time.Sleep(election)
		var wg sync.WaitGroup
		for _, m := range c.nodes {
			wg.Go(func() {
				for {
					changed := m.LeaderChanged()
					if id, _ := m.Leader(); id != l.ID() && id != "" {
						return
					}
					<-changed
				}
			})
		}
		if err := l.Transfer(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		for _, m := range c.nodes {
			changed := m.LeaderChanged()
			_ = m.Shutdown()
			if m.ActiveTerm() != 0 {
				t.Error("active after Shutdown")
			}
			select {
			case <-changed:
			default:
				t.Errorf("%s: Shutdown was not announced", m.ID())
			}
		}
	})
}
