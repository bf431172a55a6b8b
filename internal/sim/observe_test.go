package sim

import (
	"fmt"
	"hash/crc32"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/history"
	"github.com/coordcell/coord/internal/raftnode"
	"github.com/coordcell/coord/internal/wire"
)

// observer sees what one server sends and applies, from its start to its death.
type observer struct {
	w    *world
	addr string

	// guarded by world.mu
	killed bool
	buried time.Duration // when another server stood for election because this one's process was dead; 0: none did
}

func (w *world) observer(addr string) raftnode.Observer {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := &observer{w: w, addr: addr}
	w.observers[addr] = o
	return o
}

func (o *observer) Sent(a raftnode.Append) {
	o.lives(a.Term)
	entries := make([]history.Entry, len(a.Entries))
	for i, e := range a.Entries {
		entries[i] = history.Entry{Index: e.Index, Term: e.Term, Sum: uint64(e.Sum)}
	}
	o.w.raft.Sent(o.addr, a.Term, a.PrevIndex, a.PrevTerm, entries, a.Commit)
}

func (o *observer) Restored(index uint64) {
	o.lives(0)
	o.w.raft.Restored(o.addr, index)
}

// Stood is called by the survivors of a leader.
func (o *observer) Stood(_ string, term uint64) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	o.w.counts.stood++
	if leader := o.w.leaders[term]; leader != nil && leader.buried == 0 {
		leader.buried = o.w.now()
	}
}

// lives notes that the server is alive, and leads term unless that is 0: nobody may have stood for election because its
// process was dead.
func (o *observer) lives(term uint64) {
	o.w.mu.Lock()
	if term > 0 {
		o.w.leaders[term] = o
	}
	wrong := !o.killed && o.buried > 0 && o.w.now() > o.buried
	buried := o.buried
	if wrong {
		o.buried = 0 // told once
	}
	o.w.mu.Unlock()
	if wrong {
		o.w.violated("G8", fmt.Sprintf("%s lives, and was replaced at %v because its process was dead", o.addr, buried))
	}
}

// killed is called right before the server at addr is.
func (w *world) killed(addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.observers[addr]; o != nil {
		o.killed = true
	}
}

func (o *observer) Applied(index, term uint64, data []byte) {
	o.lives(0)
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
