package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"unicode/utf8"
)

const (
	identityFile    = "identity"
	identityVersion = 2        // 1 has no log_store
	maxCell         = 512      // bytes of a cell's name
	maxForming      = 64 << 10 // bytes of what SaveRecord keeps
)

// identity is what makes a directory this server's. It is replaced as a whole, never changed in place.
type identity struct {
	Node    string `json:"node"` // 16 random bytes in hex, made with the directory
	Cell    string `json:"cell"`
	CellID  hexID  `json:"cell_id,omitempty"` // once it belongs to a cell
	Forming []byte `json:"forming,omitempty"` // what was adopted while a cell formed; package forming knows its meaning
	Ready   bool   `json:"ready"`             // raft's files exist; without it nothing has been stored in them yet

	LogStore LogStore `json:"log_store,omitempty"` // "" is LogBolt
}

// LogStore is a way to keep raft's log in a directory. A directory has the same for ever.
type LogStore string

const (
	LogSegments LogStore = "segments" // package seglog
	LogBolt     LogStore = "bolt"     // raft-boltdb, in the file of the ballot; the only one of version 1
)

// hexID is 16 bytes in hex, or empty.
type hexID string

func toHex(id [16]byte) hexID { return hexID(hex.EncodeToString(id[:])) }

func (h hexID) bytes() (id [16]byte, ok bool) {
	b, err := hex.DecodeString(string(h))
	if err != nil || len(b) != len(id) || toHex([16]byte(b)) != h {
		return id, false
	}
	return [16]byte(b), true
}

func newIdentity(cell string, log LogStore) identity {
	var id [16]byte
	rand.Read(id[:]) // never fails
	made := identity{Node: string(toHex(id)), Cell: cell}
	if log != LogBolt {
		made.LogStore = log
	}
	return made
}

func (id identity) logStore() LogStore {
	if id.LogStore == "" {
		return LogBolt
	}
	return id.LogStore
}

func decodeIdentity(data []byte) (identity, error) {
	var id identity
	if _, err := unframe(data, identityFile, identityVersion, &id); err != nil {
		return identity{}, err
	}
	if err := id.validate(); err != nil {
		return identity{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return id, nil
}

func (id identity) validate() error {
	if _, ok := hexID(id.Node).bytes(); !ok {
		return fmt.Errorf("node is %.64q, not 16 bytes in hex", id.Node)
	}
	if _, ok := id.CellID.bytes(); !ok && id.CellID != "" {
		return fmt.Errorf("cell_id is %.64q, not 16 bytes in hex", id.CellID)
	}
	if id.LogStore != "" && id.LogStore != LogSegments {
		return fmt.Errorf("log_store is %.64q", id.LogStore)
	}
	if n := len(id.Forming); n > maxForming {
		return fmt.Errorf("the record of forming has %d bytes, the limit is %d", n, maxForming)
	}
	return validateCell(id.Cell)
}

func validateCell(cell string) error {
	if len(cell) == 0 || len(cell) > maxCell || !utf8.ValidString(cell) {
		return fmt.Errorf("cell is %.64q (%d bytes), not 1 to %d bytes of UTF-8", cell, len(cell), maxCell)
	}
	return nil
}

// loadIdentity reads the identity of v, and makes one, with the given log, if v is new.
func loadIdentity(v volume, cell string, log LogStore) (identity, error) {
	data, err := v.read(identityFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if found := v.hasRaft(); found != "" {
			return identity{}, fmt.Errorf("%w: %s is missing, but %s exists", ErrDamaged, v.path(identityFile), found)
		}
		id := newIdentity(cell, log)
		return id, storeIdentity(v, id)
	case err != nil:
		return identity{}, err
	}
	id, err := decodeIdentity(data)
	if err != nil {
		return identity{}, fmt.Errorf("%s: %w", v.path(identityFile), err)
	}
	if id.Cell != cell {
		return identity{}, fmt.Errorf("%w: %s belongs to cell %q, not to %q", ErrWrongCell, v.path(identityFile), id.Cell, cell)
	}
	return id, nil
}

func storeIdentity(v volume, id identity) error {
	// Only a directory that needs it has the version that an earlier program refuses: it would take the log for empty.
	version := 1
	if id.LogStore != "" {
		version = identityVersion
	}
	data, err := frame(identityFile, version, id)
	if err != nil {
		return err
	}
	return v.write(OpWriteIdentity, identityFile, data)
}

// ID is the node's id. It was made with the directory, and never changes.
func (s *Store) ID() string { return s.identity().Node }

// CellID is the id of the cell that this server belongs to, once it does.
func (s *Store) CellID() (id [16]byte, ok bool) { return s.identity().CellID.bytes() }

// SetCellID makes this directory a member's of the cell for good. It is on the disk when SetCellID returns. Another id
// than the one that is set is ErrWrongCell.
func (s *Store) SetCellID(cell [16]byte) error {
	return s.changeIdentity(func(id *identity) error {
		if id.CellID != "" && id.CellID != toHex(cell) {
			return fmt.Errorf("%w: it belongs to the cell with id %s, not %s", ErrWrongCell, id.CellID, toHex(cell))
		}
		id.CellID = toHex(cell)
		return nil
	})
}

// SaveRecord keeps what this server has adopted while a cell forms. It is on the disk when SaveRecord returns: a server
// that has said yes must remember it after a crash.
func (s *Store) SaveRecord(record []byte) error {
	return s.changeIdentity(func(id *identity) error {
		id.Forming = slices.Clone(record)
		return nil
	})
}

// Record returns what SaveRecord was given last, nil if there was nothing.
func (s *Store) Record() []byte { return slices.Clone(s.identity().Forming) }

func (s *Store) identity() identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// changeIdentity writes the identity as change leaves it. What change refuses is not written, and no failure; that a
// write fails is one, and trips the switch.
func (s *Store) changeIdentity(change func(*identity) error) error {
	select {
	case s.changing <- struct{}{}:
	case <-s.g.sw.Tripped():
		return s.g.sw.Err()
	}
	defer func() { <-s.changing }()
	next := s.identity()
	if err := change(&next); err != nil {
		return err
	}
	if err := next.validate(); err != nil {
		return err
	}
	if !s.g.do(OpWriteIdentity, func() error { return storeIdentity(s.v, next) }) {
		return s.g.sw.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id = next
	return nil
}
