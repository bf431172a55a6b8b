package fsm

import "math"

// builder makes a State of records, one by one.
type builder struct {
	*State
	at     section
	last   string       // the newest member's id, lock's name or key
	lastID SessionID    // the newest session's, or session of a result
	seq    uint64       // of the newest result
	place  place        // the newest
	event  *EventRecord // the newest
}

// section is a part of a snapshot.
type section int

const (
	atStart section = iota
	atHeader
	atMembers
	atSessions
	atResults
	atLocks
	atGrants
	atLosses
	atMarks
	atWaiters
	atRequests
	atKeys
	atEvents
	atEnd
)

func (b *builder) add(r Record) error {
	switch r := r.(type) {
	case Header:
		return b.addHeader(r)
	case MemberRecord:
		return b.addMember(r)
	case SessionRecord:
		return b.addSession(r)
	case ResultRecord:
		return b.addResult(r)
	case LockRecord:
		return b.addLock(r)
	case GrantRecord:
		return b.addGrant(r)
	case LossRecord:
		return b.addLoss(r)
	case MarkRecord:
		return b.addMark(r)
	case WaiterRecord:
		return b.addWaiter(r)
	case RequestRecord:
		return b.addRequest(r)
	case KeyRecord:
		return b.addKey(r)
	case EventRecord:
		return b.addEvent(r)
	case Trailer:
		return b.addTrailer(r)
	default:
		return damaged("unknown record type %T", r)
	}
}

// enter moves on to a section. The keys of its records begin anew.
func (b *builder) enter(s section) error {
	switch {
	case b.at == s && s != atHeader && s != atEnd:
		return nil
	case b.at >= s || (b.at == atStart) != (s == atHeader):
		return damaged("record out of place")
	}
	b.at, b.last, b.lastID, b.seq, b.place = s, "", 0, 0, place{}
	return nil
}

// ascend checks that names come in ascending order and are not empty.
func (b *builder) ascend(name string) error {
	if name <= b.last {
		return damaged("name %q after %q", name, b.last)
	}
	b.last = name
	return nil
}

// given checks that a revision has been handed out.
func (b *builder) given(r Revision) error {
	if r == 0 || r > b.revision {
		return damaged("revision %d; the newest is %d", r, b.revision)
	}
	return nil
}

func (b *builder) addHeader(r Header) error {
	if err := b.enter(atHeader); err != nil {
		return err
	}
	switch {
	case r.Params != r.Params.withDefaults():
		return damaged("incomplete parameters")
	case r.Floor > r.Revision+1:
		return damaged("history begins at revision %d; the newest is %d", r.Floor, r.Revision)
	case !r.Hold && r.HoldTTL != 0, r.HoldTTL < 0, !r.Formed && r.Cell != Nonce{}, r.Format == 1:
		return damaged("contradictory header")
	}
	b.index, b.revision, b.floor = r.Index, r.Revision, r.Floor
	b.formed, b.cell, b.params = r.Formed, r.Cell, r.Params
	b.hold, b.holdTTL = r.Hold, r.HoldTTL
	b.term, b.start, b.format = r.Term, r.Start, r.Format
	return nil
}

func (b *builder) addMember(r MemberRecord) error {
	if err := b.enter(atMembers); err != nil {
		return err
	}
	b.members.Set(r.Member.ID, r.Member)
	return b.ascend(r.Member.ID)
}

func (b *builder) addSession(r SessionRecord) error {
	if err := b.enter(atSessions); err != nil {
		return err
	}
	switch {
	case r.ID <= b.lastID:
		return damaged("session %d after %d", r.ID, b.lastID)
	case r.TTL <= 0 || r.Ended != 0 && r.Ended != SessionClosed && r.Ended != SessionExpired:
		return damaged("session %d: TTL %d, ended %d", r.ID, r.TTL, r.Ended)
	case !seqs(r.Acked).valid():
		return damaged("session %d: acknowledged numbers out of order", r.ID)
	}
	b.lastID = r.ID
	b.sessions.Set(r.ID, &session{
		nonce: r.Nonce, ttl: r.TTL, label: r.Label, node: r.Node,
		internal: r.Internal, end: r.Ended, acked: r.Acked,
	})
	if r.Ended != 0 {
		b.ended.Set(r.ID, struct{}{})
		return b.given(Revision(r.ID))
	}
	if !r.Internal {
		b.users++
	}
	if _, twice := b.nonces.Set(nonceOf{r.Nonce, r.ID}); twice {
		return damaged("session %d: nonce used twice", r.ID)
	}
	return b.given(Revision(r.ID))
}

// number counts one more outstanding number of a session.
func (b *builder) number(id SessionID, seq uint64) error {
	s, ok := b.sessions.Get(id)
	switch {
	case !ok:
		return damaged("no session %d", id)
	case seq == 0 || s.acked.has(seq):
		return damaged("session %d: number %d is acknowledged", id, seq)
	}
	s.outstanding++ // s is the builder's own still
	return nil
}

func (b *builder) addResult(r ResultRecord) error {
	if err := b.enter(atResults); err != nil {
		return err
	}
	if r.Session < b.lastID || r.Session == b.lastID && r.Seq <= b.seq {
		return damaged("result %d/%d after %d/%d", r.Session, r.Seq, b.lastID, b.seq)
	}
	if r.Result.Code < OK || r.Result.Code > NoSuchSession || r.Result.Revision > b.revision {
		return damaged("result %d/%d: code %d, revision %d", r.Session, r.Seq, r.Result.Code, r.Result.Revision)
	}
	b.lastID, b.seq = r.Session, r.Seq
	b.results.Set(outcome{r.Session, r.Seq, &kept{r.Name, r.Result}})
	return b.number(r.Session, r.Seq)
}

func (b *builder) addLock(r LockRecord) error {
	if err := b.enter(atLocks); err != nil {
		return err
	}
	if err := b.ascend(r.Name); err != nil {
		return err
	}
	if _, ok := b.sessions.Get(r.Session); !ok || b.hold {
		return damaged("lock %q: held by session %d", r.Name, r.Session)
	}
	l := &lock{session: r.Session, token: r.Token}
	if len(r.Data) > 0 {
		l.claim = &claim{data: r.Data}
	}
	b.locks.Set(r.Name, l)
	b.holds.Set(owned{r.Session, r.Name})
	return b.given(r.Token)
}

func (b *builder) addWaiter(r WaiterRecord) error {
	if err := b.enter(atWaiters); err != nil {
		return err
	}
	w := &waiter{session: r.Session, seq: r.Seq}
	if len(r.Data) > 0 {
		w.claim = &claim{data: r.Data}
	}
	return b.queued(place{r.Name, r.Position, w})
}

// queued adds a request that is queued; p is its place at its first name.
func (b *builder) queued(p place) error {
	if p.name == "" || b.place.name != "" && !b.place.before(p) {
		return damaged("place %q/%d after %q/%d", p.name, p.position, b.place.name, b.place.position)
	}
	b.place = p
	for i := range p.claim.width() {
		at := place{p.claim.at(i, p.name), p.position, p.waiter}
		if _, twice := b.queue.Get(at); twice {
			return damaged("place %q/%d is taken twice", at.name, at.position)
		}
		if n := b.slots(at.name, b.lockAt(at.name)); n > 0 && p.claim != nil && p.claim.slots > 0 && p.claim.slots != n {
			return damaged("place %q/%d: one of %d slots, where there are %d", at.name, at.position, p.claim.slots, n)
		}
		b.line(at)
	}
	b.note(p)
	if _, twice := b.waiting.Set(ticket{p.session, p.seq, p.name, p.position}); twice {
		return damaged("session %d: number %d is queued twice", p.session, p.seq)
	}
	if _, kept := b.results.Get(outcome{session: p.session, seq: p.seq}); kept {
		return damaged("session %d: number %d is queued and has a result", p.session, p.seq)
	}
	if err := b.number(p.session, p.seq); err != nil {
		return err
	}
	return b.given(p.position)
}

// lockAt returns a lock to be looked at, be it in use or not.
func (b *builder) lockAt(name string) *lock {
	l := b.lockOf(name)
	return &l
}

func (b *builder) addKey(r KeyRecord) error {
	if err := b.enter(atKeys); err != nil {
		return err
	}
	kv := r.KV
	if err := b.ascend(kv.Key); err != nil {
		return err
	}
	if kv.Created == 0 || kv.Created > kv.Changed {
		return damaged("key %q: created %d, changed %d", kv.Key, kv.Created, kv.Changed)
	}
	if kv.Session != 0 {
		if _, ok := b.sessions.Get(kv.Session); !ok {
			return damaged("key %q: no session %d", kv.Key, kv.Session)
		}
		b.owns.Set(owned{kv.Session, kv.Key})
	}
	b.keys.Set(kv.Key, &key{value: kv.Value, created: kv.Created, changed: kv.Changed, session: kv.Session})
	return b.given(kv.Changed)
}

func (b *builder) addEvent(r EventRecord) error {
	if err := b.enter(atEvents); err != nil {
		return err
	}
	e := r.Event
	n := uint32(0)
	if b.event != nil && b.event.Event.Revision == e.Revision && b.event.N < math.MaxUint32 {
		n = b.event.N + 1
	}
	if r.N != n || e.Revision < b.floor || b.event != nil && !eventBefore(b.event, &r) {
		return damaged("event %d/%d out of order", e.Revision, r.N)
	}
	if e.Key == "" || e.Type < EventPut || e.Type > EventExpire {
		return damaged("event %d/%d: type %d, key %q", e.Revision, r.N, e.Type, e.Key)
	}
	b.event = &r
	b.history.Set(&r)
	b.historyBytes += e.size()
	return b.given(e.Revision)
}

func (b *builder) addTrailer(r Trailer) error {
	if err := b.enter(atEnd); err != nil {
		return err
	}
	if have := b.trailer(); r != have {
		return damaged("%+v announced, %+v found", r, have)
	}
	return b.checkQueues()
}
