package history

import "time"

// checkQueues: G6. A Lookup shows who waits, first to last. Whoever asks for the name after that Lookup has returned is
// behind them, and those in the queue are behind one another: the tokens that they get rise in that order.
//
// Only what is certain counts. A place in a queue is that of one call if its session had no other request for the name
// that could have been in the queue then; and of that call only if it was granted, for it may have been withdrawn.
func (v *view) checkQueues() {
	for _, name := range names(v.locks) {
		v.checkQueue(name)
	}
}

func (v *view) checkQueue(name string) {
	asked := make(map[uint64][]*Op) // by session
	for _, op := range v.locks[name] {
		if op.asks() {
			asked[op.Session] = append(asked[op.Session], op)
		}
	}
	seen := make(map[*Op]time.Duration) // a call that waited and was granted: when it was first seen to wait
	var waiters []*Op
	for _, op := range v.locks[name] {
		if op.Kind != Lookup || op.Outcome != OK || op.Return == Pending {
			continue
		}
		var ahead *Op
		for _, session := range op.Queue {
			w := waiter(asked[session], op)
			if w == nil {
				continue
			}
			if ahead != nil && ahead.Token > w.Token && ahead != w {
				v.add("G6", w.Return, "%q: %v was ahead of %v in the queue that %v saw", name, ahead, w, op)
			}
			ahead = w
			if at, ok := seen[w]; !ok {
				waiters = append(waiters, w)
				seen[w] = op.Return
			} else {
				seen[w] = min(at, op.Return)
			}
		}
	}
	var marks []mark
	for _, w := range waiters {
		marks = append(marks, mark{seen[w], w.Token, w})
	}
	waiting := newFrontier(marks)
	for _, op := range v.locks[name] {
		if !op.asks() || op.Outcome != OK || op.Return == Pending {
			continue
		}
		if m, ok := waiting.before(op.Call); ok && m.number > op.Token {
			v.add("G6", op.Return, "%q: %v came before %v, which was seen to wait at %v", name, op, m.by, m.at)
		}
	}
}

// waiter is the call, of those of one session, that stood in the queue which look saw, if there is only one that can
// have, and it was granted.
func waiter(asked []*Op, look *Op) (one *Op) {
	for _, op := range asked {
		gone := op.Return != Pending && op.Return < look.Call && !op.maybe() // granted or refused, and out of the queue
		if op.Call > look.Return || gone || op.Kind == TryLock && !op.maybe() {
			continue
		}
		if one != nil {
			return nil
		}
		one = op
	}
	if one == nil || one.maybe() || one.Outcome != OK {
		return nil
	}
	return one
}
