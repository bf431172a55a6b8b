package fsm

import "fmt"

// Apply applies the commands of one log entry in order. index and term are the entry's own. The outcome depends on
// the state and the arguments alone.
//
// The state keeps what the commands refer to: their strings and slices are not to be written to afterwards. Sizes of
// names and values are not checked here: whoever proposes does that.
//
// Apply panics if it meets a command of a type it does not know, or a state that its own invariants exclude. The
// state is of no use then.
func (s *State) Apply(index, term uint64, cmds []Command) Output {
	st := step{State: s, entryTerm: term, commands: len(cmds)}
	for _, c := range cmds {
		st.apply(c)
	}
	s.index = index
	s.cutHistory()
	return st.out
}

// step is the application of one log entry.
type step struct {
	*State
	entryTerm uint64
	commands  int // in the entry
	out       Output
}

func (st *step) apply(c Command) {
	switch c := c.(type) {
	case OpenSession:
		st.openSession(c)
	case CloseSession:
		st.closeSession(c)
	case Lock:
		st.lock(c)
	case Unlock:
		st.unlock(c)
	case Withdraw:
		st.withdraw(c)
	case SetData:
		st.setData(c)
	case HandOver:
		st.handOver(c)
	case Revoke:
		st.revoke(c)
	case RevokeSession:
		st.revokeSession(c)
	case Put:
		st.put(c)
	case Delete:
		st.delete(c)
	case Txn:
		st.txn(c)
	case TermStart:
		st.termStart(c)
	case Generation:
		st.generation(c)
	case EndHold:
		st.endHold(c)
	case Expire:
		st.expire(c)
	case ExpireGrants:
		st.expireGrants(c)
	case EndDelay:
		st.endDelay(c)
	case FinishRevoke:
		st.finishRevoke(c)
	case SetFormat:
		st.setFormat(c)
	case Reap:
		st.reap(st.params.ReapStep)
	case Check:
		st.out.Checks = append(st.out.Checks, c)
	case SetMember:
		st.setMember(c.Member)
	case RemoveMember:
		st.removeMember(c.ID)
	default:
		panic(fmt.Sprintf("fsm: broken invariant: unknown command type %T", c))
	}
}

// next raises the revision.
func (s *State) next() Revision {
	s.revision++
	return s.revision
}

func (st *step) reply(c Change, r Result) {
	if st.out.Replies == nil {
		st.out.Replies = make([]Reply, 0, st.commands) // most commands have one
	}
	st.out.Replies = append(st.out.Replies, Reply{Session: c.Session, Seq: c.Seq, Result: r})
}

func (st *step) touched(name string) {
	st.out.Touched = append(st.out.Touched, name)
}

// take begins a change: it notes its Acks, and says whether the change is to be performed. If so, its number is
// outstanding from then on, and the caller has to answer it or to queue it. If not, take has replied with what there
// is to reply: nothing, for a Lock that is queued already.
//
// wellFormed is the command's own opinion of itself. always lets the change through where too many are outstanding.
func (st *step) take(c Change, wellFormed, always bool) bool {
	if !wellFormed || !c.wellFormed() {
		st.reply(c, Result{Code: Malformed})
		return false
	}
	old, ok := st.live(c.Session)
	if !ok {
		st.reply(c, Result{Code: UnknownSession})
		return false
	}
	next := *old
	if !st.acknowledge(&next, c) {
		st.reply(c, Result{Code: Malformed})
		return false
	}
	first := false
	if kept, ok := st.results.Get(outcome{session: c.Session, seq: c.Seq}); ok {
		st.reply(c, kept.Result)
	} else if _, ok := st.waiting.Get(ticket{session: c.Session, seq: c.Seq}); ok {
		// Its reply comes with the grant.
	} else if next.acked.has(c.Seq) {
		st.reply(c, Result{Code: Refused})
	} else if next.outstanding >= MaxOutstanding && !always {
		st.reply(c, Result{Code: LimitReached, Limit: LimitOutstanding})
	} else {
		first = true
		next.outstanding++
	}
	if first || len(c.Acks) > 0 {
		st.sessions.Set(c.Session, &next)
	}
	return first
}

// answer ends a change: its result is kept until it is acknowledged. name is that of the lock granted, if one was.
func (st *step) answer(c Change, name string, r Result) {
	st.results.Set(outcome{c.Session, c.Seq, &kept{name, r}})
	st.reply(c, r)
}

// acknowledge drops the results that c acknowledges. It reports false, and does nothing, if the numbers of the
// session have more gaps than an honest caller makes.
func (st *step) acknowledge(s *session, c Change) bool {
	acks := make([]uint64, 0, MaxAcks)
	for _, seq := range c.Acks {
		if _, queued := st.waiting.Get(ticket{session: c.Session, seq: seq}); !queued {
			acks = append(acks, seq)
		}
	}
	acked := s.acked.with(acks...)
	if len(acked) > maxRanges && len(acked) > len(s.acked) {
		return false
	}
	s.acked = acked
	for _, seq := range acks {
		if _, had := st.results.Delete(outcome{session: c.Session, seq: seq}); had {
			s.outstanding--
		}
	}
	return true
}

func (c Change) wellFormed() bool {
	if c.Session == 0 || c.Seq == 0 || len(c.Acks) > MaxAcks {
		return false
	}
	for _, seq := range c.Acks {
		if seq == 0 || seq == c.Seq {
			return false
		}
	}
	return true
}
