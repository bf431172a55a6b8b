package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/hashicorp/raft"
)

// snapshotChunk is how much of a snapshot is written or read by one call.
const snapshotChunk = 256 << 10

// snapshots are raft's snapshots. Every failure to write, read or check one trips the switch: raft would go on, but
// without ever shortening its log, or handing out what it cannot read. Nothing is lost by it: raft shortens its log only
// after a snapshot's Close has returned nil.
type snapshots struct {
	g     *guard
	inner raft.SnapshotStore
}

// List returns an error only if the store is poisoned, as all others here do.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	var metas []*raft.SnapshotMeta
	ok := s.g.do(OpListSnapshots, func() (err error) {
		metas, err = s.inner.List()
		return err
	})
	if !ok {
		return nil, s.g.sw.Err()
	}
	return metas, nil
}

func (s *snapshots) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, t raft.Transport) (raft.SnapshotSink, error) {
	var inner raft.SnapshotSink
	ok := s.g.do(OpCreateSnapshot, func() (err error) {
		inner, err = s.inner.Create(v, index, term, c, ci, t)
		return err
	})
	if !ok {
		return nil, s.g.sw.Err()
	}
	return &sink{g: s.g, inner: inner, id: inner.ID()}, nil
}

// Open returns fs.ErrNotExist for a snapshot that has been replaced by newer ones.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	var meta *raft.SnapshotMeta
	var inner io.ReadCloser
	var gone error
	ok := s.long(OpOpenSnapshot, func() (err error) {
		meta, inner, err = s.inner.Open(id)
		if errors.Is(err, fs.ErrNotExist) {
			gone, err = err, nil
		}
		if err != nil {
			return fmt.Errorf("snapshot %s: %w", id, err)
		}
		return nil
	})
	switch {
	case !ok:
		return nil, nil, s.g.sw.Err()
	case gone != nil:
		return nil, nil, gone
	}
	return meta, &source{g: s.g, inner: inner}, nil
}

// long is for calls that take as long as the snapshot is big.
func (s *snapshots) long(op Op, fn func() error) bool {
	return s.g.doWithin(snapshotPatience*s.g.limit, op, fn)
}

// sink writes one snapshot, in chunks whose memory it owns: a write that hangs still reads it.
type sink struct {
	g      *guard
	inner  raft.SnapshotSink
	id     string
	chunk  []byte
	closed bool
	result error // of Close
}

func (s *sink) ID() string { return s.id }

func (s *sink) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		room := snapshotChunk - len(s.chunk)
		k := min(room, len(p))
		s.chunk = append(s.chunk, p[:k]...)
		p = p[k:]
		if len(s.chunk) == snapshotChunk {
			if err := s.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (s *sink) flush() error {
	chunk := s.chunk
	ok := s.g.do(OpWriteSnapshot, func() error {
		_, err := s.inner.Write(chunk)
		return err
	})
	if !ok {
		s.chunk = nil
		return s.g.sw.Err()
	}
	s.chunk = s.chunk[:0]
	return nil
}

// Close returns nil only if the snapshot is complete and on the disk. Unlike that of raft's own sinks, it says so each
// time it is called: raft closes again what a state machine may have closed already.
func (s *sink) Close() error {
	if s.closed {
		return s.result
	}
	s.closed = true
	if s.result = s.flush(); s.result != nil {
		return s.result
	}
	if !s.g.doWithin(snapshotPatience*s.g.limit, OpCloseSnapshot, s.inner.Close) {
		s.result = s.g.sw.Err()
	}
	return s.result
}

// Cancel removes the snapshot.
func (s *sink) Cancel() error {
	if s.closed {
		return nil
	}
	s.closed, s.result = true, errors.New("store: the snapshot was cancelled")
	if !s.g.doWithin(snapshotPatience*s.g.limit, OpCancelSnapshot, s.inner.Cancel) {
		return s.g.sw.Err()
	}
	return nil
}

// source reads one snapshot, in chunks whose memory it owns.
type source struct {
	g     *guard
	inner io.ReadCloser
	chunk []byte // to be handed out
	end   bool
}

func (s *source) Read(p []byte) (int, error) {
	if len(s.chunk) == 0 && !s.end {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	if len(s.chunk) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.chunk)
	s.chunk = s.chunk[n:]
	return n, nil
}

func (s *source) fill() error {
	buf := slices.Grow(s.chunk[:0], snapshotChunk)[:snapshotChunk]
	var n int
	var end bool
	ok := s.g.do(OpReadSnapshot, func() (err error) {
		n, err = io.ReadFull(s.inner, buf)
		if end = err == io.EOF || err == io.ErrUnexpectedEOF; end {
			err = nil
		}
		return err
	})
	if !ok {
		return s.g.sw.Err()
	}
	s.chunk, s.end = buf[:n], end
	return nil
}

func (s *source) Close() error { return s.inner.Close() }
