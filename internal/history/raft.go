package history

import (
	"fmt"
	"sync"
)

// Raft watches over the invariants of raft itself, as they show on the wire and in the state machines: one leader a
// term; two logs that agree on the term of an entry agree on it and on the one before; what is committed stays, in the
// logs of all later leaders, and is applied by every server, the same and nothing left out. G10 and G11 rest on them.
//
// Two rules of the textbook are not among them. The commit index that a leader sends may fall: it is bounded by what
// that follower has compared, and messages to several followers are made at the same time. And a message may hold
// entries of a later term than its own: in hashicorp/raft a former leader's replication ends a moment late, and reads
// what the next one has put into the same log by then. Such entries are the next leader's own, so this does no harm.
//
// All methods may be called concurrently and take a bounded time, but for the entries of one message. The memory is
// bounded: what is further behind than the window is forgotten.
type Raft struct {
	mu        sync.Mutex
	last      uint64 // index seen
	term      uint64 // the highest seen
	leaders   map[uint64]string
	log       map[uint64][]logged // by index, one a term
	committed map[uint64]*committed
	servers   map[string]position

	violations []Violation
	more       int
}

// Entry is an entry of a log, its contents as a checksum.
type Entry struct {
	Index, Term uint64
	Sum         uint64
}

// logged is an entry as a leader sent it.
type logged struct {
	term, sum, before uint64 // before: the term of the entry before it
}

// committed is an entry that must never change.
type committed struct {
	term    uint64
	by      uint64 // it was committed in this term or an earlier one: the highest that anybody had led by then
	applied bool   // and the rest is known
	sum     uint64
	before  uint64 // index of what was applied before it, 0 if that is not known
}

// position is where a server has got with applying.
type position struct {
	index uint64
	fresh bool // restored: which command was applied last is not known
}

// window is how many entries, and terms, are remembered.
const window = 1 << 16

// NewRaft returns a Raft that has seen nothing.
func NewRaft() *Raft {
	return &Raft{
		leaders: make(map[uint64]string), log: make(map[uint64][]logged),
		committed: make(map[uint64]*committed), servers: make(map[string]position),
	}
}

// Sent is called for each AppendEntries that is about to leave a leader. One without a previous index is a heartbeat,
// or begins the log.
func (r *Raft) Sent(leader string, term, prevIndex, prevTerm uint64, entries []Entry, commit uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saw(prevIndex+uint64(len(entries)), term)
	if other, ok := r.leaders[term]; ok && other != leader {
		r.add("%s and %s both lead term %d", other, leader, term)
	}
	r.leaders[term] = leader
	if commit > prevIndex+uint64(len(entries)) {
		r.add("%s of term %d sends commit index %d with nothing above entry %d", leader, term, commit, prevIndex+uint64(len(entries)))
	}
	if prevIndex > 0 {
		r.sent(leader, term, prevIndex, prevTerm, commit)
	}
	for _, e := range entries {
		if e.Index != prevIndex+1 || e.Term < prevTerm {
			r.add("%s of term %d sends entry %d of term %d after entry %d of term %d", leader, term, e.Index, e.Term, prevIndex, prevTerm)
		}
		r.match(leader, e, prevTerm)
		r.sent(leader, term, e.Index, e.Term, commit)
		prevIndex, prevTerm = e.Index, e.Term
	}
}

// match: log matching.
func (r *Raft) match(leader string, e Entry, before uint64) {
	if e.Index+window <= r.last {
		return
	}
	for _, l := range r.log[e.Index] {
		if l.term != e.Term {
			continue
		}
		if l.sum != e.Sum || l.before != before {
			r.add("%s sends entry %d of term %d with sum %x after one of term %d; before that it was sent with sum %x after one of term %d",
				leader, e.Index, e.Term, e.Sum, before, l.sum, l.before)
		}
		return
	}
	r.log[e.Index] = append(r.log[e.Index], logged{e.Term, e.Sum, before})
}

// sent compares an entry of a leader's log with what is committed, and notes that it is committed.
func (r *Raft) sent(leader string, term, index, entryTerm, commit uint64) {
	c := r.committed[index]
	switch {
	case c != nil && c.term != entryTerm && (term > c.by || index <= commit):
		r.add("%s of term %d has entry %d of term %d; by term %d one of term %d was committed there",
			leader, term, index, entryTerm, c.by, c.term)
	case c == nil && index <= commit && index+window > r.last:
		r.committed[index] = &committed{term: entryTerm, by: r.term}
	}
}

// Applied is called when a server's state machine has applied a command.
func (r *Raft) Applied(server string, index, term, sum uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saw(index, term)
	at := r.servers[server]
	r.servers[server] = position{index: index}
	if index+window <= r.last {
		return
	}
	before := at.index
	if at.fresh || index <= at.index { // it was restarted, and applies what it has once more
		before = 0
	}
	for _, l := range r.log[index] {
		if l.term == term && l.sum != sum {
			r.add("%s applied entry %d of term %d with sum %x, which was sent with sum %x", server, index, term, sum, l.sum)
		}
	}
	c := r.committed[index]
	if c == nil {
		c = &committed{term: term, by: r.term}
		r.committed[index] = c
	}
	if p := r.committed[before]; before != 0 && p != nil && p.term > term {
		r.add("%s applied entry %d of term %d after entry %d of term %d", server, index, term, before, p.term)
	}
	switch {
	case c.term != term || c.applied && c.sum != sum:
		r.add("%s applied entry %d of term %d with sum %x; committed there was one of term %d with sum %x", server, index, term, sum, c.term, c.sum)
	case !c.applied:
		c.applied, c.sum, c.before = true, sum, before
	case c.before != 0 && before != 0 && c.before != before:
		r.add("%s applied entry %d after entry %d, another server after entry %d", server, index, before, c.before)
	case c.before == 0:
		c.before = before
	}
}

// Restored is called when a server's state is that of a snapshot up to index.
func (r *Raft) Restored(server string, index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.servers[server] = position{index: index, fresh: true}
}

// Violations returns what has been found so far, in order.
func (r *Raft) Violations() []Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append([]Violation(nil), r.violations...)
	if r.more > 0 {
		all = append(all, Violation{Guarantee: "G10", Text: fmt.Sprintf("raft: and %d more violations", r.more)})
	}
	return all
}

// saw moves the window on.
func (r *Raft) saw(index, term uint64) {
	for ; r.last < index; r.last++ {
		if r.last >= window {
			delete(r.log, r.last-window)
			delete(r.committed, r.last-window)
		}
	}
	for ; r.term < term; r.term++ {
		if r.term >= window {
			delete(r.leaders, r.term-window)
		}
	}
}

func (r *Raft) add(format string, args ...any) {
	if len(r.violations) == mostEach {
		r.more++
		return
	}
	r.violations = append(r.violations, Violation{Guarantee: "G10", Text: "raft: " + fmt.Sprintf(format, args...)})
}
