package fsm

func (st *step) put(c Put) {
	if !st.take(c.Change, c.Key != "", false) {
		return
	}
	old, exists := st.keys.Get(c.Key)
	if !c.If.holds(old) {
		st.answer(c.Change, "", Result{Code: Conflict})
		return
	}
	if !exists && st.keys.Len() >= st.params.Keys {
		st.answer(c.Change, "", Result{Code: LimitReached, Limit: LimitKeys})
		return
	}
	rev := st.next()
	st.write(c.Key, c.Value, c.Session.ownerIf(c.Ephemeral), rev)
	st.answer(c.Change, "", Result{Code: OK, Revision: rev})
}

func (st *step) delete(c Delete) {
	if !st.take(c.Change, c.Key != "", false) {
		return
	}
	old, exists := st.keys.Get(c.Key)
	switch {
	case !exists:
		st.answer(c.Change, "", Result{Code: KeyNotFound})
	case !c.If.holds(old):
		st.answer(c.Change, "", Result{Code: Conflict})
	default:
		rev := st.next()
		st.remove(c.Key, EventDelete, rev)
		st.answer(c.Change, "", Result{Code: OK, Revision: rev})
	}
}

// holds says whether the key, nil if there is none, is as demanded.
func (p Precondition) holds(k *key) bool {
	if p.Absent && k != nil {
		return false
	}
	return p.At == 0 || k != nil && k.changed == p.At
}

// ownerIf returns the session that a key written by id belongs to.
func (id SessionID) ownerIf(ephemeral bool) SessionID {
	if ephemeral {
		return id
	}
	return 0
}

// write makes or replaces a key, and decides anew whose it is.
func (st *step) write(name string, value []byte, owner SessionID, rev Revision) KeyValue {
	next := key{value: value, created: rev, changed: rev, session: owner}
	e := Event{Type: EventPut, Key: name, Value: value, Revision: rev, Session: owner}
	if old, ok := st.keys.Get(name); ok {
		next.created = old.created
		e.Previous = old.value
		st.disown(name, old.session)
	}
	if owner != 0 {
		st.owns.Set(owned{owner, name})
	}
	st.keys.Set(name, &next)
	st.record(e)
	return next.view(name)
}

// remove deletes a key that exists.
func (st *step) remove(name string, why EventType, rev Revision) KeyValue {
	old, _ := st.keys.Delete(name)
	st.disown(name, old.session)
	st.record(Event{Type: why, Key: name, Previous: old.value, Revision: rev, Session: old.session})
	return old.view(name)
}

func (st *step) disown(name string, owner SessionID) {
	if owner != 0 {
		st.owns.Delete(owned{owner, name})
	}
}

func (k *key) view(name string) KeyValue {
	return KeyValue{Key: name, Value: k.value, Created: k.created, Changed: k.changed, Session: k.session}
}
