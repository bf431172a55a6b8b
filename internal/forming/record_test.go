package forming

import (
	"reflect"
	"strings"
	"testing"
)

func proposal(n uint64, cell string, servers ...string) Proposal {
	return Proposal{Ballot: Ballot{Number: n, ID: servers[0]}, CellID: cell, Servers: servers}
}

// adopted is the record of b after it was offered each proposal in turn.
func adopted(t *testing.T, ps ...Proposal) Record {
	t.Helper()
	var r Record
	for _, p := range ps {
		var err error
		if r, err = r.adopt(p, "b"); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestAdoption(t *testing.T) {
	abc := proposal(2, "x", "a", "b", "c")
	for name, c := range map[string]struct {
		before Record
		offer  Proposal
		want   string // part of the error, or empty
	}{
		"the first":              {Record{}, abc, ""},
		"again":                  {adopted(t, abc), abc, ""},
		"the same set later":     {adopted(t, abc), proposal(3, "y", "a", "b", "c"), ""},
		"the same round":         {adopted(t, abc), proposal(2, "y", "a", "b", "c"), "adopted before"},
		"an earlier round":       {adopted(t, abc), proposal(1, "y", "a", "b", "c"), "adopted before"},
		"one of three replaced":  {adopted(t, abc), proposal(3, "y", "a", "b", "d"), ""},
		"two of three replaced":  {adopted(t, abc), proposal(3, "y", "b", "d", "e"), "may have come to life"},
		"step by step":           {adopted(t, abc, proposal(3, "y", "a", "b", "d")), proposal(4, "z", "b", "d", "e"), "[a b c] may have"},
		"one of two replaced":    {adopted(t, proposal(2, "x", "a", "b")), proposal(3, "y", "b", "c"), ""},
		"two of four replaced":   {adopted(t, proposal(2, "x", "a", "b", "c", "d")), proposal(3, "y", "a", "b", "e", "f"), ""},
		"three of four replaced": {adopted(t, proposal(2, "x", "a", "b", "c", "d")), proposal(3, "y", "b", "e", "f", "g"), "may have"},
		"alone after three":      {adopted(t, abc), proposal(3, "y", "b"), "may have"},
		"without this server":    {Record{}, proposal(1, "x", "a", "c"), "not among"},
		"not sorted":             {Record{}, proposal(1, "x", "b", "a"), "malformed"},
		"twice the same":         {Record{}, proposal(1, "x", "b", "b"), "malformed"},
		"no cell id":             {Record{}, proposal(1, "", "a", "b"), "malformed"},
	} {
		_, err := c.before.adopt(c.offer, "b")
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestRecordSurvivesEncoding(t *testing.T) {
	r := adopted(t, proposal(2, "x", "a", "b", "c"), proposal(3, "y", "a", "b", "d"))
	got, err := DecodeRecord(r.Encode())
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("%+v %v", got, err)
	}
	if r, err := DecodeRecord(nil); err != nil || r.CellID != "" {
		t.Error(r, err)
	}
	for n := 1; n < len(r.Encode()); n++ {
		if _, err := DecodeRecord(r.Encode()[:n]); err == nil {
			t.Errorf("%d bytes of a record are accepted", n)
		}
	}
}

func FuzzMessages(f *testing.F) {
	r := Record{Proposal: proposal(2, "x", "a", "b"), Earlier: [][]string{{"a", "c"}}}
	f.Add(status{ID: "a", Name: "n", Cell: "c", Expect: 3, Record: r}.encode())
	f.Add(r.Encode())
	f.Add(answer{Reason: "no"}.encode())
	f.Add(JoinReply{Code: Retry, Reason: "no"}.encode())
	f.Add(JoinRequest{ID: "a", Name: "n"}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodeStatus(b); err == nil {
			if again, err := decodeStatus(s.encode()); err != nil || !reflect.DeepEqual(s, again) {
				t.Errorf("%+v becomes %+v, %v", s, again, err)
			}
		}
		_, _ = DecodeRecord(b)
		_, _ = decodeProposal(b)
		_, _ = decodeAnswer(b)
		_, _ = decodeJoinReply(b)
		_, _ = decodeJoinRequest(b)
	})
}
