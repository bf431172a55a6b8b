package main

const fsm = "fsm"

// lockMutants: who holds, who is next, under which token.
func lockMutants() []Mutant {
	const file, grant, queue = fsm + "/lock.go", fsm + "/grant.go", fsm + "/queue.go"
	return []Mutant{
		{"lock/granted-while-held", "G1", "a lock that is held is granted to whoever asks",
			in(fsm+"/crowd.go", "	if l.session != 0 {\n		return false\n	}\n	if !l.crowded {\n		return true", "	if !l.crowded {\n		return true"), by(fsm, "TestG1_OneHolder|TestModel")},
		{"lock/token-is-the-index", "G2 G4", "the token is the index of the log entry: two grants in one entry have the same",
			in(grant, "	h := held{session: w.session, token: st.next(), claim", "	st.next()\n	h := held{session: w.session, token: Revision(st.index + 1), claim"),
			by(fsm, "TestG2_TwoGrantsInOneEntry|TestG2_TokensRise")},
		{"lock/token-below-the-last", "G2 G4", "the counter of tokens does not rise with a restore from a backup",
			in(fsm+"/cell.go", "	st.revision = max(st.revision+1<<32, Revision(c.Seconds<<23))\n", "	st.revision++\n"), by(fsm, "TestG2_GenerationLiftsTokens")},
		{"lock/unlock-any-token", "G1 G7", "an Unlock that is repeated late frees the grant of a later holder",
			[]Edit{
				{grant, "claim: l.claim}, l.token == token\n", "claim: l.claim}, true\n"},
				{grant, "h.session == id && h.token == token\n", "h.session == id\n"},
			}, by(fsm, "TestStories/stale_unlock.*|TestModel")},
		{"lock/unlock-anybody", "G1", "an Unlock frees the lock of another session",
			in(grant, "h.session == id && h.token == token\n", "h.token == token\n"), by(fsm, "TestModel|TestStories")},
		{"lock/dead-waiter-is-granted", "G6", "a lock is granted to a waiter whose session has ended",
			in(queue, "	if _, ok := s.live(id); !ok {\n		return UnknownSession\n	}\n", ""), by(fsm, "TestG6_DeadWaiterIsNeverGranted")},
		{"lock/last-come-first-served", "G6", "the last in the queue is granted first",
			in(queue, "	s.queue.Ascend(place{name: name}, func(q place) bool {\n", "	s.queue.Descend(place{name: name, position: 1 << 62}, func(q place) bool {\n"),
			by(fsm, "TestG6_FirstComeFirstServed")},
		{"lock/withdrawn-stays", "G6", "a waiter that is withdrawn stays in the queue",
			in(queue, "	st.queue.Delete(p)\n", ""), by(fsm, "TestG6_CancelledWaiter|TestModel")},
		{"lock/freed-without-heir", "G6", "whoever frees a lock grants it to nobody: the waiters wait for ever",
			in(grant, "		removed += st.handOn(h.claim.at(i, h.name))\n", "		removed += 0 * i\n"), by(fsm, "TestG6_FirstComeFirstServed")},
		{"lock/granted-during-a-hold", "G1 G3", "after a restore locks are granted while holders of before may still act",
			in(file, "	now = !st.hold\n", "	now = true\n"), by(fsm, "TestStories/generation.*|TestModel")},
		{"lock/held-by-any-token", "G4", "the condition that a grant is held does not look at its token",
			in(grant, "claim: l.claim}, l.token == token\n", "claim: l.claim}, true\n"), by(fsm, "TestStories|TestModel")},
		{"lock/held-by-the-dead", "G4", "the condition that a grant is held is true for a session that has ended",
			in(fsm+"/txn.go", "		_, live := s.live(h.session)\n		return live\n", "		return h.session != 0\n"), by(fsm, "TestStories|TestModel")},
	}
}

// sessionMutants: the end of a session, and what becomes of what it had.
func sessionMutants() []Mutant {
	return []Mutant{
		{"session/the-dead-go-on", "G1 G8", "a session that has ended goes on locking and writing",
			in(fsm+"/session.go", "!ok || found.end != 0 {", "!ok {"), by(fsm, "TestModel|TestStories")},
		{"session/keys-forgotten", "G12", "the ephemeral keys of a session outlive it",
			in(fsm+"/reap.go", "		st.remove(name, EventExpire, st.next())\n", "		st.owns.Delete(owned{id, name})\n"), by(fsm, "TestModel|TestStories")},
		{"session/locks-forgotten", "G6 G12", "the locks of a session outlive it",
			in(fsm+"/reap.go", "		budget -= h.claim.width() + st.release(h, s.end)\n", "		st.holds.Delete(owned{id, h.name})\n		st.stakes.Delete(stake{id, h.name, h.token})\n		budget -= 1 + 0*int(s.end)\n"), by(fsm, "TestModel|TestStories")},
		{"session/results-forgotten", "G12", "the kept results of a session outlive it",
			in(fsm+"/reap.go", "		st.results.Delete(r)\n		budget--\n", "		_ = r\n		break\n"), by(fsm, "TestModel|TestStories|TestG10_SnapshotAtAnyStep")},
		{"session/waiters-not-told", "G6", "the waiters of a session that has ended stay in the queue",
			in(fsm+"/reap.go", "		st.dequeue(p)\n", "		st.waiting.Delete(t)\n"),
			by(fsm, "TestModel|TestStories")},
		{"session/owner-not-changed", "G9", "a key that was overwritten goes with the session that owned it before",
			in(fsm+"/key.go", "		st.disown(name, old.session)\n	}\n", "	}\n"), by(fsm, "TestModel|TestStories")},
		{"session/end-hold-of-any-term", "G1 G3", "the end of a hold that was decided in an earlier term takes effect",
			in(fsm+"/cell.go", "c.Term != st.entryTerm || !st.hold", "!st.hold"), by(fsm, "TestModel|TestStories")},
		{"session/creation-repeated", "G7 G12", "a creation that is repeated makes a second session",
			in(fsm+"/session.go", "	if known, ok := st.nonces.Get(nonceOf{nonce: c.Nonce}); ok {\n", "	if known, ok := st.nonces.Get(nonceOf{nonce: c.Nonce}); ok && c.TTL < 0 {\n"),
			by(fsm, "TestG7_ExactlyOnce|TestStories|TestModel")},
	}
}

// resultMutants: what is kept of a change, so that it is made once.
func resultMutants() []Mutant {
	const file = fsm + "/apply.go"
	return []Mutant{
		{"result/not-kept", "G7", "a change that is repeated is made again",
			in(file, "	st.results.Set(outcome{c.Session, c.Seq, &kept{name, r}})\n", "	_ = name\n"), by(fsm, "TestG7_ExactlyOnce")},
		{"result/acknowledged-numbers-forgotten", "G7", "a late copy of a change that was acknowledged is made again",
			in(file, "	} else if next.acked.has(c.Seq) {\n", "	} else if next.acked == nil && c.Seq == 0 {\n"), by(fsm, "TestG7_ResultsSurviveRestore|TestStories")},
		{"result/queued-twice", "G6 G7", "a Lock that waits is queued a second time when it is repeated",
			in(file, "	} else if _, ok := st.waiting.Get(ticket{session: c.Session, seq: c.Seq}); ok {\n", "	} else if c.Seq == 0 {\n"), by(fsm, "TestG7_ExactlyOnce|TestStories")},
		{"result/unbounded", "G12", "a session may have any number of results kept",
			in(file, "next.outstanding >= MaxOutstanding && !always", "next.outstanding < 0 && !always"), by(fsm, "TestG7_Outstanding")},
		{"result/never-dropped", "G7 G12", "results that were acknowledged are kept",
			in(file, "		if _, had := st.results.Delete(outcome{session: c.Session, seq: seq}); had {\n", "		if _, had := st.results.Get(outcome{session: c.Session, seq: seq}); had {\n"),
			by(fsm, "TestG7_ResultsSurviveRestore|TestModel")},
		{"result/not-in-the-snapshot", "G7 G10", "results are not in the snapshot: a retry that meets a restored server is made again",
			[]Edit{
				{fsm + "/snapshot.go", "		more = yield(ResultRecord{Session: o.session, Seq: o.seq, Name: o.name, Result: o.Result})\n", ""},
				{fsm + "/snapshot.go", "		Results:  uint64(s.results.Len()),\n", ""},
			}, by(fsm, "TestG7_ResultsSurviveRestore")},
		{"result/acks-not-in-the-snapshot", "G7 G10", "acknowledged numbers are not in the snapshot: a late copy that meets a restored server is made again",
			in(fsm+"/snapshot.go", "Ended: v.end, Acked: v.acked,", "Ended: v.end,"), by(fsm, "TestG7_ResultsSurviveRestore")},
	}
}

// stateMutants: replicas agree, and snapshots are whole.
func stateMutants() []Mutant {
	return []Mutant{
		{"state/shared-with-a-clone", "G10", "a snapshot shares the locks with the state that goes on: it is torn",
			in(fsm+"/state.go", "	c.locks = s.locks.Copy()\n", ""), by(fsm, "TestClone.*")},
		{"state/changed-in-place", "G10", "a value that a snapshot shares is changed in place",
			in(fsm+"/lock.go", "			next := st.lockOf(name)\n			next.claim = claim\n			st.locks.Set(name, &next)\n", "			l, _ := st.locks.Get(name)\n			l.claim = claim\n"), by(fsm, "TestClone.*|TestModel")},
		{"state/no-floor-in-the-snapshot", "G9 G10", "a restored server believes that its history reaches back for ever: a watch has a gap",
			in(fsm+"/restore.go", "	b.index, b.revision, b.floor = r.Index, r.Revision, r.Floor\n", "	b.index, b.revision = r.Index, r.Revision\n"), by(fsm, "TestG10_SnapshotAtAnyStep|TestStories/history_floor.*")},
		{"state/revision-not-in-the-snapshot", "G2 G10", "the counter of tokens goes back with a restored snapshot",
			in(fsm+"/restore.go", "	b.index, b.revision, b.floor = r.Index, r.Revision, r.Floor\n", "	b.index, b.revision, b.floor = r.Index, max(r.Revision, 1)-1, min(r.Floor, max(r.Revision, 1)-1)\n"), by(fsm, "TestG10_.*|TestRestore.*")},
		{"state/queue-out-of-order", "G6 G10", "a restored server has lost whom the waiters are",
			in(fsm+"/restore.go", "		b.line(at)\n", "		l := b.lockOf(at.name)\n		l.waiting++\n		b.setLock(at.name, l)\n"), by(fsm, "TestG10_SnapshotAtAnyStep|TestG10_ReplicasAgree")},
		{"state/order-of-a-map", "G10", "locks are granted in the order of a map, which no two servers share",
			in(fsm+"/cell.go", "	for _, name := range names {\n		st.handOn(name)\n	}\n", "	set := make(map[string]bool)\n	for _, name := range names {\n		set[name] = true\n	}\n	for name := range set {\n		st.handOn(name)\n	}\n"),
			by(fsm, "TestG10_ReplicasAgree|TestStories|TestModel")},
		{"state/hash-misses-data", "G10", "the hash that replicas compare does not cover what is attached to a lock",
			in(fsm+"/hash.go", "uint64(r.Token)).text(r.Name).bytes(r.Data)\n", "uint64(r.Token)).text(r.Name)\n"), by(fsm, "TestHashSeesEverything")},
		{"state/half-a-snapshot", "G10 G11", "a snapshot that is cut off is restored",
			in(fsm+"/snapshot.go", "	if b.at != atEnd {\n", "	if b.at == atStart {\n"), by(fsm, "TestRestoreIncomplete")},
		{"state/snapshot-checksum", "G10 G11", "a damaged snapshot is restored",
			in("internal/wire/snapshot.go", "	if binary.BigEndian.Uint32(b[:]) != s.sum {\n", "	if binary.BigEndian.Uint32(b[:]) != s.sum && s.count < 0 {\n"),
			by("internal/wire", "TestSnapshotFlipped")},
	}
}
