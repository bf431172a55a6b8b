package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/hashicorp/raft"
)

// The keys that raft v1.7.3 uses in its stable store.
const (
	keyTerm      = "CurrentTerm"
	keyVoteTerm  = "LastVoteTerm"
	keyCandidate = "LastVoteCand"
)

// Our own keys in the backing store.
var (
	keyBallot = []byte("Ballot")
	keyNode   = []byte("NodeID") // ties the file to the identity beside it
)

// values is what the ballot is kept in. Get returns an error "not found" for a key that is not there.
type values interface {
	Set(key, value []byte) error
	Get(key []byte) ([]byte, error)
}

// ballots is raft's stable store. raft saves a vote in two writes, the term and then the candidate; a crash between them
// would leave the new term beside the candidate of an earlier vote, who would get the vote again with no look at its
// log. Here the term waits in memory until the candidate is known, and both are written as one record, along with the
// current term. raft writes from one goroutine at a time.
type ballots struct {
	g     *guard
	inner values

	mu       sync.Mutex
	now      ballot
	voteTerm uint64 // of a vote whose candidate has not been set yet
}

type ballot struct {
	term, voteTerm uint64
	candidate      []byte
}

// SetUint64 returns nil always for raft's own keys.
func (b *ballots) SetUint64(key []byte, v uint64) error {
	switch string(key) {
	case keyTerm:
		next := b.current()
		next.term = v
		b.write(OpSetTerm, next)
	case keyVoteTerm:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.voteTerm = v
	default:
		return unknownKey(key)
	}
	return nil
}

// Set returns nil always for raft's own keys.
func (b *ballots) Set(key, v []byte) error {
	if string(key) != keyCandidate {
		return unknownKey(key)
	}
	next := b.current()
	b.mu.Lock()
	next.voteTerm = b.voteTerm
	b.mu.Unlock()
	next.candidate = bytes.Clone(v)
	b.write(OpSetVote, next)
	return nil
}

// GetUint64 does not read the disk. A vote that is not complete is not seen.
func (b *ballots) GetUint64(key []byte) (uint64, error) {
	now := b.current()
	v := now.term
	switch string(key) {
	case keyTerm:
	case keyVoteTerm:
		v = now.voteTerm
	default:
		return 0, unknownKey(key)
	}
	if v == 0 {
		return 0, errNotFound
	}
	return v, nil
}

// Get does not read the disk. A vote that is not complete is not seen.
func (b *ballots) Get(key []byte) ([]byte, error) {
	if string(key) != keyCandidate {
		return nil, unknownKey(key)
	}
	if now := b.current(); now.voteTerm != 0 {
		return bytes.Clone(now.candidate), nil
	}
	return nil, errNotFound
}

func (b *ballots) current() ballot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *ballots) write(op Op, next ballot) {
	if !b.g.do(op, func() error { return b.inner.Set(keyBallot, next.encode()) }) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = next
}

// load reads what is stored.
func (b *ballots) load() error {
	data, err := b.inner.Get(keyBallot)
	if missing(err) {
		return nil
	}
	if err == nil {
		b.now, err = decodeBallot(data)
	}
	return err
}

const ballotVersion = 1

// encode returns the version, the two terms, the candidate, and the CRC-32C of all that.
func (v ballot) encode() []byte {
	data := []byte{ballotVersion}
	data = binary.BigEndian.AppendUint64(data, v.term)
	data = binary.BigEndian.AppendUint64(data, v.voteTerm)
	data = append(data, v.candidate...)
	return binary.BigEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
}

func decodeBallot(data []byte) (ballot, error) {
	n := len(data) - 4
	if n < 1+8+8 {
		return ballot{}, fmt.Errorf("%w: the record of term and vote has %d bytes", ErrDamaged, len(data))
	}
	if stored, computed := binary.BigEndian.Uint32(data[n:]), crc32.Checksum(data[:n], castagnoli); computed != stored {
		return ballot{}, fmt.Errorf("%w: the record of term and vote has checksum %08x, not %08x", ErrDamaged, computed, stored)
	}
	if data[0] != ballotVersion {
		return ballot{}, fmt.Errorf("%w: the record of term and vote has version %d, this program reads up to %d", ErrNewer, data[0], ballotVersion)
	}
	v := ballot{term: binary.BigEndian.Uint64(data[1:]), voteTerm: binary.BigEndian.Uint64(data[9:])}
	if n > 17 {
		v.candidate = bytes.Clone(data[17:n])
	}
	return v, nil
}

func missing(err error) bool { return err != nil && err.Error() == errNotFound.Error() }

func unknownKey(key []byte) error { return fmt.Errorf("store: raft uses an unknown key %q", key) }

var (
	_ raft.StableStore       = (*ballots)(nil)
	_ raft.MonotonicLogStore = (*logs)(nil)
)
