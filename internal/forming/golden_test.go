package forming

import (
	"reflect"
	"strings"
	"testing"

	"github.com/coordcell/coord/internal/goldentest"
)

var rewrite = goldentest.Flag()

// golden is a message or a record, and how it is read.
type golden struct {
	name   string
	value  any
	bytes  []byte
	decode func([]byte) (any, error)
}

func decoding[T any](f func([]byte) (T, error)) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return f(b) }
}

func goldens() []golden {
	p := proposal(300, "cell", "a", "b", "c")
	r := Record{Proposal: p, Earlier: [][]string{{"a", "b", "x"}, {"a", "y"}}}
	s := status{
		ID: "a", Name: "host-1", Cell: "zürich", CellID: "cell", Expect: 3, Limits: "digest", Leader: "b", Record: r,
	}
	ask := JoinRequest{ID: "d", Name: "host-4", Addr: "10.0.0.4:7420", Cell: "zürich"}
	yes, no := answer{OK: true}, answer{Reason: "a proposal of round 301 was adopted before"}
	admitted := JoinReply{Code: Admitted, CellID: "cell"}
	redirect := JoinReply{Code: Redirect, Leader: "b", Reason: "not the leader"}
	return []golden{
		{"record", r, r.Encode(), decoding(DecodeRecord)},
		{"record-first", Record{Proposal: p}, Record{Proposal: p}.Encode(), decoding(DecodeRecord)},
		{"status", s, s.encode(), decoding(decodeStatus)},
		{"status-empty", status{}, status{}.encode(), decoding(decodeStatus)},
		{"proposal", p, encodeProposal(p), decoding(decodeProposal)},
		{"answer-yes", yes, yes.encode(), decoding(decodeAnswer)},
		{"answer-no", no, no.encode(), decoding(decodeAnswer)},
		{"join", ask, ask.encode(), decoding(decodeJoinRequest)},
		{"join-admitted", admitted, admitted.encode(), decoding(decodeJoinReply)},
		{"join-redirect", redirect, redirect.encode(), decoding(decodeJoinReply)},
	}
}

func TestGolden(t *testing.T) {
	var items []goldentest.Item
	for _, g := range goldens() {
		items = append(items, goldentest.Item{Name: g.name, Bytes: g.bytes})
	}
	kept := goldentest.Check(t, "forming.v1.txt", *rewrite, items)
	for _, g := range goldens() {
		if v, err := g.decode(kept[g.name]); err != nil || !reflect.DeepEqual(v, g.value) {
			t.Errorf("%s decodes as %+v, %v", g.name, v, err)
		}
	}
}

func TestNewerVersionIsRefused(t *testing.T) {
	for _, g := range goldens() {
		g.bytes[0] = version + 1
		if _, err := g.decode(g.bytes); err == nil || !strings.Contains(err.Error(), "version 2, this program reads up to 1") {
			t.Errorf("%s: %v", g.name, err)
		}
	}
}
