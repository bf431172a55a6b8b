package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestG1_OneHolder and the two after it watch random runs from outside: they know nothing but the outputs.
func TestG1_OneHolder(t *testing.T) {
	var holders heldNames
	randomRun(t, 3, func(t *testing.T, s *State, out Output) {
		// Each release is of a grant that was held, and each grant of names that those who hold them do not keep from it.
		// Within an entry the revisions say what came first.
		grants, releases := out.Grants, out.Releases
		for len(grants)+len(releases) > 0 {
			if len(grants) > 0 && holders.admit(grants[0]) {
				holders = append(holders, grants[0])
				grants = grants[1:]
				continue
			}
			if len(releases) == 0 {
				t.Fatalf("granted %+v while %+v are held", grants[0], holders)
			}
			r := releases[0]
			i := slices.IndexFunc(holders, func(g GrantEvent) bool { return g.Token == r.Token })
			if i < 0 || holders[i].Name != r.Name || holders[i].Session != r.Session {
				t.Fatalf("released %+v, held are %+v", r, holders)
			}
			holders = slices.Delete(holders, i, i+1)
			releases = releases[1:]
		}
		names := map[string]bool{}
		for _, g := range holders {
			for _, name := range namesOf(g) {
				names[name] = true
			}
		}
		for l := range s.Delays() {
			names[l.Name] = true
		}
		if len(names) != s.Counts().Locks {
			t.Fatalf("%d names are held, %d counted", len(names), s.Counts().Locks)
		}
	}, func() { holders = nil })
}

// heldNames are grants that are held.
type heldNames []GrantEvent

func namesOf(g GrantEvent) []string {
	if g.Names == nil {
		return []string{g.Name}
	}
	return g.Names
}

// admit reports whether a grant may be held beside the others: of each of its names either all are readers, or all are
// in slots, no two in the same one where it can be seen, and no more than there are.
func (h heldNames) admit(g GrantEvent) bool {
	for _, name := range namesOf(g) {
		n := 0
		for _, other := range h {
			if !slices.Contains(namesOf(other), name) {
				continue
			}
			n++
			both := g.Shared && other.Shared || g.Slots > 0 && other.Slots == g.Slots
			if !both || g.Slots > 0 && g.Name == name && other.Name == name && g.Slot == other.Slot {
				return false
			}
		}
		if g.Slots > 0 && n >= g.Slots {
			return false
		}
	}
	return true
}

func TestG2_TokensRise(t *testing.T) {
	var last Revision
	randomRun(t, 4, func(t *testing.T, s *State, out Output) {
		for _, g := range out.Grants {
			if g.Token <= last || g.Token > s.Revision() {
				t.Fatalf("token %d after %d; the revision is %d", g.Token, last, s.Revision())
			}
			last = g.Token
		}
	}, func() { last = 0 })
}

// TestG2_TwoGrantsInOneEntry: the index of the entry would not do as a token.
func TestG2_TwoGrantsInOneEntry(t *testing.T) {
	r := newReplica(t)
	a, b := r.open("a"), r.open("b")
	first := r.result(r.do(Lock{Change: Change{Session: a, Seq: 1}, Name: "l"})).Revision
	out := r.do(
		Lock{Change: Change{Session: b, Seq: 1}, Name: "l"},
		Unlock{Change: Change{Session: a, Seq: 2}, Name: "l", Token: first},
		Unlock{Change: Change{Session: b, Seq: 2}, Name: "l", Token: first + 3},
		Lock{Change: Change{Session: a, Seq: 3}, Name: "l"},
	)
	if len(out.Grants) != 2 || out.Grants[0].Token <= first || out.Grants[1].Token <= out.Grants[0].Token {
		t.Errorf("grants after token %d: %+v", first, out.Grants)
	}
}

// TestG2_GenerationLiftsTokens: a state restored from a backup may be behind what was handed out since.
func TestG2_GenerationLiftsTokens(t *testing.T) {
	r := newReplica(t)
	r.do(Generation{First: true, Seconds: 100})
	a := r.open("a")
	backup := restored(t, r.State)
	later := r.result(r.do(Lock{Change: Change{Session: a, Seq: 1}, Name: "l"})).Revision
	for range 1000 {
		later++ // the old life went on for a while
	}
	r.State = backup
	r.do(Generation{Seconds: 101})
	r.do(EndHold{Term: 1})
	b := r.open("b")
	if got := r.result(r.do(Lock{Change: Change{Session: b, Seq: 1}, Name: "l"})).Revision; got <= later {
		t.Errorf("token %d in the new life, %d in the old", got, later)
	}
	if got := r.Revision(); got < 101<<23 {
		t.Errorf("revision %d is below what the time says", got)
	}
}

// TestG6_FirstComeFirstServed: the order of the queue is that of the log, through every kind of ending.
func TestG6_FirstComeFirstServed(t *testing.T) {
	r := newReplica(t)
	var ids []SessionID
	for i := range 40 {
		ids = append(ids, r.open(fmt.Sprint("s", i)))
	}
	for _, id := range ids {
		r.do(Lock{Change: Change{Session: id, Seq: 1}, Name: "l"})
	}
	for i, id := range ids[:39] {
		v := r.Lookup("l")
		if len(v.Holders) != 1 || v.Holders[0].Session != id {
			t.Fatalf("turn of session %d, held by %+v", id, v.Holders)
		}
		switch i % 4 {
		case 0:
			r.do(Unlock{Change: Change{Session: id, Seq: 2}, Name: "l", Token: v.Holders[0].Token})
		case 1:
			r.do(Withdraw{Change: Change{Session: id, Seq: 2}, Target: 1})
		case 2:
			r.do(CloseSession{Change{Session: id, Seq: 2}})
		case 3:
			r.do(Expire{Term: 1, Sessions: []SessionID{id}})
		}
	}
}

// TestG6_DeadWaiterIsNeverGranted: sessions die in the entry that would hand the lock to them, some not yet reaped.
func TestG6_DeadWaiterIsNeverGranted(t *testing.T) {
	for step := 1; step <= 12; step++ {
		r := newReplica(t)
		r.do(Generation{First: true, Params: Params{ReapStep: step}})
		holder := r.open("holder")
		token := r.result(r.do(Lock{Change: Change{Session: holder, Seq: 1}, Name: "l"})).Revision
		var dead []SessionID
		for i := range 5 {
			id := r.open(fmt.Sprint("dead", i))
			r.do(Lock{Change: Change{Session: id, Seq: 1}, Name: "l"})
			dead = append(dead, id)
		}
		heir := r.open("heir")
		r.do(Lock{Change: Change{Session: heir, Seq: 1}, Name: "l"})
		// One by one the dead are reaped, unless the unlock in the same entry meets them first.
		out := r.do(
			Expire{Term: 1, Sessions: dead},
			Unlock{Change: Change{Session: holder, Seq: 2}, Name: "l", Token: token},
		)
		if len(out.Grants) != 1 || out.Grants[0].Session != heir {
			t.Fatalf("step %d: granted %+v, want session %d", step, out.Grants, heir)
		}
		for r.Reaping() {
			r.do(Reap{})
		}
		if c := r.Counts(); c.Waiting != 0 || c.Locks != 1 {
			t.Fatalf("step %d: %+v", step, c)
		}
	}
}

// TestG6_CancelledWaiter leaves the queue without a trace.
func TestG6_CancelledWaiter(t *testing.T) {
	r := newReplica(t)
	a, b, c := r.open("a"), r.open("b"), r.open("c")
	token := r.result(r.do(Lock{Change: Change{Session: a, Seq: 1}, Name: "l"})).Revision
	r.do(Lock{Change: Change{Session: b, Seq: 1}, Name: "l"})
	r.do(Lock{Change: Change{Session: c, Seq: 1}, Name: "l"})
	r.do(Withdraw{Change: Change{Session: b, Seq: 2}, Target: 1})
	out := r.do(Unlock{Change: Change{Session: a, Seq: 2}, Name: "l", Token: token})
	if len(out.Grants) != 1 || out.Grants[0].Session != c {
		t.Errorf("granted %+v, want session %d", out.Grants, c)
	}
}

// TestG7_ExactlyOnce proposes every entry of a random run a second time. The state must not change, but for
// what has no number.
func TestG7_ExactlyOnce(t *testing.T) {
	g := newGenerator(rand.New(rand.NewPCG(7, 7)).IntN)
	s := New()
	s.Apply(1, 1, []Command{Generation{First: true, Params: g.tight()}})
	repeated, entries := 0, 20_000
	if raceEnabled || testing.Short() {
		entries = 2_000
	}
	for i := range entries {
		c := g.command(s)
		out := s.Apply(2, 1, []Command{c})
		switch c.(type) {
		case OpenSession, CloseSession, Lock, Unlock, Withdraw, SetData, HandOver, Revoke, RevokeSession, Put, Delete, Txn:
			if len(out.Replies) > 0 && out.Replies[len(out.Replies)-1].Result.Limit == LimitSessions {
				continue // nothing was done; there may be room by now
			}
			revision, hash := s.Revision(), uint64(0)
			if i%32 == 0 {
				hash = s.Hash()
			}
			again := s.Apply(2, 1, []Command{c})
			if i%32 == 0 && s.Hash() != hash {
				t.Fatalf("%+v\nchanged the state again", c)
			}
			if s.Revision() != revision || len(again.Events)+len(again.Grants)+len(again.Releases)+len(again.Opened) > 0 {
				t.Fatalf("%+v\ndid something again: %+v", c, again)
			}
			repeated++
		}
	}
	if repeated < entries/2 {
		t.Errorf("only %d changes were repeated", repeated)
	}
}

// TestG7_ResultsSurviveRestore: a retry may meet a server that has just been restored.
func TestG7_ResultsSurviveRestore(t *testing.T) {
	r := newReplica(t)
	a := r.open("a")
	lock := Lock{Change: Change{Session: a, Seq: 1}, Name: "l"}
	want := r.result(r.do(lock))
	r.do(Put{Change: Change{Session: a, Seq: 2, Acks: []uint64{}}, Key: "k"})
	r.State = restored(t, r.State)
	if got := r.result(r.do(lock)); got.Code != OK || got.Revision != want.Revision {
		t.Errorf("the retry got %+v, the first try %+v", got, want)
	}
	r.do(Put{Change: Change{Session: a, Seq: 3, Acks: []uint64{1}}, Key: "k"})
	r.State = restored(t, r.State)
	if got := r.result(r.do(lock)); got.Code != Refused {
		t.Errorf("an acknowledged number was not refused: %+v", got)
	}
}

// TestG7_Outstanding: a session may have so many unacknowledged numbers and no more; a number refused for that may be
// tried again, and giving up a queued lock is possible even then.
func TestG7_Outstanding(t *testing.T) {
	r := newReplica(t)
	other, a := r.open("other"), r.open("a")
	r.do(Lock{Change: Change{Session: other, Seq: 1}, Name: "l"})
	seq := uint64(1)
	for ; seq <= MaxOutstanding; seq++ {
		r.do(Lock{Change: Change{Session: a, Seq: seq}, Name: "l"})
	}
	put := Put{Change: Change{Session: a, Seq: seq}, Key: "k"}
	if got := r.result(r.do(put)); got.Limit != LimitOutstanding {
		t.Fatalf("one too many: %+v", got)
	}
	out := r.do(Withdraw{Change: Change{Session: a, Seq: seq + 1}, Target: 9})
	if len(out.Replies) != 2 || out.Replies[1].Result.Code != OK {
		t.Fatalf("withdrawing under the limit: %+v", out.Replies)
	}
	if got := r.result(r.do(put)); got.Limit != LimitOutstanding {
		t.Fatalf("still one too many: %+v", got)
	}
	put.Acks = []uint64{seq + 1}
	if got := r.result(r.do(put)); got.Code != OK {
		t.Fatalf("there is room again: %+v", got)
	}
	r.State = restored(t, r.State)
	if got := r.result(r.do(Put{Change: Change{Session: a, Seq: seq + 2}, Key: "k"})); got.Limit != LimitOutstanding {
		t.Fatalf("restored, the count is gone: %+v", got)
	}
}

// TestG7_OutstandingHolder: a holder frees what it holds even if its own session has as many requests queued as it may.
func TestG7_OutstandingHolder(t *testing.T) {
	r := newReplica(t)
	a := r.open("a")
	token := r.result(r.do(Lock{Change: Change{Session: a, Seq: 1}, Name: "l"})).Revision
	seq := uint64(2)
	for ; seq <= MaxOutstanding; seq++ {
		r.do(Lock{Change: Change{Session: a, Seq: seq}, Name: "l"})
	}
	out := r.do(Unlock{Change: Change{Session: a, Seq: seq}, Name: "l", Token: token})
	if len(out.Replies) != 2 || out.Replies[0].Result.Code != OK || len(out.Grants) != 1 {
		t.Fatalf("unlocking under the limit: %+v", out.Replies)
	}
	if got := r.result(r.do(Unlock{Change: Change{Session: a, Seq: seq + 1}, Name: "l", Token: token})); got.Limit != LimitOutstanding {
		t.Fatalf("unlocking what is not held: %+v", got)
	}
}

// TestG7_TooManyAcks: a change that is malformed does nothing, not even acknowledge.
func TestG7_TooManyAcks(t *testing.T) {
	r := newReplica(t)
	a := r.open("a")
	r.do(Put{Change: Change{Session: a, Seq: 1}, Key: "k"})
	put := Put{Change: Change{Session: a, Seq: 2, Acks: make([]uint64, MaxAcks+1)}, Key: "k"}
	for i := range put.Acks {
		put.Acks[i] = 1
	}
	if got := r.result(r.do(put)); got.Code != Malformed {
		t.Errorf("%d acknowledgements: %+v", len(put.Acks), got)
	}
	if got := r.result(r.do(Put{Change: Change{Session: a, Seq: 1}, Key: "k"})); got.Code != OK {
		t.Errorf("the result is gone: %+v", got)
	}
	put.Acks = put.Acks[:MaxAcks]
	if got := r.result(r.do(put)); got.Code != OK {
		t.Errorf("%d acknowledgements: %+v", len(put.Acks), got)
	}
}

// TestG7_NumbersAreBounded: a caller that leaves gaps everywhere is stopped, and can still close.
func TestG7_NumbersAreBounded(t *testing.T) {
	if raceEnabled {
		t.Skip("much copying, and nothing concurrent")
	}
	r := newReplica(t)
	a := r.open("a")
	var last Result
	for i := range uint64(maxRanges) {
		last = r.result(r.do(Withdraw{Change: Change{Session: a, Seq: 2 * i * 3, Acks: nil}, Target: 2*i*3 + 2}))
		if i > 0 {
			c := Change{Session: a, Seq: 1, Acks: []uint64{2 * i * 3}}
			r.do(Put{Change: c, Key: "k"})
		}
	}
	if last.Code != Malformed && last.Limit != LimitOutstanding {
		t.Errorf("the last of many gaps was let through: %+v", last)
	}
	for record := range r.Records() {
		if s, ok := record.(SessionRecord); ok && len(s.Acked) > maxRanges {
			t.Errorf("%d ranges are kept, at most %d are allowed", len(s.Acked), maxRanges)
		}
	}
	if got := r.result(r.do(CloseSession{Change{Session: a, Seq: 1 << 40}})); got.Code != OK {
		t.Errorf("close: %+v", got)
	}
}

// TestG10_ReplicasAgree: two states that apply the same entries, one of them cut into other entries' clones and
// restored now and then, have the same hash.
func TestG10_ReplicasAgree(t *testing.T) {
	choose := rand.New(rand.NewPCG(10, 10)).IntN
	g := newGenerator(choose)
	a, b := New(), New()
	for i := range uint64(3_000) {
		cmds := g.entry(a)
		a.Apply(i, 1, cmds)
		b.Apply(i, 1, cmds)
		switch i % 50 {
		case 0:
			b = b.Clone()
		case 25:
			b = restored(t, b)
		}
		if i%10 == 0 && a.Hash() != b.Hash() {
			t.Fatalf("entry %d: %+v", i, cmds)
		}
	}
}

// randomRun shows the outputs of random runs to see, and calls anew before each run.
func randomRun(t *testing.T, seed uint64, see func(*testing.T, *State, Output), anew func()) {
	entries := 10_000
	if raceEnabled || testing.Short() {
		entries = 2_000
	}
	for run := range uint64(4) {
		anew()
		g := newGenerator(rand.New(rand.NewPCG(run, seed)).IntN)
		g.rare = 1000
		s := New()
		s.Apply(1, 1, []Command{Generation{First: true, Params: g.tight()}})
		for i := range entries {
			see(t, s, s.Apply(uint64(i+2), 1, g.entry(s)))
			if g.chance(200) {
				s = restored(t, s)
			}
		}
	}
}
