package raftnode

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// machine is the raft.FSM in front of Config.Machine. It counts what has been applied, configurations included, and
// stops the node when the machine breaks.
//
// It is a raft.ConfigurationStore and not a raft.BatchingFSM: with batches raft leaves StoreConfiguration out.
type machine struct {
	n *Node

	mu            sync.Mutex
	index, term   uint64
	configuration raft.Configuration
	confIndex     uint64
	waits         waitlist
	err           error // why nothing more is applied
}

func newMachine(n *Node) *machine { return &machine{n: n} }

// Apply is called by raft for each committed command. Raft's own future carries no result.
func (m *machine) Apply(l *raft.Log) any {
	if m.n.cfg.Switch.Err() != nil {
		return nil
	}
	started, err := m.apply(l)
	if err != nil {
		const shown = 512
		m.n.cfg.Logger.Error("an entry could not be applied", "id", m.n.cfg.ID, "index", l.Index, "term", l.Term,
			"command", fmt.Sprintf("%x", l.Data[:min(shown, len(l.Data))]), "bytes", len(l.Data), "error", err)
		m.n.cfg.Switch.Trip(fmt.Errorf("raftnode: apply entry %d of term %d: %w", l.Index, l.Term, err))
		return nil
	}
	if started != nil {
		m.n.termStarted(*started, l.Term)
	}
	m.advance(l.Index, l.Term, nil)
	if o := m.n.cfg.Observer; o != nil {
		o.Applied(l.Index, l.Term, l.Data)
	}
	return nil
}

func (m *machine) apply(l *raft.Log) (started *[16]byte, err error) {
	defer recovered(&err)
	return m.n.cfg.Machine.Apply(l.Index, l.Term, l.Data)
}

// StoreConfiguration is called by raft for each committed configuration. Raft does not say its term; the previous
// entry's stands in until the next command.
func (m *machine) StoreConfiguration(index uint64, c raft.Configuration) {
	if m.n.cfg.Switch.Err() != nil {
		return
	}
	m.advance(index, 0, &c)
	m.n.kick()
}

// Snapshot captures the machine and puts what raft keeps about the machine in front of it.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if err := m.n.cfg.Switch.Err(); err != nil {
		return nil, err
	}
	s, err := m.capture()
	if err != nil {
		return nil, fmt.Errorf("raftnode: snapshot: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	h := snapshotHeader{index: m.index, term: m.term, confIndex: m.confIndex, configuration: m.configuration}
	return &snapshot{header: h.encode(), state: s}, nil
}

func (m *machine) capture() (s Snapshot, err error) {
	defer recovered(&err)
	return m.n.cfg.Machine.Snapshot()
}

// Restore replaces the machine's state. A node that cannot understand a snapshot stops: raft would go on with the old
// state, and be sent the same snapshot again and again. Only while the node opens may raft try an older one, unless it was
// a panic, after which nobody knows which state the machine is in.
func (m *machine) Restore(r io.ReadCloser) error {
	defer r.Close()
	if err := m.n.cfg.Switch.Err(); err != nil {
		return err
	}
	h, err := decodeSnapshotHeader(r)
	if err != nil {
		return fmt.Errorf("raftnode: restore: %w", err)
	}
	if err := m.restore(r); err != nil {
		if errors.Is(err, errPanic) || m.n.raft.Load() != nil {
			m.n.cfg.Switch.Trip(fmt.Errorf("raftnode: restore snapshot of index %d: %w", h.index, err))
		}
		return fmt.Errorf("raftnode: restore: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index, m.term, m.configuration, m.confIndex = h.index, h.term, h.configuration, h.confIndex
	m.waits.reached(m.index)
	if o := m.n.cfg.Observer; o != nil {
		o.Restored(m.index)
	}
	return nil
}

func (m *machine) restore(r io.Reader) (err error) {
	defer recovered(&err)
	return m.n.cfg.Machine.Restore(r)
}

// advance notes that index has been applied. A term of 0 leaves the last one, c is nil if the entry was a command.
func (m *machine) advance(index, term uint64, c *raft.Configuration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index = index
	if term != 0 {
		m.term = term
	}
	if c != nil {
		m.configuration, m.confIndex = c.Clone(), index
	}
	m.waits.reached(index)
}

func (m *machine) last() (index, term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index, m.term
}

// wait is Node.WaitApplied.
func (m *machine) wait(ctx context.Context, index uint64) error {
	m.mu.Lock()
	if m.index >= index {
		m.mu.Unlock()
		return nil
	}
	if m.err != nil {
		defer m.mu.Unlock()
		return m.err
	}
	r := m.waits.join(index)
	m.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail ends every wait with err; only the first reason counts.
func (m *machine) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = err
		m.waits.fail(err)
	}
}

// stored is the latest configuration that was applied here.
func (m *machine) stored() (raft.Configuration, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.configuration, m.confIndex
}

var errPanic = errors.New("panic")

// recovered makes an error of a panic in the machine: the program that embeds us must not end with it.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", errPanic, p)
	}
}

// snapshot is written by raft's snapshot goroutine.
type snapshot struct {
	header []byte
	state  Snapshot
}

// Persist returns the error of the sink's Close: raft closes again, gets no error the second time, and would compact
// the log behind a snapshot that is not there.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.write(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (s *snapshot) write(w io.Writer) (err error) {
	defer recovered(&err)
	if _, err := w.Write(s.header); err != nil {
		return err
	}
	return s.state.Persist(w)
}

func (s *snapshot) Release() {
	var err error
	defer recovered(&err)
	s.state.Release()
}

// snapshotHeader precedes the machine's own bytes in a snapshot. Raft keeps the same facts beside the snapshot, but does
// not give them to the FSM that it restores.
//
//	4 bytes  "crn" and the version, 1
//	8 bytes  index of the last entry applied; 8 its term; 8 the index of the configuration. Big-endian, like the rest
//	4 bytes  length of the configuration, and the configuration as raft encodes it
type snapshotHeader struct {
	index, term, confIndex uint64
	configuration          raft.Configuration // empty while confIndex is 0
}

const (
	snapshotMagic    = "crn\x01"
	maxConfiguration = 1 << 20 // bytes
)

func (h snapshotHeader) encode() []byte {
	var conf []byte
	if h.confIndex != 0 {
		conf = raft.EncodeConfiguration(h.configuration)
	}
	b := []byte(snapshotMagic)
	b = binary.BigEndian.AppendUint64(b, h.index)
	b = binary.BigEndian.AppendUint64(b, h.term)
	b = binary.BigEndian.AppendUint64(b, h.confIndex)
	b = binary.BigEndian.AppendUint32(b, uint32(len(conf)))
	return append(b, conf...)
}

func decodeSnapshotHeader(r io.Reader) (snapshotHeader, error) {
	var b [32]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return snapshotHeader{}, fmt.Errorf("snapshot header: %w", err)
	}
	if magic := string(b[:4]); magic != snapshotMagic {
		if bytes.HasPrefix(b[:], []byte(snapshotMagic[:3])) {
			return snapshotHeader{}, fmt.Errorf("snapshot header has version %d, this program reads up to %d", b[3], snapshotMagic[3])
		}
		return snapshotHeader{}, fmt.Errorf("snapshot header begins with %q", magic)
	}
	h := snapshotHeader{
		index:     binary.BigEndian.Uint64(b[4:]),
		term:      binary.BigEndian.Uint64(b[12:]),
		confIndex: binary.BigEndian.Uint64(b[20:]),
	}
	size := binary.BigEndian.Uint32(b[28:])
	if size > maxConfiguration {
		return snapshotHeader{}, fmt.Errorf("snapshot header has a configuration of %d bytes, at most %d", size, maxConfiguration)
	}
	if size == 0 {
		return h, nil
	}
	conf := make([]byte, size)
	if _, err := io.ReadFull(r, conf); err != nil {
		return snapshotHeader{}, fmt.Errorf("snapshot header: %w", err)
	}
	var err error
	h.configuration, err = decodeConfiguration(conf)
	return h, err
}
