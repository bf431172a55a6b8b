package main

// The ways to hold a lock that are not one holder alone, and the ways to lose one.

// sharedMutants: readers, slots, several names.
func sharedMutants() []Mutant {
	const crowd, queue, lock, grant = fsm + "/crowd.go", fsm + "/queue.go", fsm + "/lock.go", fsm + "/grant.go"
	return []Mutant{
		{"shared/writer-beside-readers", "G1", "a writer is granted while readers hold the lock",
			in(crowd, "		return crowd.readers == 0 && crowd.taken == 0\n", "		return crowd.taken == 0\n"), by(fsm, "TestG1_OneHolder|TestModel")},
		{"shared/reader-beside-slots", "G1", "a reader is granted while slots of the name are held",
			in(crowd, "		return crowd.taken == 0\n", "		return true\n"), by(fsm, "TestG1_OneHolder|TestModel")},
		{"shared/reader-passes-a-writer", "G6", "a reader that comes late passes a writer that waits",
			in(lock, "		now = now && l.waiting == 0 && st.admits", "		now = now && st.admits"), by(fsm, "TestStories/(shared|slots|lock_all).*")},
		{"shared/one-reader-at-a-time", "G6", "only the first of the readers that wait next to each other is granted",
			in(queue, "				st.grant(p.name, p.waiter, p.position)\n				continue\n", "				st.grant(p.name, p.waiter, p.position)\n				return removed\n"), by(fsm, "TestStories/shared.*")},
		{"shared/stuck-behind-a-writer-that-left", "G6 G12", "readers behind a writer that gave up wait for the next release",
			in(lock, "		st.handOnAll(p)\n", ""), by(fsm, "TestStories/shared.*|TestRestore.*|TestModel")},
		{"shared/upgrade-waits", "G6", "a reader that wants to write waits for itself",
			in(lock, "		if !st.keepHeld(c.Name, w) {\n", "		if st.keepHeld(c.Name, w); w == nil {\n"), by(fsm, "TestStories/shared.*")},
		{"slots/one-too-many", "G1", "there is a holder more than there are slots",
			in(crowd, "crowd.readers == 0 && crowd.taken < c.slots\n", "crowd.readers == 0 && crowd.taken <= c.slots\n"), by(fsm, "TestG1_OneHolder|TestModel")},
		{"slots/one-slot-twice", "G1 G2", "two holders are in the same slot",
			in(crowd, "		s.vacant.Delete(vacancy{name, slot})\n", ""), by(fsm, "TestG1_OneHolder|TestStories/slots.*|TestModel")},
		{"slots/any-number", "G1", "two users of a name think of different numbers of slots",
			in(lock, "w.claim.slots > 0 && w.claim.slots != n {", "w.claim.slots > 0 && n == 0 {"), by(fsm, "TestStories/slots.*")},
		{"all/not-its-turn", "G6", "a request for several names passes others that wait for one of them",
			in(queue, "front.position != p.position {", "front.position == 0 {"), by(fsm, "TestModel")},
		{"all/half-of-it", "G1", "a request for several names is granted although one of them is held",
			in(queue, "!ok || !s.admits(name, l, p.claim) {", "!ok || name == p.name && !s.admits(name, l, p.claim) {"), by(fsm, "TestG1_OneHolder|TestModel")},
		{"all/others-not-looked-at", "G6", "who waits for another name of a request that died waits on",
			in(queue, "				if other := p.claim.at(i, name); other != name {\n", "				if other := p.claim.at(i, name); other != name && st.entryTerm == 0 {\n"), by(fsm, "TestModel")},
		{"all/a-name-not-freed", "G6 G12", "a name of several stays held for ever",
			in(grant, "	for i := range h.claim.width() {\n		st.vacate(", "	for i := range min(1, h.claim.width()) {\n		st.vacate("), by(fsm, "TestStories/lock_all.*|TestModel")},
	}
}

// lossMutants: leases, delays, marks, handing over.
func lossMutants() []Mutant {
	const lease, grant, lock, revoke, queue = fsm + "/lease.go", fsm + "/grant.go", fsm + "/lock.go", fsm + "/revoke.go", fsm + "/queue.go"
	const term = "	if c.Term != st.entryTerm {\n		return\n	}\n"
	return []Mutant{
		{"loss/lease-of-any-term", "G3", "the end of a lease that was decided in an earlier term takes effect",
			in(lease, term+"	for _, g := range c.Grants {", "	for _, g := range c.Grants {"), by(fsm, "TestStories/lease.*|TestModel")},
		{"loss/without-a-lease", "G3 G8", "a grant without a lease expires like one that has one",
			in(lease, "h.claim != nil && h.claim.ttl > 0 {", "true {"), by(fsm, "TestStories/lease.*|TestModel")},
		{"loss/lease-above-the-session", "G3", "a lease is longer than the session that holds it",
			in(fsm+"/claim.go", "t.TTL < 0 || t.TTL > ttl ||", "t.TTL < 0 ||"), by(fsm, "TestStories/lease.*|TestModel")},
		{"loss/no-delay", "G4", "what was lost is granted at once, although it has a delay",
			in(grant, "			delay = c.delay\n", ""), by(fsm, "TestStories/delay.*|TestModel")},
		{"loss/delay-after-unlock", "G6", "what was freed is kept back as if it had been lost",
			in(grant, "		if why.loss() {\n", "		if why > 0 {\n"), by(fsm, "TestStories/delay.*|TestModel")},
		{"loss/delay-of-any-term", "G4", "the end of a delay that was decided in an earlier term takes effect",
			in(lease, term+"	for _, g := range c.Losses {", "	for _, g := range c.Losses {"), by(fsm, "TestStories/delay.*|TestModel")},
		{"loss/delay-not-in-the-snapshot", "G4 G10", "a restored server has forgotten what is kept back",
			[]Edit{
				{fsm + "/snapshot_lock.go", "		more = yield(LossRecord{l.name, l.token, l.delay, l.shared, l.slots, l.slot})\n", ""},
				{fsm + "/snapshot.go", "		Losses:   uint64(s.losses.Len()),\n", ""},
			}, by(fsm, "TestG10_SnapshotAtAnyStep")},
		{"loss/leases-not-restored", "G3 G10", "a restored server does not know which grants have a lease: the next leader expires none",
			in(fsm+"/restore_lock.go", "	if c.ttl > 0 {\n", "	if c.ttl < 0 {\n"), by(fsm, "TestG10_SnapshotAtAnyStep|TestStories/lease.*")},
		{"loss/not-marked", "G3", "a grant is taken from its holder though nobody told it",
			in(revoke, "; ok && st.marked(h) {\n", "; ok {\n"), by(fsm, "TestStories/revoke.*|TestModel")},
		{"loss/session-not-marked", "G3 G8", "a session is ended though nobody marked it",
			in(revoke, "; ok && st.leaving(id) {\n", "; ok && s != nil {\n"), by(fsm, "TestStories/revoke.*|TestModel")},
		{"loss/revoke-of-any-term", "G3", "an end that was decided in an earlier term takes effect, before the holder had time to stop",
			in(revoke, term+"	for _, g := range c.Grants {", "	for _, g := range c.Grants {"), by(fsm, "TestStories/revoke.*|TestModel")},
		{"loss/marked-is-granted", "G6", "a session that is marked is granted what it asks for",
			in(lock, "	if st.leaving(c.Session) {\n", "	if st.leaving(0) {\n"), by(fsm, "TestStories/revoke.*|TestModel")},
		{"loss/marked-waiter-is-granted", "G6", "a session that is marked is granted what it waits for",
			in(queue, "	if s.leaving(id) {\n		return Revoked\n	}\n", ""), by(fsm, "TestModel")},
		{"loss/any-token-revoked", "G7", "a Revoke that is late marks the grant of a later holder",
			in(revoke, "	h, ok := st.find(c.Name, c.Token)\n", "	h, ok := st.find(c.Name, max(c.Token, st.lockOf(c.Name).token))\n"), by(fsm, "TestStories/revoke.*|TestModel")},
		{"hand-over/to-a-stranger", "G6", "a lock is handed over to a session that asked for it with others, or as a reader",
			in(lock, "q.claim.exclusive() && q.claim.width() == 1 {", "true {"), by(fsm, "TestStories/hand_over.*|TestModel")},
		{"hand-over/place-stays", "G6 G12", "who was handed a lock waits for it still",
			in(lock, "		st.dequeue(p)\n		st.takeBack(h, HandedOver)\n", "		st.takeBack(h, HandedOver)\n"), by(fsm, "TestStories/hand_over.*|TestModel")},
	}
}

// deadlockMutants: every circle is seen, and nothing else.
func deadlockMutants() []Mutant {
	const file = fsm + "/deadlock.go"
	return []Mutant{
		{"deadlock/not-seen", "G12", "requests that wait for each other wait for ever",
			in(file, "	if !f.closed || !f.settle() || f.nodes[0].free {\n", "	if !f.closed || !f.settle() || f.steps > 0 {\n"), by(fsm, "TestStories/deadlock.*|TestDeadlock.*")},
		{"deadlock/queue-not-seen", "G12", "a circle by way of a request that keeps a free name is not seen",
			in(file, "		q, ok = found, f.refusal(found.session) == 0\n", "		q, ok = found, false\n"), by(fsm, "TestStories/deadlock.*|TestModel")},
		{"deadlock/readers-not-seen", "G12", "a circle by way of one of several readers is not seen",
			in(file, "		if !any {\n			f.addHolder(i, held(h))\n", "		if !any {\n			_ = i\n"), by(fsm, "TestModel|TestStories/deadlock.*")},
		{"deadlock/one-slot-is-enough-to-wait", "G6", "a false alarm: one of the holders of slots can go on",
			in(file, "	if any && uint32(len(one)) == c.taken {\n		f.nodes[i].way = append(f.nodes[i].way, one)\n	}\n", "	for _, a := range one {\n		f.add(i, a)\n	}\n"), by(fsm, "TestStories/deadlock.*|TestModel")},
		{"deadlock/the-marked-count", "G6", "a false alarm: a grant that is about to be taken away stands in the way",
			in(file, "	if f.stays(h) {\n		f.add(i", "	if h.token > 0 {\n		f.add(i"), by(fsm, "TestStories/deadlock.*|TestModel")},
		{"deadlock/the-dead-count", "G6", "a false alarm: a request of a session that has ended counts",
			in(file, "ok && f.refusal(p.session) == 0 {\n			a.waits", "ok {\n			a.waits"), by(fsm, "TestModel|TestDeadlock.*")},
		{"deadlock/what-was-freed-counts", "G12", "what a request says it holds is kept when it waits no more",
			in(fsm+"/queue.go", "			st.declared.Delete(declaration{token: g.Token, position: p.position})\n", "			_ = g\n"), by(fsm, "TestG10_.*|TestStories/deadlock.*")},
		{"deadlock/no-bound", "G12", "a search takes as long as it likes",
			in(file, "		if f.steps > maxWalk {\n			return nil\n		}\n", ""), by(fsm, "TestDeadlockIsBounded")},
	}
}
