package gossip

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Bounds that keep the encoded metadata below memberlist's 512 bytes, beyond which it panics. In bytes.
const (
	MaxIDLen   = 64
	MaxNameLen = 128
	MaxAddrLen = 259 // a DNS name of 253 and a port

	cellHashLen    = 16
	metaVersion    = 1
	metaHasState   = 1
	maxMetaLen     = 512
	maxExpect      = 1 << 16
	metaFixedBytes = 2 + cellHashLen
)

// Meta is what a server says about itself.
type Meta struct {
	Cell     string // the cell's name; only a hash of it travels
	CellID   string // the cell it belongs to; empty: none yet
	Name     string // for people
	Addr     string // host:port that others dial
	Expect   int    // how many servers it waits for to form a new cell; 0: it only joins
	HasState bool   // it has a log, or has joined a cell
}

// validate says which field does not fit.
func (m Meta) validate() error {
	switch {
	case len(m.CellID) > MaxIDLen:
		return fmt.Errorf("cell id: %d bytes, at most %d", len(m.CellID), MaxIDLen)
	case len(m.Name) > MaxNameLen || !utf8.ValidString(m.Name):
		return fmt.Errorf("name %q: must be UTF-8 of at most %d bytes, is %d", m.Name, MaxNameLen, len(m.Name))
	case m.Addr == "" || len(m.Addr) > MaxAddrLen:
		return fmt.Errorf("address %q: must be host:port of at most %d bytes", m.Addr, MaxAddrLen)
	case m.Expect < 0 || m.Expect > maxExpect:
		return fmt.Errorf("expect %d: must be 0 to %d", m.Expect, maxExpect)
	}
	return nil
}

// encode returns
//
//	version, flags, hash of the cell's name, uvarint Expect, then CellID, Name and Addr, each a uvarint length and its bytes.
//
// A later version may append fields, which a decoder skips; anything else needs a new version number.
func (m Meta) encode() ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	var flags byte
	if m.HasState {
		flags |= metaHasState
	}
	hash := cellHash(m.Cell)
	b := append([]byte{metaVersion, flags}, hash[:]...)
	b = binary.AppendUvarint(b, uint64(m.Expect))
	for _, s := range []string{m.CellID, m.Name, m.Addr} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	if len(b) > maxMetaLen {
		return nil, fmt.Errorf("metadata: %d bytes, at most %d", len(b), maxMetaLen)
	}
	return b, nil
}

var errMeta = errors.New("malformed metadata")

// decodeMeta reads what encode wrote. Cell stays empty: the hash is returned instead.
func decodeMeta(b []byte) (m Meta, cell [cellHashLen]byte, err error) {
	if len(b) < metaFixedBytes || len(b) > maxMetaLen {
		return m, cell, errMeta
	}
	if b[0] != metaVersion {
		return m, cell, fmt.Errorf("metadata of version %d, this program reads up to %d", b[0], metaVersion)
	}
	m.HasState = b[1]&metaHasState != 0
	copy(cell[:], b[2:])
	b = b[metaFixedBytes:]
	expect, n := binary.Uvarint(b)
	if n <= 0 || expect > maxExpect {
		return m, cell, errMeta
	}
	m.Expect, b = int(expect), b[n:]
	for _, s := range []*string{&m.CellID, &m.Name, &m.Addr} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return m, cell, errMeta
		}
		*s, b = string(b[n:n+int(size)]), b[n+int(size):]
	}
	if m.validate() != nil {
		return m, cell, errMeta
	}
	return m, cell, nil
}

func cellHash(name string) (h [cellHashLen]byte) {
	sum := sha256.Sum256([]byte(name))
	copy(h[:], sum[:])
	return h
}
