package fsm

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// full returns a state that has records of every type.
func full(t testing.TB) *State {
	r := newReplica(t)
	r.do(Generation{First: true, Cell: Nonce{1}, Params: Params{ReapStep: 1}})
	r.do(TermStart{Nonce: Nonce{2}, Format: 1}, SetMember{Member{ID: "n1"}}, SetMember{Member{ID: "n2"}})
	a, b, c := r.open("a"), r.open("b"), r.open("c")
	change := func(id SessionID, seq uint64, acks ...uint64) Change { return Change{id, seq, acks} }
	r.do(
		Lock{Change: change(a, 1), Name: "l"}, Lock{Change: change(a, 2), Name: "m"}, Lock{Change: change(c, 1), Name: "n"},
		Lock{Change: change(b, 1), Name: "l"}, Lock{Change: change(c, 2), Name: "l"}, Lock{Change: change(c, 3), Name: "m"},
		Put{Change: change(a, 3, 1), Key: "e", Ephemeral: true}, Put{Change: change(b, 2), Key: "p", Value: []byte("v")},
		Txn{Change: change(b, 3), Then: []Op{{Kind: OpPut, Key: "x"}, {Kind: OpPut, Key: "y"}, {Kind: OpGet, Key: "p"}}},
		Put{Change: change(b, 7, 2), Key: "p", Value: []byte("w")},
		Expire{Term: 1, Sessions: []SessionID{c}},
	)
	return r.State
}

// wide returns a state that has records of the other types that there are of locks.
func wide(t testing.TB) *State {
	r := newReplica(t)
	r.do(Generation{First: true, Cell: Nonce{1}}, SetFormat{Format: 2})
	a, b, c := r.open("a"), r.open("b"), r.open("c")
	change := func(id SessionID, seq uint64) Change { return Change{Session: id, Seq: seq} }
	lock := func(id SessionID, seq uint64, name string, t Terms) Lock {
		return Lock{Change: change(id, seq), Name: name, Data: []byte(name), Terms: &t}
	}
	r.do(
		lock(a, 1, "m", Terms{More: []string{"l", "n"}, TTL: 5e9}), lock(a, 2, "r", Terms{Shared: true}),
		lock(b, 1, "r", Terms{Shared: true, More: []string{"q"}, Delay: 1e9}), lock(b, 2, "s", Terms{Slots: 3, Delay: 1e9}),
		lock(b, 3, "d", Terms{Delay: 2e9}), lock(a, 3, "s", Terms{Slots: 3, Delay: 1e9}), lock(a, 4, "t", Terms{Slots: 2, More: []string{"s"}}),
		Lock{Change: change(a, 5), Name: "p"},
		Expire{Term: 1, Sessions: []SessionID{b}},
	)
	held := func(name string, i int) GrantID { return GrantID{name, r.Lookup(name).Holders[i].Token} }
	r.do(
		lock(c, 1, "n", Terms{Holding: []GrantID{held("p", 0)}}), lock(c, 2, "n", Terms{More: []string{"free", "r"}}),
		lock(c, 3, "s", Terms{Shared: true}), lock(c, 4, "d", Terms{}), Lock{Change: change(c, 5), Name: "p"},
		Lock{Change: change(c, 6), Name: "free"}, lock(c, 7, "p", Terms{Slots: 4, Holding: []GrantID{held("s", 0)}}),
		Revoke{Change: change(c, 8), Name: "l", Token: held("l", 0).Token}, lock(c, 9, "p", Terms{Slots: 5}),
	)
	r.do(RevokeSession{Change: change(c, 10), Target: a})
	return r.State
}

func restore(records []Record) error {
	_, err := Restore(withNil(slices.Values(records)))
	return err
}

// TestRestoreIncomplete leaves out, doubles and swaps records.
func TestRestoreIncomplete(t *testing.T) {
	t.Run("full", func(t *testing.T) { restoreIncomplete(t, full(t)) })
	t.Run("wide", func(t *testing.T) { restoreIncomplete(t, wide(t)) })
}

func restoreIncomplete(t *testing.T, s *State) {
	records := slices.Collect(s.Records())
	if err := restore(records); err != nil {
		t.Fatal(err)
	}
	for i, r := range records {
		what := fmt.Sprintf("record %d (%T)", i, r)
		if err := restore(slices.Delete(slices.Clone(records), i, i+1)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s is missing: %v", what, err)
		}
		if err := restore(records[:i]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut off before %s: %v", what, err)
		}
		if err := restore(slices.Insert(slices.Clone(records), i, r)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s twice: %v", what, err)
		}
		for j := i + 1; j < len(records); j++ {
			swapped := slices.Clone(records)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			if err := restore(swapped); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s swapped with record %d: %v", what, j, err)
			}
		}
	}
}

// TestRestoreContradiction changes one record at a time into something that cannot be.
func TestRestoreContradiction(t *testing.T) {
	const none = 99 // no such session
	tests := []contradiction{
		{"no parameters", edit(func(r *Header) { r.Params = Params{} })},
		{"floor beyond revision", edit(func(r *Header) { r.Floor = r.Revision + 2 })},
		{"hold while locks are held", edit(func(r *Header) { r.Hold = true })},
		{"a hold TTL without a hold", edit(func(r *Header) { r.HoldTTL = 1 })},
		{"revision before everything", edit(func(r *Header) { r.Revision = 1 })},
		{"a cell id without a cell", edit(func(r *Header) { r.Formed = false })},
		{"member without id", edit(func(r *MemberRecord) { r.Member.ID = "" })},
		{"session 0", edit(func(r *SessionRecord) { r.ID = 0 })},
		{"session of the future", edit(func(r *SessionRecord) { r.ID += 1 << 40 })},
		{"no TTL", edit(func(r *SessionRecord) { r.TTL = 0 })},
		{"an unknown ending", edit(func(r *SessionRecord) { r.Ended = 7 })},
		{"one nonce twice", edit(func(r *SessionRecord) { r.Nonce = Nonce{'b'} })},
		{"ranges that touch", edit(func(r *SessionRecord) { r.Acked = []SeqRange{{50, 51}, {52, 52}} })},
		{"a range backwards", edit(func(r *SessionRecord) { r.Acked = []SeqRange{{51, 50}} })},
		{"number 0 acknowledged", edit(func(r *SessionRecord) { r.Acked = []SeqRange{{0, 0}} })},
		{"kept and acknowledged", edit(func(r *SessionRecord) { r.Acked = []SeqRange{{1, 9}} })},
		{"result of nobody", edit(func(r *ResultRecord) { r.Session = none })},
		{"result number 0", edit(func(r *ResultRecord) { r.Seq = 0 })},
		{"result without a code", edit(func(r *ResultRecord) { r.Result.Code = 0 })},
		{"result of the future", edit(func(r *ResultRecord) { r.Result.Revision = 1 << 60 })},
		{"held by nobody", edit(func(r *LockRecord) { r.Session = none })},
		{"held under token 0", edit(func(r *LockRecord) { r.Token = 0 })},
		{"held under a future token", edit(func(r *LockRecord) { r.Token = 1 << 60 })},
		{"lock without a name", edit(func(r *LockRecord) { r.Name = "" })},
		{"queue of a free lock", edit(func(r *WaiterRecord) { r.Name = "free" })},
		{"waiter of nobody", edit(func(r *WaiterRecord) { r.Session = none })},
		{"waiter of the future", edit(func(r *WaiterRecord) { r.Position = 1 << 60 })},
		{"waiter with a result", edit(func(r *WaiterRecord) { r.Seq = 1 })},
		{"key of nobody", edit(func(r *KeyRecord) { r.KV.Session = none })},
		{"key changed before it was made", edit(func(r *KeyRecord) { r.KV.Created = r.KV.Changed + 1 })},
		{"key without a revision", edit(func(r *KeyRecord) { r.KV.Created = 0; r.KV.Changed = 0 })},
		{"event of no type", edit(func(r *EventRecord) { r.Event.Type = 0 })},
		{"event without a key", edit(func(r *EventRecord) { r.Event.Key = "" })},
		{"event of the future", edit(func(r *EventRecord) { r.Event.Revision = 1 << 60 })},
		{"a gap in a revision", edit(func(r *EventRecord) { r.N++ })},
		{"another count", edit(func(r *Trailer) { r.Events++ })},
		{"no record at all", func(Record) Record { return nil }},
	}
	contradictions(t, full(t), tests)
	contradictions(t, wide(t), []contradiction{
		{"format 1, which goes without saying", edit(func(r *Header) { r.Format = 1 })},
		{"a code there is not", edit(func(r *ResultRecord) { r.Result.Code = NoSuchSession + 1 })},
		{"a grant of nothing", edit(func(r *GrantRecord) { r.Names = nil })},
		{"a grant of the same name twice", edit(func(r *GrantRecord) { r.Names = append(r.Names, r.Names[0]) })},
		{"a grant of nobody", edit(func(r *GrantRecord) { r.Session = none })},
		{"a grant under a future token", edit(func(r *GrantRecord) { r.Token = 1 << 60 })},
		{"slots for readers", edit(func(r *GrantRecord) { r.Shared, r.Slots = true, 3 })},
		{"a grant beside another", edit(func(r *GrantRecord) { r.Shared, r.Slots, r.Slot = false, 0, nil })},
		{"more slots than others say", edit(func(r *GrantRecord) { r.Slots++ })},
		{"a slot there is not", edit(func(r *GrantRecord) { r.Slot = []uint32{7, 7}[:len(r.Names)%3] })},
		{"a slot taken twice", edit(func(r *GrantRecord) { r.Slot = []uint32{0, 0}[:len(r.Names)%3] })},
		{"a lease below nothing", edit(func(r *GrantRecord) { r.TTL = -1 })},
		{"a grant that a LockRecord would do for", edit(func(r *GrantRecord) {
			if r.Names[0] == "m" {
				r.Names, r.TTL = r.Names[:1], 0
			}
		})},
		{"a loss without a delay", edit(func(r *LossRecord) { r.Delay = 0 })},
		{"a loss of no name", edit(func(r *LossRecord) { r.Name = "" })},
		{"a loss of the future", edit(func(r *LossRecord) { r.Token = 1 << 60 })},
		{"a loss where somebody holds", edit(func(r *LossRecord) { r.Name = "m" })},
		{"a loss in a slot that is held", edit(func(r *LossRecord) { r.Slot = 1 })},
		{"a mark of nobody", edit(func(r *MarkRecord) { r.Mark.Session = none })},
		{"a mark of nothing", edit(func(r *MarkRecord) { r.Mark.Token += 1 << 50 })},
		{"a mark of a session with a name", edit(func(r *MarkRecord) { r.Mark.Name += "x" })},
		{"a request for nothing", edit(func(r *RequestRecord) { r.Names = nil })},
		{"a request that a WaiterRecord would do for", edit(func(r *RequestRecord) {
			r.Names, r.Shared, r.Slots, r.TTL, r.Delay, r.Holding = r.Names[:1], false, 0, 0, 0, nil
		})},
		{"a request with a result", edit(func(r *RequestRecord) { r.Seq = 8 })},
		{"a request for other slots", edit(func(r *RequestRecord) { r.Slots++ })},
		{"a request that could be granted", edit(func(r *RequestRecord) { r.Names = []string{"new", "newer"} })},
		{"another count of grants", edit(func(r *Trailer) { r.Grants++ })},
		{"another count of losses and marks", edit(func(r *Trailer) { r.Losses, r.Marks = r.Losses-1, r.Marks-1 })},
		{"another count of requests", edit(func(r *Trailer) { r.Requests-- })},
	})
}

// contradiction changes one record.
type contradiction struct {
	name  string
	wrong func(Record) Record
}

func contradictions(t *testing.T, s *State, tests []contradiction) {
	t.Helper()
	good := slices.Collect(s.Records())
	for _, test := range tests {
		damaged := 0
		for i := range good {
			bad := slices.Clone(good)
			bad[i] = test.wrong(good[i])
			if fmt.Sprint(bad[i]) == fmt.Sprint(good[i]) {
				continue // it concerns records of another type, or this one has it by nature
			}
			if err := restore(bad); errors.Is(err, ErrDamaged) {
				damaged++
			}
		}
		if damaged == 0 {
			t.Errorf("%s: restored without complaint", test.name)
		}
	}
}

// edit makes a change to records of one type.
func edit[R Record](change func(*R)) func(Record) Record {
	return func(r Record) Record {
		if r, ok := r.(R); ok {
			change(&r)
			return r
		}
		return r
	}
}

// TestRestoreError passes on what the reader of the records met.
func TestRestoreError(t *testing.T) {
	broken := errors.New("checksum")
	_, err := Restore(func(yield func(Record, error) bool) {
		for r := range full(t).Records() {
			if _, ok := r.(KeyRecord); ok {
				yield(nil, broken)
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestHashSeesEverything: whatever differs in one record makes another hash.
func TestHashSeesEverything(t *testing.T) {
	forms := map[string]Record{}
	n := 0
	see := func(r Record) {
		n++
		forms[string(form(nil).record(r))] = r
	}
	for _, r := range []Header{{}, {Index: 1}, {Revision: 1}, {Floor: 1}, {Formed: true}, {Cell: Nonce{1}}} {
		see(r)
	}
	for i := range 7 {
		p := make([]int, 7)
		p[i] = 1
		see(Header{Params: Params{p[0], p[1], p[2], p[3], p[4], p[5], p[6]}})
	}
	see(Header{Hold: true})
	see(Header{HoldTTL: 1})
	see(Header{Term: 1})
	see(Header{Start: TermStart{Nonce: Nonce{1}}})
	see(Header{Start: TermStart{Format: 1}})
	see(MemberRecord{Member{ID: "a", Name: "b", Addr: "c"}})
	see(MemberRecord{Member{ID: "ab", Name: "", Addr: "c"}})
	see(MemberRecord{Member{ID: "a", Name: "", Addr: "bc"}})
	for _, r := range []SessionRecord{{}, {ID: 1}, {Nonce: Nonce{1}}, {TTL: 1}, {Label: "a"}, {Node: "a"}, {Internal: true},
		{Ended: 1}, {Acked: []SeqRange{{1, 2}}}, {Acked: []SeqRange{{1, 1}, {2, 2}}}} {
		see(r)
	}
	for _, r := range []ResultRecord{{}, {Session: 1}, {Seq: 1}, {Name: "a"}, {Result: Result{Code: 1}},
		{Result: Result{Revision: 1}}, {Result: Result{Session: 1}}, {Result: Result{Succeeded: true}},
		{Result: Result{Limit: 1}}, {Result: Result{Ops: []OpResult{{}}}},
		{Result: Result{Ops: []OpResult{{Found: true}}}},
		{Result: Result{Ops: []OpResult{{KV: KeyValue{Key: "a"}}}}}} {
		see(r)
	}
	for _, r := range []LockRecord{{}, {Name: "a"}, {Session: 1}, {Token: 1}, {Data: []byte("a")}} {
		see(r)
	}
	for _, r := range []WaiterRecord{{}, {Name: "a"}, {Position: 1}, {Session: 1}, {Seq: 1}, {Data: []byte("a")}} {
		see(r)
	}
	for _, r := range []KeyValue{{}, {Key: "a"}, {Value: []byte("a")}, {Created: 1}, {Changed: 1}, {Session: 1}} {
		see(KeyRecord{r})
	}
	for _, r := range []Event{{}, {Type: 1}, {Key: "a"}, {Value: []byte("a")}, {Previous: []byte("a")}, {Revision: 1},
		{Session: 1}} {
		see(EventRecord{Event: r})
	}
	see(EventRecord{N: 1})
	for _, r := range []Result{{Slots: 1}, {Slot: 1}, {Cycle: &Cycle{}}, {Cycle: &Cycle{[]Wait{{}}}},
		{Cycle: &Cycle{[]Wait{{Session: 1}}}}, {Cycle: &Cycle{[]Wait{{Label: "a"}}}}, {Cycle: &Cycle{[]Wait{{Holds: "a"}}}},
		{Cycle: &Cycle{[]Wait{{Token: 1}}}}, {Cycle: &Cycle{[]Wait{{WaitsFor: "a"}}}}} {
		see(ResultRecord{Result: r})
	}
	see(Header{Format: 2})
	for _, r := range []GrantRecord{{}, {Names: []string{"a", "b"}}, {Names: []string{"ab"}}, {Token: 1}, {Session: 1},
		{Data: []byte("a")}, {Shared: true}, {Slots: 1}, {Slot: []uint32{1}}, {TTL: 1}, {Delay: 1}} {
		see(r)
	}
	for _, r := range []LossRecord{{}, {Name: "a"}, {Token: 1}, {Delay: 1}, {Shared: true}, {Slots: 1}, {Slot: 1}} {
		see(r)
	}
	for _, m := range []Mark{{}, {Session: 1}, {Token: 1}, {Name: "a"}} {
		see(MarkRecord{m})
	}
	for _, r := range []RequestRecord{{}, {Names: []string{"a", "b"}}, {Names: []string{"ab"}}, {Position: 1}, {Session: 1},
		{Seq: 1}, {Data: []byte("a")}, {Shared: true}, {Slots: 1}, {TTL: 1}, {Delay: 1}, {Holding: []GrantID{{}}},
		{Holding: []GrantID{{"a", 1}}}} {
		see(r)
	}
	for i := range 11 {
		p := make([]uint64, 11)
		p[i] = 1
		see(Trailer{p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10]})
	}
	if len(forms) != n {
		t.Errorf("%d records have %d forms", n, len(forms))
	}
}
