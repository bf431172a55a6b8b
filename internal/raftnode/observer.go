package raftnode

import (
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// Observer is shown, in tests, what a node sends and applies, so that raft's own invariants can be checked over a whole
// cell. Its methods are called where it happens, concurrently, and must not block.
type Observer interface {
	// Sent: the node is about to send an AppendEntries.
	Sent(Append)
	// Applied: the machine has applied a command.
	Applied(index, term uint64, data []byte)
	// Restored: the machine's state is that of a snapshot up to index.
	Restored(index uint64)
	// Stood: the node stands for election, because the process of leader, which leads term, is dead. See Stand.
	Stood(leader string, term uint64)
}

// Append is an AppendEntries.
type Append struct {
	Term                uint64
	PrevIndex, PrevTerm uint64
	Entries             []Entry
	Commit              uint64
}

// Entry is an entry of the log, its contents as a checksum.
type Entry struct {
	Index, Term uint64
	Sum         uint32
}

// seen shows an AppendEntries to the observer, unless it is one that every receiver refuses: the replication of a term
// runs on for a moment after the node has become a follower, and may come to read the next leader's entries.
func (t *transport) seen(req *raft.AppendEntriesRequest) {
	if t.observer == nil || checkEntries(req) != nil {
		return
	}
	a := Append{Term: req.Term, PrevIndex: req.PrevLogEntry, PrevTerm: req.PrevLogTerm, Commit: req.LeaderCommitIndex}
	for _, e := range req.Entries {
		a.Entries = append(a.Entries, Entry{Index: e.Index, Term: e.Term, Sum: crc32.ChecksumIEEE(e.Data)})
	}
	t.observer.Sent(a)
}
