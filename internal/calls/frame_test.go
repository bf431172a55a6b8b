package calls

import (
	"bytes"
	"errors"
	"testing"
)

func TestFrames(t *testing.T) {
	var f frames
	var want []message
	grown := 0
	for i := range 1000 {
		m := message{kind: kindRequest, id: uint64(i) << 40, arg: uint64(i), body: bytes.Repeat([]byte{byte(i)}, i)}
		if i%10 == 0 {
			m.body = make([]byte, 70<<10)
		}
		want = append(want, m)
		grown += f.add(m)
	}
	run := f.run()
	if grown != len(run) {
		t.Errorf("%d bytes in the run, %d reported", len(run), grown)
	}
	var got []message
	for pieces := 0; len(run) > 0; pieces++ {
		var front []byte
		front, run = cutFrames(run, portion)
		if len(front) > portion {
			t.Errorf("%d bytes at once", len(front))
		}
		for len(front) > 0 {
			n, err := parseHead(front, 4<<20)
			if err != nil {
				t.Fatal(err)
			}
			body := front[frameHead : frameHead+n]
			front = front[frameHead+n:]
			for len(body) > 0 {
				var m message
				if m, body, err = parseMessage(body); err != nil {
					t.Fatal(err)
				}
				got = append(got, m)
			}
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d messages", len(got))
	}
	for i := range got {
		if got[i].id != want[i].id || got[i].arg != want[i].arg || !bytes.Equal(got[i].body, want[i].body) {
			t.Fatalf("message %d", i)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	var seed frames
	for k := kindRequest; k <= kindPong; k++ {
		seed.add(message{kind: k, id: 300, arg: 5, body: []byte("body")})
	}
	f.Add(seed.run()[frameHead:])
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			m, rest, err := parseMessage(b)
			if err != nil {
				if !errors.Is(err, errFrame) {
					t.Fatal(err)
				}
				return
			}
			if len(rest) >= len(b) {
				t.Fatal("no progress")
			}
			var again frames
			again.add(m)
			if m2, _, err := parseMessage(again.run()[frameHead:]); err != nil || m2.kind != m.kind || m2.id != m.id || !bytes.Equal(m2.body, m.body) {
				t.Fatalf("%+v became %+v, %v", m, m2, err)
			}
			b = rest
		}
	})
}
