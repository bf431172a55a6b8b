package raftnode

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coordcell/coord/internal/failstop"
)

// A follower whose log store cannot truncate keeps a suffix that nobody agreed to. A request that compares only what lies
// before must not make it commit that suffix.
func TestG10_CommitIsClampedToWhatWasCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		old := c.leader()
		old.propose(t, "base")
		base, baseTerm := old.Applied()
		time.Sleep(time.Second)
		c.cut(old, c.others(old)...)
		var lost sync.WaitGroup
		for i := range 5 {
			lost.Go(func() { _ = old.Propose(t.Context(), fmt.Appendf(nil, "lost%d", i)) })
		}
		l := c.leader(old)
		lost.Wait()
		for i := range 20 {
			l.propose(t, fmt.Sprint("good", i))
		}
		old.store.set(func(s *memStore) { s.failTrunc = errors.New("no space left on device") })
		c.heal()
		eventually(t, "the old leader follows", func() bool { id, _ := old.Leader(); return id == l.ID() })
		req := &raft.AppendEntriesRequest{
			RPCHeader: l.inbound.header(), Term: l.ActiveTerm(),
			PrevLogEntry: base, PrevLogTerm: baseTerm, LeaderCommitIndex: l.Committed(),
		}
		var resp raft.AppendEntriesResponse
		if err := l.network.AppendEntries(raft.ServerID(old.ID()), raft.ServerAddress(old.ID()), req, &resp); err != nil || !resp.Success {
			t.Fatalf("%v %+v", err, resp)
		}
		if req.LeaderCommitIndex != l.Committed() {
			t.Error("raft's own request was changed")
		}
		time.Sleep(latency)
		if got := old.machine.list(); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "lost") }) {
			t.Errorf("%s applied %v", old.ID(), got)
		}
		old.store.set(func(s *memStore) { s.failTrunc = nil })
		eventually(t, "the old leader has caught up", func() bool { return old.machine.has("good19") })
		if got := old.machine.list(); got[1] != "good0" {
			t.Errorf("%s applied %v", old.ID(), got)
		}
	})
}

// One voter is dead and another one installs a snapshot, or waits for its disk: the leader goes on leading, with evidence.
func TestABusyFollowerDoesNotDeposeTheLeader(t *testing.T) {
	t.Run("snapshot", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := startCell(t, 3, 0, func(_ int, cfg *Config) { cfg.TrailingLogs = 1 })
			l := c.leader()
			dead, slow := c.others(l)[0], c.others(l)[1]
			c.cut(slow, dead, l)
			for i := range 20 {
				l.propose(t, fmt.Sprint(i))
			}
			if err := l.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
			slow.machine.restore = 8 * election
			c.heal()
			c.cut(dead, slow, l)
			mustKeepLeading(t, l, func() bool { return slow.machine.has("19") })
		})
	})
	t.Run("disk", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := startCell(t, 3, 0, nil)
			l := c.leader()
			dead, slow := c.others(l)[0], c.others(l)[1]
			c.cut(dead, slow, l)
			slow.store.set(func(s *memStore) { s.delay = 8 * election })
			go func() { _ = l.Propose(t.Context(), []byte("x")) }()
			mustKeepLeading(t, l, func() bool { return slow.machine.has("x") })
			slow.store.set(func(s *memStore) { s.delay = 0 })
		})
	})
}

func mustKeepLeading(t *testing.T, l *member, done func() bool) {
	t.Helper()
	term, began := l.ActiveTerm(), time.Now()
	for !done() && time.Since(began) < time.Minute {
		if now := l.ActiveTerm(); now != term {
			t.Fatalf("after %v term %d is active, not %d", time.Since(began), now, term)
		}
		asked := time.Now()
		if err := l.WaitEvidence(t.Context(), term, l.Stamp(), true); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(asked); d > 2*election { // the first RPC may have been under way when the cut was mended
			t.Fatalf("evidence took %v", d)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if d := time.Since(began); d < 4*election || d > 30*election {
		t.Errorf("it took %v: the test shows nothing, or the follower began anew", d)
	}
}

// A heartbeat is answered beside raft's main loop only if raft would have nothing to change.
func TestWhichHeartbeatsAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		f, g := c.others(l)[0], c.others(l)[1]
		time.Sleep(election)
		term := l.ActiveTerm()
		beat := func(from *member, term uint64) *raft.AppendEntriesRequest {
			return &raft.AppendEntriesRequest{RPCHeader: from.inbound.header(), Term: term}
		}
		if resp := f.inbound.answerHeartbeat(beat(l, term)); resp == nil || resp.Term != term || !resp.Success {
			t.Errorf("of the leader: %+v", resp)
		}
		entries := beat(l, term)
		entries.Entries = []*raft.Log{{Index: 1, Term: 1}}
		commit := beat(l, term)
		commit.LeaderCommitIndex = 1
		for name, req := range map[string]*raft.AppendEntriesRequest{
			"of a later term": beat(l, term+1), "of an earlier term": beat(l, term-1), "of another node": beat(g, term),
			"with entries": entries, "with a commit index": commit, "without a sender": {Term: term},
		} {
			if resp := f.inbound.answerHeartbeat(req); resp != nil {
				t.Errorf("%s: answered with %+v", name, resp)
			}
		}
		if resp := l.inbound.answerHeartbeat(beat(l, term)); resp != nil {
			t.Error("the leader answers itself")
		}
	})
}

// Raft has to see the heartbeats that were answered for it, else it would stand for election.
func TestAnsweredHeartbeatsRefreshTheFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Only heartbeats are sent: the commit timeout never ends, and nothing is proposed.
		c := startCell(t, 3, 0, func(_ int, cfg *Config) { cfg.CommitTimeout = time.Hour })
		l := c.leader()
		term := l.ActiveTerm()
		time.Sleep(100 * election)
		if now := l.ActiveTerm(); now != term {
			t.Errorf("term %d is active after idle time, not %d", now, term)
		}
		for _, m := range c.nodes {
			if age := m.EvidenceAge(); age > election {
				t.Errorf("%s: evidence is %v old", m.ID(), age)
			}
		}
	})
}

func TestTimeoutNowIsObeyedFromTheLeaderOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 1, nil)
		l := c.leader()
		voters := c.nodes[:3]
		f, g := voters[(slices.Index(voters, l)+1)%3], voters[(slices.Index(voters, l)+2)%3]
		time.Sleep(election)
		term := l.ActiveTerm()
		ask := func(from, to *member) error {
			return from.network.TimeoutNow(raft.ServerID(to.ID()), raft.ServerAddress(to.ID()),
				&raft.TimeoutNowRequest{RPCHeader: from.inbound.header()}, &raft.TimeoutNowResponse{})
		}
		for name, err := range map[string]error{
			"of another follower": ask(f, g), "to a non-voter": ask(l, c.nodes[3]), "to the leader": ask(f, l),
		} {
			if err == nil {
				t.Errorf("%s: obeyed", name)
			}
		}
		if l.inbound.mayDepose(&raft.TimeoutNowRequest{RPCHeader: l.inbound.header()}) {
			t.Error("the leader deposes itself")
		}
		if g.inbound.mayDepose(&raft.TimeoutNowRequest{RPCHeader: g.inbound.header()}) {
			t.Error("whoever calls itself by the follower's own name is obeyed")
		}
		time.Sleep(2 * election)
		if now := l.ActiveTerm(); now != term {
			t.Errorf("term %d is active, not %d", now, term)
		}
		if err := ask(l, g); err != nil {
			t.Error(err)
		}
		eventually(t, "the one that was asked leads", func() bool { return g.ActiveTerm() > term })
	})
}

// The address of each node is its id, whatever the network below calls itself, and no other is accepted.
func TestAddressesAreNodeIDs(t *testing.T) {
	tr := &transport{id: "self"}
	if tr.LocalAddr() != "self" || string(tr.EncodePeer("b", "10.0.0.1:7420")) != "b" {
		t.Error("an address is not an id")
	}
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		f, g := c.others(l)[0], c.others(l)[1]
		l.wire.cut(f.ID(), true)
		time.Sleep(2 * election) // f has no leader
		// g stands at the address of the leader and asks for its vote.
		req := &raft.RequestVoteRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte(g.ID()), Addr: []byte(l.ID())},
			Term:      l.ActiveTerm() + 10, LastLogIndex: 1 << 20, LastLogTerm: 1 << 20, LeadershipTransfer: true,
		}
		var resp raft.RequestVoteResponse
		if err := g.wire.InmemTransport.RequestVote("", raft.ServerAddress(f.ID()), req, &resp); err == nil || resp.Granted {
			t.Errorf("vote: %v %+v", err, resp)
		}
	})
}

// What raft would panic about, and with it the program that embeds us, is refused before raft sees it.
func TestG12_MalformedRequestsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		l.propose(t, "x")
		f := c.others(l)[0]
		time.Sleep(election)
		last, term := f.LastIndex(), l.ActiveTerm()
		conf := func(servers ...raft.Server) []byte {
			return raft.EncodeConfiguration(raft.Configuration{Servers: servers})
		}
		good := raft.Server{ID: "n0", Address: "n0"}
		entry := func(l raft.Log) *raft.AppendEntriesRequest {
			if l.Index == 0 {
				l.Index = last + 1
			}
			if l.Term == 0 {
				l.Term = term
			}
			return &raft.AppendEntriesRequest{PrevLogEntry: last, PrevLogTerm: term, Entries: []*raft.Log{&l}}
		}
		for name, req := range map[string]*raft.AppendEntriesRequest{
			"unknown type":          entry(raft.Log{Type: 77}),
			"deprecated type":       entry(raft.Log{Type: raft.LogAddPeerDeprecated, Data: []byte{0xff}}),
			"garbled configuration": entry(raft.Log{Type: raft.LogConfiguration, Data: []byte{0xc1, 0xff}}),
			"empty configuration":   entry(raft.Log{Type: raft.LogConfiguration}),
			"no voter":              entry(raft.Log{Type: raft.LogConfiguration, Data: conf(raft.Server{Suffrage: raft.Nonvoter, ID: "n0", Address: "n0"})}),
			"server twice":          entry(raft.Log{Type: raft.LogConfiguration, Data: conf(good, good)}),
			"address is no id":      entry(raft.Log{Type: raft.LogConfiguration, Data: conf(good, raft.Server{ID: "b", Address: "10.0.0.1:1"})}),
			"unknown suffrage":      entry(raft.Log{Type: raft.LogConfiguration, Data: conf(good, raft.Server{Suffrage: 9, ID: "b", Address: "b"})}),
			"gap":                   entry(raft.Log{Index: last + 2}),
			"repeated index":        entry(raft.Log{Index: last}),
			"term of the future":    entry(raft.Log{Term: term + 1}),
			"term goes back":        entry(raft.Log{Term: term - 1}),
			"missing entry":         {PrevLogEntry: last, PrevLogTerm: term, Entries: []*raft.Log{nil}},
		} {
			req.RPCHeader, req.Term = l.inbound.header(), term
			var resp raft.AppendEntriesResponse
			if err := l.wire.InmemTransport.AppendEntries("", raft.ServerAddress(f.ID()), req, &resp); err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
		snap := func(mod func(*raft.InstallSnapshotRequest)) error {
			req := &raft.InstallSnapshotRequest{RPCHeader: l.inbound.header(), Term: term, SnapshotVersion: 1, LastLogIndex: last + 9, LastLogTerm: term, Configuration: conf(good), Size: 5}
			mod(req)
			r := strings.NewReader("state")
			var resp raft.InstallSnapshotResponse
			err := l.wire.InmemTransport.InstallSnapshot("", raft.ServerAddress(f.ID()), req, &resp, r)
			if r.Len() > 0 {
				t.Errorf("%d bytes were left in the stream", r.Len())
			}
			return err
		}
		for name, mod := range map[string]func(*raft.InstallSnapshotRequest){
			"garbled configuration": func(r *raft.InstallSnapshotRequest) { r.Configuration = []byte{0xc1} },
			"old version":           func(r *raft.InstallSnapshotRequest) { r.SnapshotVersion = 0 },
			"index 0":               func(r *raft.InstallSnapshotRequest) { r.LastLogIndex = 0 },
			"negative size":         func(r *raft.InstallSnapshotRequest) { r.Size = -1 },
			"bad state":             func(*raft.InstallSnapshotRequest) {},
		} {
			if snap(mod) == nil {
				t.Errorf("snapshot, %s: accepted", name)
			}
		}
		if err := f.sw.Err(); err != nil {
			t.Error(err)
		}
		l.propose(t, "y")
		eventually(t, "the follower goes on", func() bool { return f.machine.has("y") })
	})
}

// Requests that raft's main loop does not get to are refused at some point, and not collected for ever.
func TestG12_RequestsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		f, g := c.others(l)[0], c.others(l)[1]
		hang := make(chan struct{})
		f.store.set(func(s *memStore) { s.hang = hang })
		go func() { _ = l.Propose(t.Context(), []byte("x")) }()
		time.Sleep(10 * latency)
		refused := make(chan error, 4*maxQueued)
		for range cap(refused) {
			go func() {
				var resp raft.RequestPreVoteResponse
				refused <- g.wire.InmemTransport.RequestPreVote("", raft.ServerAddress(f.ID()), &raft.RequestPreVoteRequest{RPCHeader: g.inbound.header()}, &resp)
			}()
		}
		busy := 0
		for range cap(refused) {
			if err := <-refused; errors.Is(err, errBusy) {
				busy++
			}
		}
		if busy < 2*maxQueued {
			t.Errorf("%d of %d were refused", busy, cap(refused))
		}
		f.store.set(func(s *memStore) { s.hang = nil })
		close(hang)
	})
}

// A log that diverges at the index of a snapshot makes raft install the snapshot again and again. The node stops, and is
// cured by a restart.
func TestASnapshotLoopStopsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, func(_ int, cfg *Config) { cfg.TrailingLogs = 1 })
		old := c.leader()
		for range 20 {
			old.propose(t, "base")
		}
		time.Sleep(time.Second)
		c.cut(old, c.others(old)...)
		var lost sync.WaitGroup
		for range 50 {
			lost.Go(func() { _ = old.Propose(t.Context(), []byte("lost")) })
		}
		l := c.leader(old)
		lost.Wait()
		for range 20 {
			l.propose(t, "good")
		}
		if err := l.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.heal()
		select {
		case <-old.Done():
		case <-time.After(time.Minute):
			t.Fatal("it installs snapshots for ever")
		}
		if err := old.sw.Err(); err == nil || !strings.Contains(err.Error(), "snapshot") {
			t.Errorf("it stopped for %v", err)
		}
		c.restart(old)
		l.propose(t, "last")
		eventually(t, "it has caught up after a restart", func() bool { return old.machine.has("last") })
		if old.machine.has("lost") {
			t.Error("it applied what was not committed")
		}
	})
}

func TestASnapshotThatIsFollowedIsNoLoop(t *testing.T) {
	var l snapshotLoop
	install := func() error {
		return l.answered(&raft.InstallSnapshotRequest{LastLogIndex: 9}, raft.RPCResponse{Response: &raft.InstallSnapshotResponse{Success: true}})
	}
	appended := func(prev uint64, ok bool) error {
		return l.answered(&raft.AppendEntriesRequest{Term: 2, PrevLogEntry: prev, PrevLogTerm: 1}, raft.RPCResponse{Response: &raft.AppendEntriesResponse{Term: 2, Success: ok}})
	}
	for i := range 20 {
		if err := errors.Join(install(), appended(9, i%2 == 0), appended(8, false)); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	_ = appended(9, true)
	for i := range maxInstalls {
		if err := errors.Join(install(), appended(9, false)); (err != nil) != (i == maxInstalls-1) {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

// Persist reports that the snapshot could not be closed, so that the log is not compacted behind it.
func TestG11_AFailedSnapshotDoesNotCompactTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		snaps := &brokenSnapshots{InmemSnapshotStore: raft.NewInmemSnapshotStore()}
		c := startCell(t, 1, 0, func(_ int, cfg *Config) { cfg.Snapshots, cfg.TrailingLogs = snaps, 1 })
		l := c.leader()
		for range 20 {
			l.propose(t, "x")
		}
		if err := l.Snapshot(t.Context()); err == nil {
			t.Error("the snapshot succeeded")
		}
		if first, _ := l.store.FirstIndex(); first != 1 {
			t.Errorf("the log begins at %d", first)
		}
	})
}

// brokenSnapshots fails the first Close of a sink, and like raft's file store not the second.
type brokenSnapshots struct{ *raft.InmemSnapshotStore }

func (b *brokenSnapshots) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, t raft.Transport) (raft.SnapshotSink, error) {
	s, err := b.InmemSnapshotStore.Create(v, index, term, c, ci, t)
	return &brokenSink{SnapshotSink: s}, err
}

type brokenSink struct {
	raft.SnapshotSink
	closed bool
}

func (s *brokenSink) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.New("no space left on device")
}

// The index of a configuration is the one to change it by; raft's own is always 0, which would switch the check off.
func TestConfigurationsAreComparedAndSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		x := c.add("x", func(*Config) {})
		_, index := l.Configuration()
		if err := l.AddNonvoter(t.Context(), "x", 0); !errors.Is(err, ErrNotProposed) {
			t.Errorf("with index 0: %v", err)
		}
		if err := l.Promote(t.Context(), "x", index); !errors.Is(err, ErrNotProposed) {
			t.Errorf("promote an unknown server: %v", err)
		}
		if err := l.AddNonvoter(t.Context(), "x", index); err != nil {
			t.Fatal(err)
		}
		servers, next := l.Configuration()
		if next <= index || !slices.Contains(servers, Server{"x", false}) {
			t.Errorf("configuration %v of index %d after %d", servers, next, index)
		}
		for what, err := range map[string]error{
			"add": l.AddNonvoter(t.Context(), "y", index), "remove": l.Remove(t.Context(), "x", index), "promote": l.Promote(t.Context(), "x", index),
		} {
			if err == nil {
				t.Errorf("%s on an old configuration succeeded", what)
			}
		}
		eventually(t, "it has caught up", func() bool { return l.Progress()[2].Match == l.LastIndex() })
		if err := l.Promote(t.Context(), "x", next); err != nil {
			t.Error(err)
		}
		eventually(t, "it knows that it votes", func() bool {
			servers, _ := x.Configuration()
			return slices.Contains(servers, Server{"x", true})
		})
		_, next = l.Configuration()
		if err := l.Remove(t.Context(), "x", next); err != nil {
			t.Error(err)
		}
		// The change is the last entry of the log: a read that comes now must not wait for another one.
		index, err := l.ReadIndex(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.WaitApplied(t.Context(), index); err != nil {
			t.Fatal(err)
		}
		if _, at := l.Configuration(); at != index {
			t.Errorf("the configuration has index %d, not %d: the test shows nothing", at, index)
		}
	})
}

// A leader that is removed becomes a follower without a vote; it does not shut raft down on its own.
func TestARemovedLeaderStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		_, index := l.Configuration()
		if err := l.Remove(t.Context(), l.ID(), index); err != nil {
			t.Fatal(err)
		}
		n := c.leader(l)
		n.propose(t, "x")
		time.Sleep(10 * election)
		if l.ActiveTerm() != 0 || l.raft.Load().State() != raft.Follower {
			t.Errorf("it is %v", l.raft.Load().State())
		}
	})
}

// A follower that comes back from a partition does not disturb the leader.
func TestPreVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		term := l.ActiveTerm()
		f := c.others(l)[0]
		c.cut(f, c.others(f)...)
		time.Sleep(50 * election)
		c.heal()
		l.propose(t, "x")
		eventually(t, "it has caught up", func() bool { return f.machine.has("x") })
		if now := l.ActiveTerm(); now != term {
			t.Errorf("term %d is active, not %d", now, term)
		}
	})
}

// Configuration and Applied are known again after a restart from a snapshot, when the entry itself is gone.
func TestConfigurationAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 1, 1, func(_ int, cfg *Config) { cfg.TrailingLogs = 1 })
		l := c.leader()
		for range 20 {
			l.propose(t, "x")
		}
		if err := l.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		servers, at := l.Configuration()
		index, term := l.Applied()
		if err := l.Shutdown(); err != nil {
			t.Fatal(err)
		}
		c.restart(l)
		got, gotAt := l.Configuration()
		gotIndex, gotTerm := l.Applied()
		if !slices.Equal(got, servers) || gotAt != at || gotIndex != index || gotTerm != term {
			t.Errorf("after a restart %v of index %d, applied %d in term %d; before %v, %d, %d, %d", got, gotAt, gotIndex, gotTerm, servers, at, index, term)
		}
		if err := l.WaitApplied(t.Context(), index); err != nil {
			t.Error(err)
		}
	})
}

func TestOpenNamesWhatIsMissing(t *testing.T) {
	_, err := Open(Config{Switch: failstop.New(), ElectionTimeout: time.Millisecond})
	for _, what := range []string{"ID", "Streams", "Logs", "Machine", "TermStart", "ElectionTimeout is 1ms"} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q is not in %v", what, err)
		}
	}
}

func TestSnapshotHeader(t *testing.T) {
	h := snapshotHeader{index: 7, term: 3, confIndex: 2, configuration: raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}}}}
	b := string(h.encode())
	if want := "crn\x01\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00"; !strings.HasPrefix(b, want) {
		t.Errorf("encoded as %q", b)
	}
	got, err := decodeSnapshotHeader(strings.NewReader(b + "rest"))
	if err != nil || got.index != 7 || got.term != 3 || got.confIndex != 2 || !slices.Equal(got.configuration.Servers, h.configuration.Servers) {
		t.Errorf("decoded as %+v, %v", got, err)
	}
	for i := range len(b) {
		if _, err := decodeSnapshotHeader(strings.NewReader(b[:i])); err == nil {
			t.Errorf("%d of %d bytes are enough", i, len(b))
		}
	}
	for name, bad := range map[string]string{
		"version": "crn\x02" + b[4:], "magic": "nrc\x01" + b[4:], "length": b[:28] + "\xff\xff\xff\xff" + b[32:],
	} {
		if _, err := decodeSnapshotHeader(strings.NewReader(bad)); err == nil {
			t.Errorf("wrong %s is accepted", name)
		}
	}
}
