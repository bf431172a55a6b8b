package wire

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/coordcell/coord/fsm"
)

// A state that went through bytes, entry by entry and then as a snapshot, is the same state.
func TestG10_StateSurvivesBytes(t *testing.T) {
	states := [2]*fsm.State{fsm.New(), fsm.New()} // given the commands, and what became of them
	index := uint64(0)
	apply := func(cmds ...fsm.Command) {
		index++
		states[0].Apply(index, 1, cmds)
		decoded, err := DecodeEntry(encode(t, cmds...))
		if err != nil {
			t.Fatal(err)
		}
		states[1].Apply(index, 1, decoded)
	}
	apply(fsm.Generation{First: true, Cell: nonce, Seconds: 60e6, Params: params}, fsm.TermStart{Nonce: nonce, Format: 1})
	apply(fsm.SetMember{Member: fsm.Member{ID: "n-1", Name: "one", Addr: "10.0.0.1:7420"}})
	for i := range 3 {
		apply(fsm.OpenSession{Nonce: fsm.Nonce{byte(i)}, TTL: 10e9, Label: "worker", Node: "n-1"})
	}
	var ids []fsm.SessionID
	for s := range states[0].Sessions() {
		ids = append(ids, s.ID)
	}
	if len(ids) != 3 {
		t.Fatalf("sessions %v", ids)
	}
	for i, id := range ids {
		seq := uint64(0)
		change := func() fsm.Change { seq++; return fsm.Change{Session: id, Seq: seq} }
		apply(
			fsm.Lock{Change: change(), Name: "jobs", Data: []byte("host")},
			fsm.Lock{Change: change(), Name: fmt.Sprint("own/", i)},
			fsm.Put{Change: change(), Key: fmt.Sprint("key/", i), Value: []byte{}, Ephemeral: true},
			fsm.Put{Change: change(), Key: "shared", Value: []byte("v")},
			fsm.Txn{Change: change(), Then: []fsm.Op{{Kind: fsm.OpGet, Key: "shared"}, {Kind: fsm.OpDelete, Key: "key/0"}}},
		)
	}
	apply(fsm.CloseSession{Change: fsm.Change{Session: ids[0], Seq: 6, Acks: []uint64{1, 2}}})

	var b bytes.Buffer
	if err := WriteSnapshot(&b, states[0].Records()); err != nil {
		t.Fatal(err)
	}
	restored, err := fsm.Restore(ReadSnapshot(&b))
	if err != nil {
		t.Fatal(err)
	}
	if a, b, c := states[0].Hash(), states[1].Hash(), restored.Hash(); a != b || a != c {
		t.Errorf("hashes %x, %x, %x", a, b, c)
	}
}
