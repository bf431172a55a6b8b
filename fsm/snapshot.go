package fsm

import (
	"errors"
	"fmt"
	"iter"
)

// ErrDamaged is wrapped by every error of Restore that says the records are not those of a State.
var ErrDamaged = errors.New("fsm: damaged snapshot")

// Records yields the state as records, in the one order that a snapshot has. They share memory with the state and are
// not to be written to.
func (s *State) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		_ = yield(s.header()) &&
			s.yieldMembers(yield) &&
			s.yieldSessions(yield) &&
			s.yieldResults(yield) &&
			s.yieldLocks(yield) &&
			s.yieldGrants(yield) &&
			s.yieldLosses(yield) &&
			s.yieldMarks(yield) &&
			s.yieldWaiters(yield) &&
			s.yieldRequests(yield) &&
			s.yieldKeys(yield) &&
			s.yieldEvents(yield) &&
			yield(s.trailer())
	}
}

func (s *State) header() Header {
	return Header{
		Index: s.index, Revision: s.revision, Floor: s.floor,
		Formed: s.formed, Cell: s.cell, Params: s.params,
		Hold: s.hold, HoldTTL: s.holdTTL,
		Term: s.term, Start: s.start, Format: s.format,
	}
}

func (s *State) trailer() Trailer {
	return Trailer{
		Members:  uint64(s.members.Len()),
		Sessions: uint64(s.sessions.Len()),
		Results:  uint64(s.results.Len()),
		Locks:    uint64(s.holds.Len() - s.special),
		Waiters:  uint64(s.waiting.Len() - s.requests),
		Keys:     uint64(s.keys.Len()),
		Events:   uint64(s.history.Len()),
		Grants:   uint64(s.grants),
		Losses:   uint64(s.losses.Len()),
		Marks:    uint64(s.marks.Len()),
		Requests: uint64(s.requests),
	}
}

func (s *State) yieldMembers(yield func(Record) bool) (more bool) {
	more = true
	s.members.Scan(func(_ string, m Member) bool {
		more = yield(MemberRecord{m})
		return more
	})
	return more
}

func (s *State) yieldSessions(yield func(Record) bool) (more bool) {
	more = true
	s.sessions.Scan(func(id SessionID, v *session) bool {
		more = yield(SessionRecord{
			ID: id, Nonce: v.nonce, TTL: v.ttl, Label: v.label, Node: v.node,
			Internal: v.internal, Ended: v.end, Acked: v.acked,
		})
		return more
	})
	return more
}

func (s *State) yieldResults(yield func(Record) bool) (more bool) {
	more = true
	s.results.Scan(func(o outcome) bool {
		more = yield(ResultRecord{Session: o.session, Seq: o.seq, Name: o.name, Result: o.Result})
		return more
	})
	return more
}

func (s *State) yieldLocks(yield func(Record) bool) (more bool) {
	more = true
	s.locks.Scan(func(name string, l *lock) bool {
		if l.session != 0 && l.claim.plain() {
			more = yield(LockRecord{Name: name, Session: l.session, Token: l.token, Data: l.claim.bytes()})
		}
		return more
	})
	return more
}

func (s *State) yieldWaiters(yield func(Record) bool) (more bool) {
	more = true
	s.queue.Scan(func(p place) bool {
		if p.claim.plain() {
			more = yield(WaiterRecord{p.name, p.position, p.session, p.seq, p.claim.bytes()})
		}
		return more
	})
	return more
}

func (s *State) yieldKeys(yield func(Record) bool) (more bool) {
	more = true
	s.keys.Scan(func(name string, k *key) bool {
		more = yield(KeyRecord{k.view(name)})
		return more
	})
	return more
}

func (s *State) yieldEvents(yield func(Record) bool) (more bool) {
	more = true
	s.history.Scan(func(e *EventRecord) bool {
		more = yield(*e)
		return more
	})
	return more
}

// Restore builds the State that yielded the records. It keeps what they refer to. It returns the error that records
// came with, or one that wraps ErrDamaged if they are not complete, not in order, or contradict each other.
func Restore(records iter.Seq2[Record, error]) (*State, error) {
	b := builder{State: New()}
	n := 0
	for r, err := range records {
		if err == nil {
			err = b.add(r)
		}
		if err != nil {
			return nil, fmt.Errorf("fsm: restore: record %d: %w", n, err)
		}
		n++
	}
	if b.at != atEnd {
		return nil, fmt.Errorf("fsm: restore: after record %d: %w", n, damaged("no trailer"))
	}
	return b.State, nil
}

// damaged returns an error that wraps ErrDamaged.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}
