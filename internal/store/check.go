package store

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// check reads all that raft has stored, compares the parts with each other, and finishes what a crash interrupted.
func (s *Store) check() error {
	if err := s.checkNode(); err != nil {
		return err
	}
	if err := s.ballots.load(); err != nil {
		return fmt.Errorf("%s: %w", s.v.path(raftFile), err)
	}
	snap, err := s.checkSnapshot()
	if err != nil {
		return err
	}
	lastTerm, err := s.checkLog(snap)
	if err != nil {
		return fmt.Errorf("%s: %w", s.v.path(s.logs.name), err)
	}
	if term := s.ballots.now.term; term < max(lastTerm, snap.Term) {
		return fmt.Errorf("%w: %s holds term %d, but its log or snapshot has entries of term %d",
			ErrDamaged, s.v.path(raftFile), term, max(lastTerm, snap.Term))
	}
	return nil
}

// checkNode ties raft's file to the identity: a file that came from elsewhere has another server's votes.
func (s *Store) checkNode() error {
	kept := s.ballots.inner
	node, err := kept.Get(keyNode)
	switch {
	case missing(err) && !s.id.Ready:
		return kept.Set(keyNode, []byte(s.id.Node))
	case err != nil && !missing(err):
		return fmt.Errorf("%s: %w", s.v.path(raftFile), err)
	case string(node) != s.id.Node:
		return fmt.Errorf("%w: %s is of node %.64q, but %s says %s", ErrDamaged, s.v.path(raftFile), node, s.v.path(identityFile), s.id.Node)
	}
	return nil
}

// checkSnapshot reads the newest snapshot to its end. An older one is no substitute: the log may begin after it.
func (s *Store) checkSnapshot() (raft.SnapshotMeta, error) {
	metas, err := s.snaps.inner.List()
	if err != nil || len(metas) == 0 {
		return raft.SnapshotMeta{}, err
	}
	meta, r, err := s.snaps.inner.Open(metas[0].ID)
	if err != nil {
		return raft.SnapshotMeta{}, fmt.Errorf("%w: %s: %w", ErrDamaged, s.v.path(snapshotDir+"/"+metas[0].ID), err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		return raft.SnapshotMeta{}, fmt.Errorf("%w: %s: %w", ErrDamaged, s.v.path(snapshotDir+"/"+meta.ID), err)
	}
	return *meta, nil
}

// checkLog reads the log from end to end and returns the term of its last entry.
func (s *Store) checkLog(snap raft.SnapshotMeta) (lastTerm uint64, err error) {
	l := s.logs
	first, err := l.inner.FirstIndex()
	if err != nil {
		return 0, err
	}
	last, err := l.inner.LastIndex()
	if err != nil || last == 0 {
		return 0, err
	}
	var termAtSnap uint64
	for i := first; i <= last; i++ {
		var e raft.Log
		found, err := readLog(l.inner, i, &e)
		if err != nil {
			return 0, err
		}
		if !found {
			return 0, fmt.Errorf("%w: log entry %d is missing from %d to %d", ErrDamaged, i, first, last)
		}
		if e.Term < lastTerm {
			return 0, fmt.Errorf("%w: log entry %d has term %d, the one before it has %d", ErrDamaged, i, e.Term, lastTerm)
		}
		if lastTerm = e.Term; i == snap.Index {
			termAtSnap = e.Term
		}
	}
	if first > snap.Index+1 {
		return 0, fmt.Errorf("%w: the log begins at %d, but the newest snapshot ends at %d", ErrDamaged, first, snap.Index)
	}
	if l.span = (span{first: first, last: last}); snap.Index < first || termAtSnap == snap.Term {
		return lastTerm, nil
	}
	// The process ended between installing a snapshot and removing the log that it replaced, which ends before it or is of
	// another history. A leader would send these entries to others as if they were committed.
	if err := l.inner.DeleteRange(first, last); err != nil {
		return 0, err
	}
	l.span = span{}
	return 0, nil
}
