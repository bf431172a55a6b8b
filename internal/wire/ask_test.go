package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/goldentest"
)

func marks() []fsm.Mark {
	return []fsm.Mark{{Session: 300}, {Session: 301, Token: 70000, Name: "jobs/7"}}
}

// askMessages has one of every question for the leader and of its answers, each field with a value of its own, and the
// answers of older kinds that carry marks.
func askMessages() []message {
	grant := fsm.GrantID{Name: "jobs/7", Token: 70000}
	ask := Ask{Passed: true, Kind: AskHeld, Question: []byte("q")}
	refresh := Refresh{Session: 3, Number: 300, Grant: grant}
	refreshed := RefreshAnswer{Number: 300, State: RefreshAgain, Marks: marks()}
	held := Held{Session: 3, Grants: []fsm.GrantID{grant, {Name: "b", Token: 2}}}
	answer := HeldAnswer{Revision: 70001, Lost: []fsm.Revision{2}, Marks: marks()}
	alive := KeepAliveAnswer{Number: 70000, Term: 9, Dead: []fsm.SessionID{302}, Again: []fsm.SessionID{301}, Marks: marks()}
	return []message{
		{"Ask", ask, ask.Append(nil), decoder(DecodeAsk)},
		{"Refresh", refresh, refresh.Append(nil), decoder(DecodeRefresh)},
		{"RefreshAnswer", refreshed, refreshed.Append(nil), decoder(DecodeRefreshAnswer)},
		{"Stopped", Stopped{marks()}, Stopped{marks()}.Append(nil), decoder(DecodeStopped)},
		{"Held", held, held.Append(nil), decoder(DecodeHeld)},
		{"HeldAnswer", answer, answer.Append(nil), decoder(DecodeHeldAnswer)},
		{"FormatAnswer", FormatAnswer{2}, FormatAnswer{2}.Append(nil), decoder(DecodeFormatAnswer)},
		{"KeepAliveAnswer2", alive, alive.Append(nil), decoder(DecodeKeepAliveAnswer)},
	}
}

func TestGoldenAskMessages(t *testing.T) {
	var items []goldentest.Item
	for _, m := range askMessages() {
		items = append(items, goldentest.Item{Name: m.name, Bytes: m.bytes})
	}
	kept := goldentest.Check(t, "ask.v1.txt", *rewrite, items)
	for _, m := range askMessages() {
		v, err := m.decode(kept[m.name])
		if err != nil || !reflect.DeepEqual(v, m.value) {
			t.Errorf("%s decodes as %+v, %v", m.name, v, err)
		}
	}
}

func TestDamagedAskMessages(t *testing.T) {
	for _, m := range askMessages() {
		for n := range m.bytes {
			if _, err := m.decode(m.bytes[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s, first %d bytes: %v", m.name, n, err)
			}
		}
		newer := bytes.Clone(m.bytes)
		newer[1] = 3
		if _, err := m.decode(newer); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s of version 3: %v", m.name, err)
		}
	}
}

// FuzzAskMessages: whatever can be read is written in the same way again.
func FuzzAskMessages(f *testing.F) {
	for i, m := range askMessages() {
		f.Add(uint8(i), m.bytes)
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		v, err := askMessages()[int(kind)%len(askMessages())].decode(b)
		if err != nil {
			return
		}
		if m, ok := v.(interface{ Append([]byte) []byte }); ok && !bytes.Equal(m.Append(nil), b) {
			t.Errorf("%x is written as %x", b, m.Append(nil))
		}
	})
}
