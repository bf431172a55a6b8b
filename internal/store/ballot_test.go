package store

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// stores is what raft is started on.
type stores struct {
	log    raft.LogStore
	stable raft.StableStore
}

// voter is a raft server N with entries of term 5, in a cell with P and Q.
type voter struct {
	raft  *raft.Raft
	trans *raft.InmemTransport
}

func startVoter(t *testing.T, on stores) *voter {
	t.Helper()
	addr, trans := raft.NewInmemTransport("N")
	conf := raft.DefaultConfig()
	conf.LocalID = "N"
	conf.LogOutput = io.Discard
	snaps := raft.NewInmemSnapshotStore()
	if has, err := raft.HasExistingState(on.log, on.stable, snaps); err != nil {
		t.Fatal(err)
	} else if !has {
		must(t, raft.BootstrapCluster(conf, on.log, on.stable, snaps, trans, raft.Configuration{Servers: []raft.Server{
			{ID: "N", Address: addr}, {ID: "P", Address: "P"}, {ID: "Q", Address: "Q"}}}))
		must(t, on.stable.SetUint64([]byte(keyTerm), 5))
		must(t, on.log.StoreLogs(entries(2, 10, 5)))
	}
	r, err := raft.NewRaft(conf, &raft.MockFSM{}, on.log, on.stable, snaps, trans)
	must(t, err)
	return &voter{r, trans}
}

func (v *voter) stop(t *testing.T) { must(t, v.raft.Shutdown().Error()) }

// ask requests N's vote for the candidate, whose log ends at (index, logTerm).
func (v *voter) ask(t *testing.T, candidate string, term, index, logTerm uint64) bool {
	t.Helper()
	_, from := raft.NewInmemTransport(raft.ServerAddress(candidate))
	from.Connect("N", v.trans)
	req := &raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte(candidate), Addr: []byte(candidate)},
		Term:      term, LastLogIndex: index, LastLogTerm: logTerm, LeadershipTransfer: true,
	}
	var resp raft.RequestVoteResponse
	must(t, from.RequestVote("N", "N", req, &resp))
	return resp.Granted
}

// crashing is a stable store that keeps a copy of itself as it is right after the first half of a vote.
type crashing struct {
	raft.StableStore
	halfVote func()
}

func (c crashing) SetUint64(key []byte, v uint64) error {
	err := c.StableStore.SetUint64(key, v)
	if string(key) == keyVoteTerm {
		c.halfVote()
	}
	return err
}

// voteThenCrash lets N vote for P in term 6, and for Q in term 7, but ends N between the two writes of that second vote.
// on starts a store and returns with it what opens the copy that crashed. It reports whether N, started on the copy,
// votes for P in term 7 although P's log is far behind.
func voteThenCrash(t *testing.T, on func(*testing.T) (stores, func() stores)) (granted bool) {
	synctest.Test(t, func(t *testing.T) {
		live, copyNow := on(t)
		var crashed func() stores
		votes := 0
		live.stable = crashing{live.stable, func() {
			if votes++; votes == 2 {
				again := copyNow()
				crashed = func() stores { return again }
			}
		}}
		v := startVoter(t, live)
		if !v.ask(t, "P", 6, 10, 5) {
			t.Fatal("no vote for P in term 6")
		}
		if v.ask(t, "P", 7, 1, 1) {
			t.Fatal("a vote for a candidate whose log is behind")
		}
		if !v.ask(t, "Q", 7, 10, 5) {
			t.Fatal("no vote for Q in term 7")
		}
		v.stop(t)
		v = startVoter(t, crashed())
		defer v.stop(t)
		granted = v.ask(t, "P", 7, 1, 1)
	})
	return granted
}

// TestVoteSurvivesCrash shows that raft gives its vote away without a look at the log after a crash between the two writes
// of a vote, and that it does not on our store.
func TestVoteSurvivesCrash(t *testing.T) {
	bare := voteThenCrash(t, func(t *testing.T) (stores, func() stores) {
		inner := raft.NewInmemStore()
		return stores{inner, inner}, func() stores {
			again := raft.NewInmemStore()
			for _, key := range []string{keyTerm, keyVoteTerm} {
				v, _ := inner.GetUint64([]byte(key))
				again.SetUint64([]byte(key), v)
			}
			candidate, _ := inner.Get([]byte(keyCandidate))
			again.Set([]byte(keyCandidate), candidate)
			for i := uint64(1); i <= 10; i++ {
				var e raft.Log
				inner.GetLog(i, &e)
				again.StoreLog(&e)
			}
			return stores{again, again}
		}
	})
	if !bare {
		t.Error("raft's own store has no hole any more: this test proves nothing")
	}
	ours := voteThenCrash(t, func(t *testing.T) (stores, func() stores) {
		d := NewDisk()
		s := mustMount(t, d, Options{})
		return stores{s.Logs(), s.Stable()}, func() stores {
			again := mustMount(t, d.Crash(false), Options{})
			return stores{again.Logs(), again.Stable()}
		}
	})
	if ours {
		t.Error("N voted for P in term 7, whose log is behind")
	}
}

func TestBallotIsSeenWhole(t *testing.T) {
	all(t, func(t *testing.T, s *Store, reopen func() *Store) {
		if _, err := s.Stable().GetUint64([]byte(keyTerm)); err == nil || err.Error() != "not found" {
			t.Fatalf("no term is %v: raft compares with not found", err)
		}
		if v, err := s.Stable().Get([]byte(keyCandidate)); v != nil || err == nil || err.Error() != "not found" {
			t.Fatalf("no candidate is %q, %v: raft compares with nil and not found", v, err)
		}
		fill(t, s)
		must(t, s.Stable().SetUint64([]byte(keyTerm), 3))
		must(t, s.Stable().SetUint64([]byte(keyVoteTerm), 3))
		wantBallot(t, s, 3, 2, "candidate")
		s = reopen()
		wantBallot(t, s, 3, 2, "candidate")
		must(t, s.Stable().SetUint64([]byte(keyVoteTerm), 3))
		must(t, s.Stable().Set([]byte(keyCandidate), []byte("second")))
		wantBallot(t, s, 3, 3, "second")
		s = reopen()
		wantBallot(t, s, 3, 3, "second")
		if err := s.Stable().SetUint64([]byte("Other"), 1); err == nil {
			t.Error("an unknown key was stored")
		}
	})
}

// TestRaftKeys sees which keys raft uses, and in which order it votes.
func TestRaftKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := raft.NewInmemStore()
		var calls []string
		v := startVoter(t, stores{inner, recorded{inner, &calls}})
		calls = nil
		v.ask(t, "P", 6, 10, 5)
		v.stop(t)
		want := "SetUint64 CurrentTerm, GetUint64 LastVoteTerm, Get LastVoteCand, SetUint64 LastVoteTerm, Set LastVoteCand"
		if got := strings.Join(calls, ", "); got != want {
			t.Errorf("a vote is %s\nwant %s", got, want)
		}
	})
}

type recorded struct {
	raft.StableStore
	calls *[]string
}

func (r recorded) note(call string, key []byte) { *r.calls = append(*r.calls, call+" "+string(key)) }

func (r recorded) SetUint64(key []byte, v uint64) error {
	r.note("SetUint64", key)
	return r.StableStore.SetUint64(key, v)
}

func (r recorded) Set(key, v []byte) error {
	r.note("Set", key)
	return r.StableStore.Set(key, v)
}

func (r recorded) GetUint64(key []byte) (uint64, error) {
	r.note("GetUint64", key)
	return r.StableStore.GetUint64(key)
}

func (r recorded) Get(key []byte) ([]byte, error) {
	r.note("Get", key)
	return r.StableStore.Get(key)
}
