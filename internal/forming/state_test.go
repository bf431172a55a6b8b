package forming

import (
	"testing"

	"github.com/coordcell/coord/internal/wire"
)

// A server that adopted a proposal, and was then admitted by another cell, hears late that the proposal is complete. It
// belongs to a cell, and forms no other.
func TestAServerOfAnotherCellIsNotBootstrapped(t *testing.T) {
	p := Proposal{Ballot: Ballot{Number: 1, ID: "b"}, CellID: "late", Servers: []string{"a", "b", "c"}}
	bootstrapped := false
	f, err := New(Config{
		ID: "a", Cell: "cell", CellID: "joined", Expect: 3, Record: Record{Proposal: p}.Encode(),
		Bootstrap: func(string, []string) error { bootstrapped = true; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.Handle(t.Context(), wire.MethodForm, encodeProposal(p))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := decodeAnswer(b); err != nil || a.OK || bootstrapped {
		t.Errorf("%+v, %v; bootstrapped: %v", a, err, bootstrapped)
	}
}
