package fsm

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strings"
)

// model is the state machine written down naively, with maps and loops, after doc.go. It is what State is compared
// with. It knows no snapshots, no hash and no limit of outstanding numbers.
type model struct {
	rev      Revision
	term     uint64 // of the present entry
	params   Params
	formed   bool
	hold     bool
	holdTTL  int64
	sessions map[SessionID]*modelSession
	modelLocks
	keys    map[string]KeyValue
	history []Event
	floor   Revision
	out     Output
}

type modelSession struct {
	OpenSession
	end     ReleaseReason
	results map[uint64]Result
	granted map[uint64]string // number of a granted Lock whose result is kept → its first name
	marked  bool
	refused map[uint64]bool // acknowledged or withdrawn
}

func newModel() *model {
	return &model{
		params:   Params{}.withDefaults(),
		sessions: map[SessionID]*modelSession{}, keys: map[string]KeyValue{},
	}
}

func (m *model) apply(term uint64, cmds []Command) Output {
	m.out, m.term = Output{}, term
	for _, c := range cmds {
		m.command(c)
	}
	size := 0
	for _, e := range m.history {
		size += e.size()
	}
	for len(m.history) > m.params.HistoryEvents || size > m.params.HistoryBytes {
		m.floor = m.history[0].Revision + 1
		for len(m.history) > 0 && m.history[0].Revision < m.floor {
			size -= m.history[0].size()
			m.history = m.history[1:]
		}
	}
	return m.out
}

func (m *model) command(c Command) {
	switch c := c.(type) {
	case OpenSession:
		m.open(c)
	case CloseSession:
		if s := m.begin(c.Change, true); s != nil {
			m.end(c.Session, SessionClosed)
			m.reply(c.Change, Result{Code: OK, Revision: m.rev})
			m.reap(m.params.ReapStep)
		}
	case Lock, Unlock, Withdraw, SetData, HandOver, Revoke, RevokeSession, ExpireGrants, EndDelay, FinishRevoke:
		m.lockCommand(c)
	case Put:
		if s := m.begin(c.Change, c.Key != ""); s != nil {
			m.write(c.Change, c.Key, &c.Value, c.Ephemeral, c.If)
		}
	case Delete:
		if s := m.begin(c.Change, c.Key != ""); s != nil {
			m.write(c.Change, c.Key, nil, false, c.If)
		}
	case Txn:
		if s := m.begin(c.Change, c.wellFormed()); s != nil {
			m.txn(c)
		}
	case Generation:
		m.generation(c)
	case EndHold:
		if c.Term == m.term && m.hold {
			m.hold, m.holdTTL, m.out.Held = false, 0, true
			for _, name := range m.used() {
				m.handOn(name)
			}
		}
	case Expire:
		if c.Term == m.term {
			for _, id := range c.Sessions {
				if m.live(id) {
					m.end(id, SessionExpired)
				}
			}
			m.reap(m.params.ReapStep)
		}
	case Reap:
		m.reap(m.params.ReapStep)
	case Check:
		m.out.Checks = append(m.out.Checks, c)
	}
}

func (m *model) reply(c Change, r Result) {
	m.out.Replies = append(m.out.Replies, Reply{Session: c.Session, Seq: c.Seq, Result: r})
}

func (m *model) finish(c Change, r Result) {
	m.sessions[c.Session].results[c.Seq] = r
	m.reply(c, r)
}

func (m *model) live(id SessionID) bool { return m.sessions[id] != nil && m.sessions[id].end == 0 }

// begin returns nil if the change is not to be performed.
func (m *model) begin(c Change, ok bool) *modelSession {
	if !ok || c.Session == 0 || c.Seq == 0 || slices.Contains(c.Acks, 0) || slices.Contains(c.Acks, c.Seq) {
		m.reply(c, Result{Code: Malformed})
		return nil
	}
	if !m.live(c.Session) {
		m.reply(c, Result{Code: UnknownSession})
		return nil
	}
	s := m.sessions[c.Session]
	for _, seq := range c.Acks {
		if m.queued(c.Session, seq) == nil {
			delete(s.results, seq)
			delete(s.granted, seq)
			s.refused[seq] = true
		}
	}
	r, known := s.results[c.Seq]
	switch {
	case known:
		m.reply(c, r)
	case m.queued(c.Session, c.Seq) != nil:
	case s.refused[c.Seq]:
		m.reply(c, Result{Code: Refused})
	default:
		return s
	}
	return nil
}

func (m *model) open(c OpenSession) {
	result, users := Result{}, 0
	for id, s := range m.sessions {
		if s.end == 0 && s.Nonce == c.Nonce {
			result = Result{Code: OK, Revision: Revision(id), Session: id}
		}
		if s.end == 0 && !s.Internal {
			users++
		}
	}
	if result.Code == 0 && !c.Internal && users >= m.params.Sessions {
		result = Result{Code: LimitReached, Limit: LimitSessions}
	} else if result.Code == 0 {
		m.rev++
		result = Result{Code: OK, Revision: m.rev, Session: SessionID(m.rev)}
		m.sessions[result.Session] = &modelSession{
			OpenSession: c, results: map[uint64]Result{}, granted: map[uint64]string{}, refused: map[uint64]bool{},
		}
	}
	m.out.Replies = append(m.out.Replies, Reply{Nonce: c.Nonce, Result: result})
}

func (m *model) end(id SessionID, why ReleaseReason) {
	m.rev++
	m.sessions[id].end = why
	m.out.Ended = append(m.out.Ended, SessionEvent{Session: id, Closed: why == SessionClosed})
}

func (m *model) record(e Event) {
	m.history = append(m.history, e)
	m.out.Events = append(m.out.Events, e)
}

// set makes or replaces a key; a nil value removes it.
func (m *model) set(key string, value *[]byte, owner SessionID, why EventType) KeyValue {
	old, exists := m.keys[key]
	if value == nil {
		delete(m.keys, key)
		m.record(Event{Type: why, Key: key, Previous: old.Value, Revision: m.rev, Session: old.Session})
		return old
	}
	kv := KeyValue{Key: key, Value: *value, Created: m.rev, Changed: m.rev, Session: owner}
	if exists {
		kv.Created = old.Created
	}
	m.keys[key] = kv
	m.record(Event{Type: EventPut, Key: key, Value: *value, Previous: old.Value, Revision: m.rev, Session: owner})
	return kv
}

func (m *model) write(c Change, key string, value *[]byte, ephemeral bool, p Precondition) {
	kv, exists := m.keys[key]
	switch {
	case value == nil && !exists:
		m.finish(c, Result{Code: KeyNotFound})
	case p.Absent && exists, p.At != 0 && kv.Changed != p.At:
		m.finish(c, Result{Code: Conflict})
	case !exists && len(m.keys) >= m.params.Keys:
		m.finish(c, Result{Code: LimitReached, Limit: LimitKeys})
	default:
		m.rev++
		owner := SessionID(0)
		if ephemeral {
			owner = c.Session
		}
		m.set(key, value, owner, EventDelete)
		m.finish(c, Result{Code: OK, Revision: m.rev})
	}
}

func (m *model) meets(c Condition) bool {
	kv, exists := m.keys[c.Key]
	switch c.Kind {
	case KeyAt:
		return exists && kv.Changed == c.Revision
	case KeyAbsent:
		return !exists
	case ValueIs:
		return exists && bytes.Equal(kv.Value, c.Value)
	}
	g := m.grant(c.Key, c.Revision)
	return g != nil && m.live(g.Session)
}

// txn performs the operations on copies, and keeps those if all is well.
func (m *model) txn(c Txn) {
	r := Result{Code: OK, Succeeded: true}
	ops := c.Then
	for _, cond := range c.If {
		if !m.meets(cond) {
			r.Succeeded, ops = false, c.Else
		}
	}
	keys, history, events, rev := maps.Clone(m.keys), slices.Clone(m.history), slices.Clone(m.out.Events), m.rev
	owner := SessionID(0)
	if c.Ephemeral {
		owner = c.Session
	}
	m.rev++
	wrote := false
	for _, op := range ops {
		kv, exists := m.keys[op.Key]
		switch {
		case op.Kind == OpPut:
			kv, exists, wrote = m.set(op.Key, &op.Value, owner, EventPut), true, true
		case op.Kind == OpDelete && exists:
			m.set(op.Key, nil, 0, EventDelete)
			wrote = true
		}
		r.Ops = append(r.Ops, OpResult{Found: exists, KV: kv})
	}
	if len(m.keys) > max(len(keys), m.params.Keys) {
		m.keys, m.history, m.out.Events, wrote = keys, history, events, false
		r = Result{Code: LimitReached, Limit: LimitKeys}
	}
	if !wrote {
		m.rev = rev
	}
	if r.Code == OK {
		r.Revision = m.rev
	}
	m.finish(c.Change, r)
}

// reap deals with about budget things of ended sessions.
func (m *model) reap(budget int) {
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		s := m.sessions[id]
		if s.end == 0 || budget <= 0 {
			continue
		}
		for budget > 0 && m.firstGrant(id) != nil {
			g := m.firstGrant(id)
			m.rev++
			budget -= len(g.names()) + m.release(g, s.end)
		}
		budget = m.reapQueued(id, UnknownSession, budget)
		for _, key := range slices.Sorted(maps.Keys(m.keys)) {
			if m.keys[key].Session == id && budget > 0 {
				m.rev++
				m.set(key, nil, 0, EventExpire)
				budget--
			}
		}
		for _, seq := range slices.Sorted(maps.Keys(s.results)) {
			if budget > 0 {
				delete(s.results, seq)
				budget--
			}
		}
		if budget > 0 {
			delete(m.sessions, id)
			budget--
		}
	}
	m.reapMarked(budget)
}

func (m *model) reapMarked(budget int) {
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		if s := m.sessions[id]; s.marked && s.end == 0 {
			budget = m.reapQueued(id, Revoked, budget)
		}
	}
}

func (m *model) generation(c Generation) {
	if c.First && m.formed {
		return
	}
	m.rev = max(m.rev+1<<32, Revision(c.Seconds<<23))
	m.formed, m.params = true, c.Params.withDefaults()
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		if m.live(id) {
			m.hold, m.out.Held = true, true
			m.holdTTL = max(m.holdTTL, m.sessions[id].TTL)
			m.end(id, SessionExpired)
		}
	}
	m.reap(math.MaxInt)
}

func (m *model) counts() Counts {
	var c Counts
	for _, s := range m.sessions {
		if s.end == 0 && !s.Internal {
			c.Sessions++
		}
	}
	c.Waiting = len(m.requests)
	for _, name := range m.used() {
		if len(m.at(name)) > 0 || slices.ContainsFunc(m.losses, func(l modelGrant) bool { return l.Name == name }) {
			c.Locks++
		}
	}
	c.Keys = len(m.keys)
	return c
}

func (m *model) list(prefix, after string, limit int) (kvs []KeyValue, more bool) {
	for _, key := range slices.Sorted(maps.Keys(m.keys)) {
		if strings.HasPrefix(key, prefix) && key > after {
			kvs = append(kvs, m.keys[key])
		}
	}
	if limit > 0 && len(kvs) > limit {
		return kvs[:limit], true
	}
	return kvs, false
}

func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
