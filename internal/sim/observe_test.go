package sim

import (
	"fmt"
	"hash/crc32"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/history"
	"github.com/coordcell/coord/internal/raftnode"
	"github.com/coordcell/coord/internal/wire"
)

// observer sees what one server sends and applies.
type observer struct {
	w    *world
	addr string
}

func (w *world) observer(addr string) raftnode.Observer { return observer{w, addr} }

func (o observer) Sent(a raftnode.Append) {
	entries := make([]history.Entry, len(a.Entries))
	for i, e := range a.Entries {
		entries[i] = history.Entry{Index: e.Index, Term: e.Term, Sum: uint64(e.Sum)}
	}
	o.w.raft.Sent(o.addr, a.Term, a.PrevIndex, a.PrevTerm, entries, a.Commit)
}

func (o observer) Restored(index uint64) { o.w.raft.Restored(o.addr, index) }

func (o observer) Applied(index, term uint64, data []byte) {
	o.w.raft.Applied(o.addr, index, term, uint64(crc32.ChecksumIEEE(data)))
	cmds, err := wire.DecodeEntry(data)
	if err != nil {
		o.w.violated("G10", fmt.Sprintf("%s applied entry %d, which cannot be read: %v", o.addr, index, err))
		return
	}
	for _, cmd := range cmds {
		switch cmd := cmd.(type) {
		case fsm.Expire:
			if cmd.Term == term {
				o.w.expire(index, cmd.Sessions)
			}
		case fsm.TermStart:
			o.w.termStarted(term)
		}
	}
}

// expire is called when a server's state machine has ended sessions: no client of theirs may act any more by then.
func (w *world) expire(index uint64, ids []fsm.SessionID) {
	for _, id := range ids {
		w.mu.Lock()
		s := w.sessions[coord.SessionID(id)]
		_, again := w.expired[coord.SessionID(id)]
		if !again {
			w.expired[coord.SessionID(id)] = w.now()
		}
		w.mu.Unlock()
		if s.Session == nil || again {
			continue
		}
		if left := s.Remaining(); left > 0 {
			w.violated("G3", fmt.Sprintf("session %d was ended by entry %d while its client had %v left", id, index, left))
		}
	}
}

func (w *world) termStarted(term uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if term > w.terms {
		w.terms, w.termBegan = term, w.now()
	}
}
