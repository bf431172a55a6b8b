package replica

import (
	"sync"

	"github.com/coordcell/coord/fsm"
)

// Key names a proposed change: (Session, Seq), or the Nonce of an OpenSession.
type Key struct {
	Session fsm.SessionID
	Seq     uint64
	Nonce   fsm.Nonce
}

// waiting is who waits for which change. The answers come from the state machine and not from raft's futures, which
// may hang after a shutdown and which know nothing of a lock that is granted by a later entry.
type waiting struct {
	mu    sync.Mutex
	calls map[Key][]*call
}

type call struct{ answer func(fsm.Result) }

// Await calls answer with the result of the change key, once, on the FSM goroutine, as soon as an entry holds it. The
// function returned gives up waiting; it does nothing if the answer has come.
func (r *Replica) Await(key Key, answer func(fsm.Result)) (forget func()) {
	w := &r.waiting
	c := &call{answer: answer}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = make(map[Key][]*call)
	}
	w.calls[key] = append(w.calls[key], c)
	return func() { w.forget(key, c) }
}

// Waiting is the number of changes that somebody waits for.
func (r *Replica) Waiting() int {
	r.waiting.mu.Lock()
	defer r.waiting.mu.Unlock()
	return len(r.waiting.calls)
}

func (w *waiting) answer(reply *fsm.Reply) {
	key := Key{Session: reply.Session, Seq: reply.Seq, Nonce: reply.Nonce}
	w.mu.Lock()
	calls := w.calls[key]
	delete(w.calls, key)
	w.mu.Unlock()
	for _, c := range calls {
		c.answer(reply.Result)
	}
}

func (w *waiting) forget(key Key, c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls[key]
	for i := range calls {
		if calls[i] != c {
			continue
		}
		if len(calls) == 1 {
			delete(w.calls, key)
			return
		}
		rest := make([]*call, 0, len(calls)-1)
		w.calls[key] = append(append(rest, calls[:i]...), calls[i+1:]...)
		return
	}
}
