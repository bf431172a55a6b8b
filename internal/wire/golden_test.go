package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/goldentest"
)

var rewrite = goldentest.Flag()

var (
	nonce  = fsm.Nonce{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff}
	change = fsm.Change{Session: 1 << 33, Seq: 200, Acks: []uint64{1, 127, 128, 255, 256, 65535, 65536, 1<<32 - 1, 1 << 32}}
)

// commands has one of every type, each field with a value of its own.
func commands() []fsm.Command {
	return []fsm.Command{
		fsm.OpenSession{Nonce: nonce, TTL: 10e9, Label: "worker 7", Node: "n-1", Internal: true},
		fsm.CloseSession{Change: change},
		fsm.Lock{Change: change, Name: "jobs/7", Data: []byte("data"), Try: true},
		fsm.Unlock{Change: change, Name: "jobs/7", Token: 4711},
		fsm.Withdraw{Change: change, Target: 17, OnlyQueued: true},
		fsm.SetData{Change: change, Name: "jobs/7", Token: 4711, Data: bytes.Repeat([]byte{0xab}, 300)},
		fsm.Put{
			Change: change, Key: strings.Repeat("k", 40), Value: []byte{0}, Ephemeral: true,
			If: fsm.Precondition{Absent: true, At: 12},
		},
		fsm.Delete{Change: change, Key: "k", If: fsm.Precondition{At: 12}},
		fsm.Txn{
			Change: change,
			If: []fsm.Condition{
				{Kind: fsm.KeyAt, Key: "a", Revision: 3},
				{Kind: fsm.KeyAbsent, Key: "b"},
				{Kind: fsm.ValueIs, Key: "c", Value: []byte("v")},
				{Kind: fsm.HeldBy, Key: "jobs/7", Revision: 9},
			},
			Then:      []fsm.Op{{Kind: fsm.OpGet, Key: "a"}, {Kind: fsm.OpPut, Key: "b", Value: []byte("w")}},
			Else:      []fsm.Op{{Kind: fsm.OpDelete, Key: "c"}},
			Ephemeral: true,
		},
		fsm.TermStart{Nonce: nonce, Format: 258},
		fsm.Generation{First: true, Cell: nonce, Seconds: 60e6, Params: params},
		fsm.EndHold{Term: 5},
		fsm.Expire{Term: 6, Sessions: []fsm.SessionID{1, 1 << 40}},
		fsm.Reap{},
		fsm.Check{Index: 10000, Hash: 1<<64 - 1},
		fsm.SetMember{Member: fsm.Member{ID: "id", Name: "name", Addr: "10.0.0.1:7420"}},
		fsm.RemoveMember{ID: "id"},
	}
}

var params = fsm.Params{
	HistoryEvents: 500000, HistoryBytes: 64 << 20, Sessions: 1e6, Locks: 4e6, Keys: 4e6 + 1, Waiters: 1e5, ReapStep: 1000,
}

func TestGoldenEntry(t *testing.T) {
	want := make(map[string][]fsm.Command)
	var items []goldentest.Item
	add := func(name string, cmds []fsm.Command) {
		b, err := AppendEntry(nil, cmds)
		if err != nil {
			t.Fatal(err)
		}
		items, want[name] = append(items, goldentest.Item{Name: name, Bytes: b}), cmds
	}
	for _, c := range commands() {
		add(strings.TrimPrefix(fmt.Sprintf("%T", c), "fsm."), []fsm.Command{c})
	}
	add("empty", nil)
	add("all", commands())
	add("zero-lock", []fsm.Command{fsm.Lock{}})
	for name, b := range goldentest.Check(t, "entry.v1.txt", *rewrite, items) {
		cmds, err := DecodeEntry(b)
		if err != nil || !reflect.DeepEqual(cmds, want[name]) {
			t.Errorf("%s decodes as %+v, %v", name, cmds, err)
		}
	}
}

// message is what all messages of this package can do.
type message struct {
	name   string
	value  any
	bytes  []byte
	decode func([]byte) (any, error)
}

func decoder[T any](f func([]byte) (T, error)) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return f(b) }
}

func messages() []message {
	reply := fsm.Reply{Session: 3, Seq: 4, Nonce: nonce, Result: results()[0]}
	propose, _ := Propose{commands()[:3]}.Append(nil)
	replies := ProposeReply{
		Replies: []fsm.Reply{reply, {}},
		Refused: []Refusal{{Session: 1, Seq: 2, Nonce: nonce, Reason: "value too large"}},
	}
	keepAlive := KeepAlive{Node: "n-1", Number: 70000, Sessions: []fsm.SessionID{1, 300}}
	keepAliveAnswer := KeepAliveAnswer{Number: 70000, Term: 9, Dead: []fsm.SessionID{300}, Again: []fsm.SessionID{301}}
	testify := Testify{Leader: "n-2", Boot: 1<<64 - 2, Term: 300}
	testimony := Testimony{Dead: true, Term: 300, LastTerm: 299, LastIndex: 70000}
	return []message{
		{"Propose", Propose{commands()[:3]}, propose, decoder(DecodePropose)},
		{"ProposeReply", replies, replies.Append(nil), decoder(DecodeProposeReply)},
		{"ReadIndex", ReadIndex{}, ReadIndex{}.Append(nil), decoder(DecodeReadIndex)},
		{"ReadIndexAnswer", ReadIndexAnswer{5, 600}, ReadIndexAnswer{5, 600}.Append(nil), decoder(DecodeReadIndexAnswer)},
		{"KeepAlive", keepAlive, keepAlive.Append(nil), decoder(DecodeKeepAlive)},
		{"KeepAliveAnswer", keepAliveAnswer, keepAliveAnswer.Append(nil), decoder(DecodeKeepAliveAnswer)},
		{"HashAt", HashAt{7, 8}, HashAt{7, 8}.Append(nil), decoder(DecodeHashAt)},
		{"HashAtAnswer", HashAtAnswer{7, true, 9}, HashAtAnswer{7, true, 9}.Append(nil), decoder(DecodeHashAtAnswer)},
		{"Transfer", Transfer{"n-2"}, Transfer{"n-2"}.Append(nil), decoder(DecodeTransfer)},
		{"Testify", testify, testify.Append(nil), decoder(DecodeTestify)},
		{"Testimony", testimony, testimony.Append(nil), decoder(DecodeTestimony)},
	}
}

func results() []fsm.Result {
	kv := fsm.KeyValue{Key: "k", Value: []byte("v"), Created: 1, Changed: 200, Session: 3}
	return []fsm.Result{
		{
			Code: fsm.LimitReached, Revision: 70000, Session: 5, Succeeded: true,
			Ops: []fsm.OpResult{{Found: true, KV: kv}, {}}, Limit: fsm.LimitWaiters,
		},
		{},
	}
}

func TestGoldenMessages(t *testing.T) {
	var items []goldentest.Item
	all := messages()
	for i, r := range results() {
		all = append(all, message{fmt.Sprintf("Result%d", i), r, AppendResult(nil, r), decoder(DecodeResult)})
	}
	for _, m := range all {
		items = append(items, goldentest.Item{Name: m.name, Bytes: m.bytes})
	}
	kept := goldentest.Check(t, "messages.v1.txt", *rewrite, items)
	for _, m := range all {
		v, err := m.decode(kept[m.name])
		if err != nil || !reflect.DeepEqual(v, m.value) {
			t.Errorf("%s decodes as %+v, %v", m.name, v, err)
		}
	}
}
