package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/goldentest"
)

// clientMessages has one of every message between a client and its server, each field with a value of its own.
func clientMessages() []message {
	renew := Renew{Gathered: true, Groups: []RenewGroup{{Number: 70000, Sessions: []fsm.SessionID{1, 300}}, {Number: 2}}}
	renewed := RenewAnswer{Groups: []RenewedGroup{
		{Number: 70000, Dead: []fsm.SessionID{300}, Again: []fsm.SessionID{301}, Marks: marks()}, {Number: 2},
	}}
	read := Read{Kind: ReadList, Name: "a", After: "b", Limit: 200, Stale: true}
	answer := ReadAnswer{
		Rest: 1 << 63, Revision: 70000, More: true,
		Keys: []fsm.KeyValue{{Key: "k", Value: []byte("v"), Created: 1, Changed: 200, Session: 3}},
		Lock: fsm.LockView{
			Holders: []fsm.Holder{{Session: 3, Label: "l", Token: 4, Data: []byte("d"), Names: []string{"x", "y"}, Shared: true, Slot: 1, TTL: 9, Revoked: true}},
			Queue:   []fsm.Waiter{{Session: 5, Label: "m", Seq: 6, Queued: 7, Names: []string{"x"}, Shared: true, Slots: 2}},
			Freeing: true, Slots: 3, Delayed: []fsm.DelayEvent{{Name: "x", Token: 8, Delay: 9}},
		},
		Held: []time.Duration{-1}, Waited: []time.Duration{time.Second},
		Locks: []LockAnswer{
			{Name: "big", Large: true},
			{Name: "x", Lock: fsm.LockView{Holders: []fsm.Holder{{Session: 3}}}, Held: []time.Duration{5}},
		},
		Sessions: []SessionAnswer{{ID: 3, Label: "l", Node: "n", TTL: 4, Uses: fsm.Uses{Locks: 5, Keys: 6, Waiting: 7}}},
	}
	about := AboutAnswer{
		Version: 1, Leader: "n-1", Term: 2, Applied: 3, Committed: 4, Revision: 5,
		Counts: fsm.Counts{Sessions: 6, Locks: 7, Keys: 8, Waiting: 9}, Params: fsm.Params{Sessions: 10, Locks: 11, Keys: 12, Waiters: 13},
		Evidence: 14, Servers: []AboutServer{{ID: "n-1", Name: "one", Addr: "a:1", Zone: "z", Voter: true, Alive: true}, {}},
	}
	poll := Poll{Key: "k", Prefix: true, Previous: true, From: 70000, Skip: 3, Wait: true}
	batch := PollBatch{Revision: 70000, Events: []fsm.Event{
		{Type: fsm.EventPut, Key: "k", Value: []byte("v"), Previous: []byte("w"), Revision: 70000, Session: 3},
	}}
	polled := PollAnswer{Compacted: true, Partial: true, Next: 70001, Age: 5, Batches: [][]byte{batch.Append(nil)}}
	lock := PollLockAnswer{
		Digest: 1 << 63, Revision: 5, Freeing: true, Holders: []fsm.Holder{{Session: 3, Label: "l", Token: 4, Data: []byte("d")}},
	}
	return []message{
		{"Poll", poll, poll.Append(nil), decoder(DecodePoll)},
		{"PollAnswer", polled, polled.Append(nil), decoder(DecodePollAnswer)},
		{"PollBatch", batch, batch.Append(nil), decoder(DecodePollBatch)},
		{"PollLock", PollLock{"l", 7}, PollLock{"l", 7}.Append(nil), decoder(DecodePollLock)},
		{"PollLockAnswer", lock, lock.Append(nil), decoder(DecodePollLockAnswer)},
		{"Renew", renew, renew.Append(nil), decoder(DecodeRenew)},
		{"RenewAnswer", renewed, renewed.Append(nil), decoder(DecodeRenewAnswer)},
		{"Read", read, read.Append(nil), decoder(DecodeRead)},
		{"ReadAnswer", answer, answer.Append(nil), decoder(DecodeReadAnswer)},
		{"ReadAnswer0", ReadAnswer{}, ReadAnswer{}.Append(nil), decoder(DecodeReadAnswer)},
		{"ReadRest", ReadRest{Rest: 9}, ReadRest{Rest: 9}.Append(nil), decoder(DecodeReadRest)},
		{"About", About{Known: 8}, About{Known: 8}.Append(nil), decoder(DecodeAbout)},
		{"AboutAnswer", about, about.Append(nil), decoder(DecodeAboutAnswer)},
	}
}

func TestGoldenClientMessages(t *testing.T) {
	var items []goldentest.Item
	for _, m := range clientMessages() {
		items = append(items, goldentest.Item{Name: m.name, Bytes: m.bytes})
	}
	kept := goldentest.Check(t, "client.v1.txt", *rewrite, items)
	for _, m := range clientMessages() {
		v, err := m.decode(kept[m.name])
		if err != nil || !reflect.DeepEqual(v, m.value) {
			t.Errorf("%s decodes as %+v, %v", m.name, v, err)
		}
	}
}

func TestDamagedClientMessages(t *testing.T) {
	for _, m := range clientMessages() {
		for n := range m.bytes {
			if _, err := m.decode(m.bytes[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s, first %d bytes: %v", m.name, n, err)
			}
		}
		newer := bytes.Clone(m.bytes)
		newer[1] = 2
		if _, err := m.decode(newer); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s of version 2: %v", m.name, err)
		}
	}
	huge := []byte("\x93\x01\xc2\xdd\xff\xff\xff\xff")
	if taken := allocated(func() { _, _ = DecodeRenew(huge) }); taken > 1<<16 {
		t.Errorf("a count of groups that is not there takes %d bytes", taken)
	}
}

// FuzzClientMessages: whatever can be read is written in the same way again.
func FuzzClientMessages(f *testing.F) {
	for i, m := range clientMessages() {
		f.Add(uint8(i), m.bytes)
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		m := clientMessages()[int(kind)%len(clientMessages())]
		v, err := m.decode(b)
		if err != nil {
			return
		}
		if again := v.(interface{ Append([]byte) []byte }).Append(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x became %x", b, again)
		}
	})
}
