package fsm

import (
	"bytes"

	"github.com/tidwall/btree"
)

func (st *step) txn(c Txn) {
	if !st.take(c.Change, c.wellFormed(), false) {
		return
	}
	r := Result{Code: OK, Succeeded: true}
	ops := c.Then
	for _, cond := range c.If {
		if !st.meets(cond) {
			r.Succeeded, ops = false, c.Else
			break
		}
	}
	if st.returned(ops) > MaxTxnResult {
		st.answer(c.Change, "", Result{Code: TooLarge})
		return
	}
	if !st.fits(ops) {
		st.answer(c.Change, "", Result{Code: LimitReached, Limit: LimitKeys})
		return
	}
	owner := c.Session.ownerIf(c.Ephemeral)
	rev := st.revision + 1
	for _, op := range ops {
		r.Ops = append(r.Ops, st.perform(op, owner, rev))
	}
	r.Revision = st.revision
	st.answer(c.Change, "", r)
}

// perform performs one operation of a Txn. rev is the revision of the whole, which only a write brings about.
func (st *step) perform(op Op, owner SessionID, rev Revision) OpResult {
	switch k, ok := st.keys.Get(op.Key); {
	case op.Kind == OpPut:
		st.revision = rev
		return OpResult{Found: true, KV: st.write(op.Key, op.Value, owner, rev)}
	case !ok:
		return OpResult{}
	case op.Kind == OpGet:
		return OpResult{Found: true, KV: k.view(op.Key)}
	default:
		st.revision = rev
		return OpResult{Found: true, KV: st.remove(op.Key, EventDelete, rev)}
	}
}

func (s *State) meets(c Condition) bool {
	if c.Kind == HeldBy {
		h, ok := s.find(c.Key, c.Revision)
		if !ok {
			return false
		}
		_, live := s.live(h.session)
		return live
	}
	k, ok := s.keys.Get(c.Key)
	switch c.Kind {
	case KeyAt:
		return ok && k.changed == c.Revision
	case KeyAbsent:
		return !ok
	default:
		return ok && bytes.Equal(k.value, c.Value)
	}
}

// returned is how many bytes the results of ops would have. Each operation sees those before it.
func (s *State) returned(ops []Op) int {
	var written btree.Map[string, int] // size of the value, -1: deleted
	size := func(name string) int {
		if n, ok := written.Get(name); ok {
			return n
		}
		if k, ok := s.keys.Get(name); ok {
			return len(k.value)
		}
		return -1
	}
	total := 0
	for _, op := range ops {
		n := size(op.Key)
		switch op.Kind {
		case OpPut:
			n = len(op.Value)
			written.Set(op.Key, n)
		case OpDelete:
			written.Set(op.Key, -1)
		}
		total += len(op.Key) + max(n, 0)
	}
	return total
}

// fits reports whether there would not be too many keys after ops. What counts is the end: a Txn that deletes as many
// keys as it makes always fits.
func (s *State) fits(ops []Op) bool {
	if s.keys.Len()+len(ops) <= s.params.Keys {
		return true
	}
	var after btree.Map[string, bool]
	for _, op := range ops {
		if op.Kind != OpGet {
			after.Set(op.Key, op.Kind == OpPut)
		}
	}
	growth := 0
	after.Scan(func(name string, exists bool) bool {
		_, existed := s.keys.Get(name)
		if exists && !existed {
			growth++
		} else if !exists && existed {
			growth--
		}
		return true
	})
	return growth <= 0 || s.keys.Len()+growth <= s.params.Keys
}

func (c Txn) wellFormed() bool {
	for _, cond := range c.If {
		if cond.Key == "" || cond.Kind < KeyAt || cond.Kind > HeldBy {
			return false
		}
	}
	for _, ops := range [...][]Op{c.Then, c.Else} {
		for _, op := range ops {
			if op.Key == "" || op.Kind < OpGet || op.Kind > OpDelete {
				return false
			}
		}
	}
	return true
}
