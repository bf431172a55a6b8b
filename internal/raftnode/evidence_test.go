package raftnode

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// handOver brings the old leader into the state in which VerifyLeader lies: it does not know yet that another node leads,
// and has answers to old requests on the way to it. It returns the new leader.
func handOver(c *cell, old *member, voters []*member) *member {
	go old.Transfer(c.t.Context(), "")
	for range 1000 {
		for _, m := range voters {
			if m != old && m.ActiveTerm() != 0 {
				return m
			}
		}
		time.Sleep(time.Millisecond)
	}
	c.t.Fatal("no new leader")
	return nil
}

// mustLackEvidence checks that old, which still takes itself for the leader, gets no evidence for a moment after the new
// leader's commit.
func mustLackEvidence(t *testing.T, old *member) {
	t.Helper()
	term := old.ActiveTerm()
	if term == 0 {
		t.Fatal("the old leader knows already: the test shows nothing")
	}
	if err := old.WaitEvidence(t.Context(), term, old.Stamp(), true); err == nil {
		t.Error("evidence after another leader has committed")
	} else if !errors.Is(err, ErrNotActive) {
		t.Error(err)
	}
}

func TestG3G5_AnswersToOldRequestsAreNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, func(_ int, cfg *Config) { cfg.ElectionTimeout = time.Second })
		old := c.leader()
		old.propose(t, "old")
		time.Sleep(2 * time.Second)
		for _, m := range c.others(old) {
			old.wire.slow(m.ID(), 400*time.Millisecond) // answers only: old's requests arrive
		}
		time.Sleep(300 * time.Millisecond)
		for _, m := range c.others(old) {
			m.wire.cut(old.ID(), true)
		}
		l := handOver(c, old, c.nodes)
		c.cut(old, c.others(old)...)
		l.propose(t, "new")
		mustLackEvidence(t, old)
	})
}

func TestG3G5_AnswersOfNonvotersAreNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 2, func(_ int, cfg *Config) { cfg.ElectionTimeout = time.Second })
		old := c.leader()
		old.propose(t, "old")
		time.Sleep(2 * time.Second)
		voters, others := c.nodes[:3], c.nodes[3:]
		for _, m := range voters {
			if m != old {
				old.wire.slow(m.ID(), 400*time.Millisecond) // so that it does not hear of the election
				m.wire.cut(old.ID(), true)
				for _, o := range others {
					m.wire.cut(o.ID(), true)
				}
			}
		}
		l := handOver(c, old, voters)
		for _, m := range voters {
			if m != old {
				old.wire.cut(m.ID(), true)
			}
		}
		l.propose(t, "new")
		mustLackEvidence(t, old)
	})
}

// An entry that a leader has committed is covered by ReadIndex on that leader, on the spot.
func TestG5_ReadIndexCoversWhatWasCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		for _, s := range []string{"a", "b", "c"} {
			l.propose(t, s)
			index, err := l.ReadIndex(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range c.nodes {
				if err := m.WaitApplied(t.Context(), index); err != nil {
					t.Fatal(err)
				}
				if !m.machine.has(s) {
					t.Errorf("%s has not applied %q", m.ID(), s)
				}
			}
		}
		if _, err := c.others(l)[0].ReadIndex(t.Context()); !errors.Is(err, ErrNotActive) {
			t.Errorf("a follower's ReadIndex: %v", err)
		}
	})
}

func TestEvidenceRoundsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, func(_ int, cfg *Config) { cfg.CommitTimeout, cfg.ElectionTimeout = time.Second, 20*time.Second })
		l := c.leader()
		time.Sleep(2*time.Second + 3*time.Millisecond)
		before := l.Stamp()
		start := time.Now()
		var wg sync.WaitGroup
		for range 2000 {
			wg.Go(func() {
				if err := l.WaitEvidence(t.Context(), l.ActiveTerm(), l.Stamp(), false); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(start); d > gatherTime+10*latency {
			t.Errorf("a shared round took %v", d)
		}
		if sent := l.Stamp() - before; sent > 10 {
			t.Errorf("2000 waits took %d AppendEntries", sent)
		}
		start = time.Now()
		if err := l.WaitEvidence(t.Context(), l.ActiveTerm(), l.Stamp(), true); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d >= gatherTime {
			t.Errorf("an urgent round took %v", d)
		}
	})
}

func TestEvidenceWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		term := l.ActiveTerm()
		c.cut(l, c.others(l)...)
		ctx, cancel := context.WithTimeout(t.Context(), latency)
		defer cancel()
		if err := l.WaitEvidence(ctx, term, l.Stamp(), true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with ctx ended: %v", err)
		}
		if err := l.WaitEvidence(t.Context(), term, l.Stamp(), true); !errors.Is(err, ErrNotActive) {
			t.Errorf("at the end of the term: %v", err)
		}
		if err := l.WaitEvidence(t.Context(), term, 0, true); !errors.Is(err, ErrNotActive) {
			t.Errorf("after the end of the term: %v", err)
		}
		c.heal()
		l = c.leader()
		term = l.ActiveTerm()
		c.cut(l, c.others(l)...)
		cause := errors.New("disk")
		time.AfterFunc(latency, func() { l.sw.Trip(cause) })
		if err := l.WaitEvidence(t.Context(), term, l.Stamp(), true); !errors.Is(err, cause) {
			t.Errorf("poisoned: %v", err)
		}
	})
}

// Which answers count, one by one.
func TestG3G5_WhatIsEvidence(t *testing.T) {
	voters := func(ids ...raft.ServerID) (s []raft.Server) {
		for _, id := range ids {
			s = append(s, raft.Server{ID: id, Address: raft.ServerAddress(id)})
		}
		return s
	}
	const term = 7
	type answer struct {
		from       raft.ServerID
		term, resp uint64
		success    bool
	}
	for _, tc := range []struct {
		name    string
		servers []raft.Server
		answers []answer
		want    bool
	}{
		{"none", voters("self", "b", "c"), nil, false},
		{"one of three and self", voters("self", "b", "c"), []answer{{"b", term, term, true}}, true},
		{"without success", voters("self", "b", "c"), []answer{{"b", term, term, false}}, true},
		{"a zero answer", voters("self", "b", "c"), []answer{{"b", term, 0, false}}, false},
		{"an earlier term's request", voters("self", "b", "c"), []answer{{"b", term - 1, term - 1, true}}, false},
		{"a later term", voters("self", "b", "c"), []answer{{"b", term, term + 1, false}}, false},
		{"one of five and self", voters("self", "b", "c", "d", "e"), []answer{{"b", term, term, true}}, false},
		{"the same one twice", voters("self", "b", "c", "d", "e"), []answer{{"b", term, term, true}, {"b", term, term, true}}, false},
		{"two of five and self", voters("self", "b", "c", "d", "e"), []answer{{"b", term, term, true}, {"e", term, term, true}}, true},
		{"one of two and self", voters("self", "b"), []answer{{"b", term, term, true}}, true},
		{"self alone of two", voters("self", "b"), nil, false},
		{"self is not a voter", voters("b", "c", "d"), []answer{{"b", term, term, true}}, false},
		{"a majority without self", voters("b", "c", "d"), []answer{{"b", term, term, true}, {"c", term, term, true}}, true},
		{"a stranger", voters("self", "b", "c"), []answer{{"x", term, term, true}}, false},
		{"alone", voters("self"), nil, true},
		{"alone with a non-voter", append(voters("self"), raft.Server{Suffrage: raft.Nonvoter, ID: "b", Address: "b"}), nil, true},
		{"no configuration", nil, []answer{{"b", term, term, true}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEvidence("self", func() raft.Configuration { return raft.Configuration{Servers: tc.servers} })
			tr := &transport{evidence: e, superseded: func() {}}
			e.open(term)
			need := e.now()
			for _, a := range tc.answers {
				tr.answered(a.from, &raft.AppendEntriesRequest{Term: a.term}, &raft.AppendEntriesResponse{Term: a.resp, Success: a.success}, e.next())
			}
			r, err := e.join(term, need)
			if err != nil {
				t.Fatal(err)
			}
			if got := r == nil; got != tc.want {
				t.Errorf("evidence: %v, want %v", got, tc.want)
			}
			if r, err := e.join(term, e.now()); err != nil || (r == nil && len(tc.servers) != 1 && tc.name != "alone with a non-voter") {
				t.Errorf("evidence for what was not sent yet: %v %v", r, err)
			}
			if _, err := e.join(term-1, need); !errors.Is(err, ErrNotActive) {
				t.Errorf("evidence for another term: %v", err)
			}
		})
	}
}

// A node that has stepped down, and may have voted in a later term, does not count itself, even before it has noticed.
func TestG3G5_TheOwnVoteCountsOnlyWhileLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		term := l.ActiveTerm()
		l.inbound.resign(term)
		time.Sleep(latency)
		// As if nobody had told the evidence, and an old heartbeat had been answered just now.
		l.evidence.open(term)
		stamp := l.Stamp()
		l.evidence.answered(raft.ServerID(c.others(l)[0].ID()), term, l.evidence.next(), 0)
		if r, err := l.evidence.join(term, stamp); r != nil || err != nil {
			t.Fatal("the test shows nothing")
		}
		if err := l.WaitEvidence(t.Context(), term, stamp, true); !errors.Is(err, ErrNotActive) {
			t.Errorf("evidence of a node that does not lead: %v", err)
		}
		l.evidence.close(ErrNotActive)
	})
}

// A snapshot that was installed shows how far a server is, and proves nothing about the present.
func TestG3G5_AnInstalledSnapshotIsNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEvidence("self", func() raft.Configuration {
			return raft.Configuration{Servers: []raft.Server{{ID: "self", Address: "self"}, {ID: "b", Address: "b"}}}
		})
		_, inner := raft.NewInmemTransport("self")
		_, other := raft.NewInmemTransport("b")
		inner.Connect("b", other)
		go func() {
			rpc := <-other.Consumer()
			rpc.Respond(&raft.InstallSnapshotResponse{Term: 7, Success: true}, nil)
		}()
		tr := &transport{inner: inner, evidence: e, superseded: func() {}, sw: newSwitch()}
		e.open(7)
		need := e.now()
		var resp raft.InstallSnapshotResponse
		if err := tr.InstallSnapshot("b", "b", &raft.InstallSnapshotRequest{Term: 7, LastLogIndex: 9}, &resp, strings.NewReader("")); err != nil {
			t.Fatal(err)
		}
		if r, _ := e.join(7, need); r == nil {
			t.Error("it is evidence")
		}
		if match := e.snapshot()["b"].match; match != 9 {
			t.Errorf("match is %d", match)
		}
	})
}

// EvidenceAge counts from the last proof: for a follower that is cut off, and for a leader from what its own last evidence
// was, not from the moment at which it gave up.
func TestG9_EvidenceAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		for _, m := range []*member{c.leader(), c.others(c.leader())[0]} {
			time.Sleep(election)
			c.cut(m, c.others(m)...)
			time.Sleep(10 * election)
			if age := m.EvidenceAge(); age < 9*election || age > 11*election {
				t.Errorf("after %v without the others: %v", 10*election, age)
			}
			c.heal()
			c.leader()
			time.Sleep(2 * election)
			if age := m.EvidenceAge(); age < 0 || age > election {
				t.Errorf("back among the others: %v", age)
			}
		}
		x := c.add("x", func(*Config) {})
		if age := x.EvidenceAge(); age >= 0 {
			t.Errorf("without ever having had a leader: %v", age)
		}
	})
}

// Raft is asked for a round only if one is needed that was not asked for yet.
func TestWhenARoundIsDue(t *testing.T) {
	e := newEvidence("self", func() raft.Configuration {
		return raft.Configuration{Servers: []raft.Server{{ID: "self", Address: "self"}, {ID: "b", Address: "b"}}}
	})
	e.open(7)
	join := func() {
		if r, err := e.join(7, e.now()); r == nil || err != nil {
			t.Fatal(r, err)
		}
	}
	due := func(what string, want bool) {
		t.Helper()
		if got := e.due(); got != want {
			t.Errorf("%s: due %v", what, got)
		}
	}
	due("nobody waits", false)
	join()
	due("one waits", true)
	due("a round is on its way", false)
	join()
	due("it will do for another", false)
	e.next()
	join()
	due("it has left", true)
	e.answered("b", 7, e.next(), 0)
	due("all have evidence", false)
}

// A pipelined AppendEntries that failed is delivered all the same. It is no evidence, whatever its answer holds, and raft
// does not get to take it for contact.
func TestG3G5_AFailedPipelinedAppendIsNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEvidence("self", func() raft.Configuration {
			return raft.Configuration{Servers: []raft.Server{{ID: "self", Address: "self"}, {ID: "b", Address: "b"}}}
		})
		tr := &transport{evidence: e, superseded: func() {}, sw: newSwitch()}
		inner := &fakePipeline{out: make(chan raft.AppendFuture, 1)}
		p := newPipeline(tr, "b", inner)
		e.open(7)
		send := func(err error) {
			resp := &raft.AppendEntriesResponse{}
			if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 7, PrevLogEntry: 3}, resp); err != nil {
				t.Fatal(err)
			}
			resp.Term, resp.Success = 7, true
			inner.out <- &fakeFuture{inner.sent, resp, err}
			synctest.Wait()
		}
		need := e.now()
		send(nil)
		if f := <-p.Consumer(); f.Error() != nil {
			t.Fatal(f.Error())
		}
		if r, _ := e.join(7, need); r != nil {
			t.Error("an append that succeeded is no evidence")
		}
		need = e.now()
		send(errors.New("connection reset"))
		if r, _ := e.join(7, need); r == nil {
			t.Error("a failed append is evidence")
		}
		select {
		case <-p.Consumer():
			t.Error("raft is shown the failed append")
		default:
		}
		if !inner.closed {
			t.Error("the pipeline goes on after a failed append")
		}
		e.close(ErrNotActive)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

type fakePipeline struct {
	out    chan raft.AppendFuture
	sent   *raft.AppendEntriesRequest
	closed bool
}

func (p *fakePipeline) AppendEntries(req *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.sent = req
	return nil, nil
}
func (p *fakePipeline) Consumer() <-chan raft.AppendFuture { return p.out }
func (p *fakePipeline) Close() error                       { p.closed = true; return nil }

type fakeFuture struct {
	req  *raft.AppendEntriesRequest
	resp *raft.AppendEntriesResponse
	err  error
}

func (f *fakeFuture) Error() error                          { return f.err }
func (f *fakeFuture) Start() time.Time                      { return time.Time{} }
func (f *fakeFuture) Request() *raft.AppendEntriesRequest   { return f.req }
func (f *fakeFuture) Response() *raft.AppendEntriesResponse { return f.resp }

// TestG9_EvidenceAgesWhileTheMachineSleeps: the age goes by the clock that is given, not by Go's, which stands still.
func TestG9_EvidenceAgesWhileTheMachineSleeps(t *testing.T) {
	var slept time.Duration
	clock := sinceNow()
	e := newEvidence("self", func() raft.Configuration {
		return raft.Configuration{Servers: []raft.Server{{ID: "self"}, {ID: "b"}, {ID: "c"}}}
	})
	e.clock = func() time.Duration { return clock() + slept }
	if age := e.age(); age >= 0 {
		t.Fatalf("before any evidence: %v", age)
	}
	e.answered("b", 1, e.next(), 0)
	slept = time.Hour
	if age := e.age(); age < time.Hour {
		t.Errorf("after an hour of sleep: %v", age)
	}
	in := &inbound{clock: e.clock}
	if silence := in.silence(); silence >= 0 {
		t.Fatalf("before the leader was heard: %v", silence)
	}
	in.hear()
	slept += time.Hour
	if silence := in.silence(); silence < time.Hour {
		t.Errorf("an hour after the leader was heard: %v", silence)
	}
}
