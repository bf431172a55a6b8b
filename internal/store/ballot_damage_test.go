package store

import (
	"bytes"
	"errors"
	"testing"
)

// Whichever bit of the record of term and vote has flipped, and wherever it is cut off, it is not believed: the server
// might vote a second time.
func TestG11_ADamagedBallotIsNotBelieved(t *testing.T) {
	good := ballot{term: 3, voteTerm: 2, candidate: []byte("candidate")}.encode()
	if v, err := decodeBallot(good); err != nil || v.term != 3 || v.voteTerm != 2 || string(v.candidate) != "candidate" {
		t.Fatalf("%+v, %v", v, err)
	}
	for bit := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if v, err := decodeBallot(bad); !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d: %+v, %v", bit, v, err)
		}
	}
	for n := range good {
		if v, err := decodeBallot(good[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d of %d bytes: %+v, %v", n, len(good), v, err)
		}
	}
}
