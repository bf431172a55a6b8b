package calls

import (
	"reflect"
	"strings"
	"testing"

	"github.com/coordcell/coord/internal/goldentest"
)

var rewrite = goldentest.Flag()

// goldenFrames are one frame of each kind of message, and one of all.
func goldenFrames() (names []string, frames map[string][]message) {
	all := []message{
		{kind: kindRequest, id: 300, arg: 9, body: []byte("question")},
		{kind: kindCancel, id: 1 << 40},
		{kind: kindReply, id: 300, body: []byte("one of several")},
		{kind: kindLast, id: 127, body: []byte{0, 255}},
		{kind: kindEnd, id: 128, arg: 3, body: []byte("not the leader")},
		{kind: kindPing},
		{kind: kindPong},
	}
	names = []string{"request", "cancel", "reply", "last", "end", "ping", "pong"}
	frames = map[string][]message{"all": all, "empty-last": {{kind: kindLast, id: 1}}}
	for i, name := range names {
		frames[name] = all[i : i+1]
	}
	return append(names, "all", "empty-last"), frames
}

func encodeFrame(ms []message) []byte {
	var f frames
	for _, m := range ms {
		f.add(m)
	}
	return f.run()
}

func decodeFrame(t *testing.T, b []byte) (ms []message) {
	t.Helper()
	n, err := parseHead(b, 4<<20)
	if err != nil || n != len(b)-frameHead {
		t.Fatalf("%d bytes in a frame of %d: %v", n, len(b), err)
	}
	for b = b[frameHead:]; len(b) > 0; {
		var m message
		if m, b, err = parseMessage(b); err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	return ms
}

func TestGoldenFrames(t *testing.T) {
	names, want := goldenFrames()
	var items []goldentest.Item
	for _, name := range names {
		items = append(items, goldentest.Item{Name: name, Bytes: encodeFrame(want[name])})
	}
	for name, b := range goldentest.Check(t, "frames.v1.txt", *rewrite, items) {
		if got := decodeFrame(t, b); !reflect.DeepEqual(got, want[name]) {
			t.Errorf("%s decodes as %+v", name, got)
		}
	}
}

func TestNewerFrameIsRefused(t *testing.T) {
	b := encodeFrame([]message{{kind: kindPing}})
	b[4] = frameVersion + 1
	if _, err := parseHead(b, 4<<20); err == nil || !strings.Contains(err.Error(), "version 2, this program reads up to 1") {
		t.Error(err)
	}
}
