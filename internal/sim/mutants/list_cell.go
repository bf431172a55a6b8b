package main

const (
	hub     = "internal/hub"
	replica = "internal/replica"
	forming = "internal/forming"
)

// watchMutants: every change once, in order, without a gap.
func watchMutants() []Mutant {
	const file = hub + "/cursor.go"
	return []Mutant{
		{"watch/begins-with-the-past", "G9", "a watch begins with a change from before it",
			in(file, "		c.next = now + 1\n", "		c.next = now\n"), by(whole, "TestG9_WatchBeginsNow")},
		{"watch/resume-off-by-one", "G9", "a watch that is resumed leaves out the first change",
			in(file, "next: opts.From}\n", "next: opts.From + min(opts.From, 1)}\n"), by(whole, "TestG9_WatchFromRevision")},
		{"watch/cursor-follows-the-state", "G9", "a server whose state goes back shows its watchers changes a second time",
			in(hub+"/index.go", "		if c.next > revision {", "		if c.next < 0 {"), by(hub, "TestG9_StateGoesBack|TestG9_StateGoesBackUnderAWaitingWatcher")},
		{"watch/gap-after-compaction", "G9", "a watcher that fell behind the history goes on after a gap",
			in(file, "		case c.next < s.Floor():\n			behind", "		case c.next < min(s.Floor(), 1):\n			behind"), by(hub, "TestG9_StateIsReplaced")},
		{"watch/revision-in-parts", "G9", "the changes of one revision come in two batches, between which a watcher may be resumed",
			in(file, " && e.Revision > c.next-1 {", " {"), by(hub, "TestG9_OneBatchARevision")},
		{"watch/attached-outside-the-lock", "G9", "a watcher that reads the history and then waits misses a change that comes in between",
			in(hub+"/hub.go", "			woken = h.advance(woken[:0])\n", "			woken = h.advance(woken[:0])\n			h.changed = make(chan struct{}, 1)\n"),
			by(hub, "TestG9_NothingIsMissedBetweenReadingAndWaiting")},
		{"watch/stale-is-told-late", "G9", "a watcher of a server that is cut off is given what lies there before it is told",
			in(file, "	if c.hub.stale() {", "	if c.tell && c.hub.stale() {"), by(hub, "TestG9_StaleIsToldAtOnce")},
		{"watch/stale-tells-progress", "G9", "a server that has been cut off meanwhile tells its watchers that there is nothing new",
			in(file, "	if c.hub.stale() {", "	if !c.tell && c.hub.stale() {"),
			by(hub, "TestG9_AStaleServerTellsNoProgress")},
		{"watch/never-stale", "G9", "a watcher on a server that is cut off goes on as if nothing happened",
			in(hub+"/hub.go", "	if h.cfg.Fresh() > h.cfg.StaleAfter {", "	if h.cfg.Fresh() < 0 {"), by(hub, "TestG9_StaleIsToldAtOnce|TestG9_AStaleServerTellsNoProgress")},
		{"watch/restore-wakes-nobody", "G9", "a state that replaces another wakes no watcher",
			in(hub+"/hub.go", "	h.look()\n	h.observers.wakeAll()", "	h.observers.wakeAll()"), by(hub, "TestG9_StateIsReplaced")},
		{"watch/asked-again", "G9", "a cursor that is asked while it waits forgets that it has seen all up to now, and falls behind the history on a quiet key",
			in(file, "		c.next = max(c.next, h.reached+1)\n		c.group", "		c.group"), by(hub, "TestG9_QuietKeyOutlastsTheHistory")},
		{"watch/progress-falls-behind", "G9", "a cursor that is to tell of progress forgets that it has seen all up to now",
			in(hub+"/hub.go", "c.tell, c.next = true, max(c.next, h.reached+1)", "c.tell = true"), by(hub, "TestG9_QuietKeyOutlastsTheHistory")},
		{"watch/shares-the-state", "G10", "who receives a change can write to the state with it",
			in(hub+"/tail.go", "		e.Value = bytes.Clone(e.Value)\n", ""), by(hub, "TestG10_ReceiversShareACopy")},
		{"watch/copied-for-each", "G9", "each watcher has a copy of its own of each change",
			in(hub+"/tail.go", "	if r.whole[which] == nil {\n", "	{\n"), by(hub, "TestG10_ReceiversShareACopy")},
		{"watch/tail-outlives-the-history", "G9", "a watcher that fell behind the history goes on from the tail on one server, and is told on another",
			in(hub+"/hub.go", "			h.tail.trim(floor)\n", ""), by(hub, "TestG9_UnreadCursor")},
		{"watch/late-reader-first", "G9", "a reader that does not come is looked for without a pause, and nobody else gets a turn",
			in(hub+"/pump.go", "	if len(turns) > 0 {\n		return turns, 0, false\n	}\n	if p.closed", "	if len(turns) > 0 && len(turns) < 0 {\n		return turns, 0, false\n	}\n	if p.closed"), by(hub, "TestG9_PumpFindsWhoComesLate")},
		{"watch/late-reader-forgotten", "G9", "a reader that was away for a while is not served any more",
			in(hub+"/pump.go", "		p.late[t.tries].push(t, delay(t.tries) > 0)\n", ""), by(hub, "TestG9_PumpFindsWhoComesLate")},
		{"watch/woken-in-its-turn", "G9", "a change that comes while a reader has its turn is told with the next one",
			in(hub+"/pump.go", "		t.again = true\n", ""), by(hub, "TestG12_PumpEnds")},
		{"watch/no-fresh-start", "G9", "a watch begins at what its server happens to have applied, before changes that were acknowledged",
			in("internal/server/watches.go", "	return o, s.Fresh(ctx)\n", "	return o, nil\n"), by(whole, "TestG9_WatchBeginsNow|TestG9_WatchOnACutServerEnds")},
		{"watch/progress-goes-back", "G9", "after a snapshot a watcher is told of progress to an earlier revision",
			in(file, "max(c.told, min(c.next-1, h.reached))", "min(c.next-1, h.reached)"), by(hub, "TestG9_ProgressDoesNotGoBack")},
		{"watch/failover-ends-slow-readers", "G9", "a short time without a leader ends the watches of those who have not read what lies there",
			in("watch.go", "errors.Is(err, hub.ErrStale) && waiting > 0:", "errors.Is(err, hub.ErrStale) && waiting < 0:"), by(whole, "TestG9_SlowReadersOutlastAFailover")},
		{"watch/history-too-short", "G9", "the history forgets a change that its floor says it has",
			in(fsm+"/history.go", "		s.floor = oldest.Event.Revision + 1\n		for {\n", "		for s.floor = oldest.Event.Revision + 1; true; s.floor = oldest.Event.Revision {\n"), by(fsm, "TestModel|TestStories/history_floor.*")},
	}
}

// agreementMutants: a server that is not the same as the others stops.
func agreementMutants() []Mutant {
	return []Mutant{
		{"agreement/not-compared", "G10", "a server does not compare its hash with the leader's",
			in(replica+"/checks.go", "	if known && ours != leaders && c.mismatch != nil {\n", "	if known && ours == leaders && c.mismatch == nil {\n"), by(replica, "TestG10_Checkpoints")},
		{"agreement/not-compared-later", "G10", "a server whose own hash is ready after the leader's does not compare them",
			in(replica+"/checks.go", "		if asked && leaders != h && c.mismatch != nil {\n", "		if asked && leaders == h && c.mismatch == nil {\n"), by(replica, "TestG10_Checkpoints")},
		{"agreement/checkpoint-made-up-for", "G10", "a checkpoint that was left out is taken later, of another state: servers that agree stop each other",
			in(replica+"/checks.go", "	c.last = point\n	if c.running || c.closed {\n		return 0, false\n	}\n", "	if c.running || c.closed {\n		return 0, false\n	}\n	c.last = point\n"),
			by(replica, "TestG10_ACheckpointIsNotMadeUpFor")},
		{"agreement/minority-goes-on", "G10", "a server that a majority contradicts goes on serving",
			in(server+"/leader.go", "				s.fail(fmt.Errorf(\"the state", "				_ = (fmt.Errorf(\"the state"), by(whole, "TestG10_DamagedServerStops")},
		{"agreement/majority-stops", "G10", "the servers that are right stop, and not the one that is wrong",
			in(server+"/leader.go", "			case hash == ours:\n", "			case hash != ours:\n"), by(whole, "TestG10_DamagedServerStops")},
		{"agreement/leader-writes-nothing", "G10", "the leader does not write its hash down: nothing is ever compared",
			in(server+"/leader.go", "	if s.raft.ActiveTerm() == 0 {\n		return\n	}\n	select {\n	case s.lead.hashes", "	if s.raft.ActiveTerm() != 0 {\n		return\n	}\n	select {\n	case s.lead.hashes"),
			by(whole, "TestG10_DamagedServerStops")},
		{"agreement/unknown-command-skipped", "G10", "a server that does not know a command skips it, and parts from the others",
			in(replica+"/replica.go", "	if err != nil {\n		return nil, fmt.Errorf(\"entry %d: %w\", index, err)\n	}\n", "	if err != nil {\n		return nil, nil\n	}\n"),
			by(replica, "TestApply_WhatCannotBeUnderstood")},
		{"agreement/newer-is-read", "G10", "a snapshot of a later format is read as if it were known",
			in("internal/wire/snapshot.go", "v > snapshotFormat {\n", "v > snapshotFormat+100 {\n"), by("internal/wire", "TestSnapshotNewer")},
		{"agreement/failed-restore-spoils", "G10", "a snapshot that cannot be read leaves a state that nobody agreed to",
			in(replica+"/replica.go", "	if err != nil {\n		return fmt.Errorf(\"snapshot: %w\", err)\n	}\n	r.mu.Lock()\n", "	if err != nil {\n		r.state = fsm.New()\n		return fmt.Errorf(\"snapshot: %w\", err)\n	}\n	r.mu.Lock()\n"),
			by(replica, "TestG10_SnapshotAndRestore")},
	}
}

// formingMutants: one cell comes to life, and changes its servers one safe step at a time.
func formingMutants() []Mutant {
	return []Mutant{
		{"forming/ballots-ignored", "G1", "a server adopts a proposal that an earlier one overtook: two cells come to life",
			in(forming+"/record.go", "	if p.Ballot.Compare(r.Ballot) <= 0 {\n", "	if p.Ballot.Number == 0 {\n"), by(forming, "TestAdoption|TestRandomSchedules")},
		{"forming/earlier-sets-forgotten", "G1", "a server forgets for which cells it has stood up, and helps a second one to life",
			in(forming+"/record.go", "			next.Earlier = append(next.Earlier, set)\n", "			_ = set\n"), by(forming, "TestAdoption|TestRandomSchedules|TestNoTwoCellsWithACommonMemberComeToLife|TestRestOfAnAdoptedSetFormsNothingElse")},
		{"forming/conflicts-ignored", "G1", "a server adopts a proposal although a cell may have come to life without the proposed servers",
			in(forming+"/record.go", "		if outside >= majority(len(set)) {\n", "		if outside > len(set) {\n"), by(forming, "TestAdoption|TestRandomSchedules|TestRestOfAnAdoptedSetFormsNothingElse")},
		{"forming/not-durable", "G1 G11", "a server that adopts a proposal forgets it with a crash",
			in(forming+"/handle.go", "	if err := f.cfg.Save(next.Encode()); err != nil {\n", "	if err := f.failed; err != nil {\n"), by(forming, "TestRandomSchedules|TestFailingDiskEndsRun|TestWipedServerDuringForming|TestMembersCompleteAProposalWithoutItsCoordinator")},
		{"forming/state-bootstraps", "G1 G11", "a server that belongs to a cell forms another one",
			in(forming+"/handle.go", "	case f.cellID != \"\" || f.failed != nil || !f.record.same(p):\n", "	case f.failed != nil || !f.record.same(p):\n"), by(forming, "TestAServerOfAnotherCellIsNotBootstrapped")},
		{"forming/any-completion", "G1", "the word that a proposal is complete counts for another one",
			in(forming+"/handle.go", "	case f.cellID != \"\" || f.failed != nil || !f.record.same(p):\n", "	case f.cellID != \"\" || f.failed != nil:\n"), by(forming, "TestLateWordOfACompletion|TestCompletionIsOfOneBallot|TestRandomSchedules|TestNoTwoCells.*")},
		{"members/vote-before-caught-up", "G8 G11", "a server gets its vote before it has the log: the cell may not be able to commit",
			in(forming+"/membership.go", " && p.Match+maxLag >= last {\n", " && last+1 > 0 {\n"), by(forming, "TestServersAreAddedWithoutAVoteAndPromotedInPairs")},
		{"members/even-voters", "G8", "the number of voters becomes even: one more to lose, and none gained",
			in(forming+"/admission.go", "	needed := 1 + all%2\n", "	needed := 1\n"), by(forming, "TestNumberOfVotersStaysOdd|TestServersAreAddedWithoutAVoteAndPromotedInPairs")},
		{"members/live-server-replaced", "G11", "a server that lives is replaced by one that has its name",
			in(forming+"/admission.go", "	case !v.dead(*owner):\n", "	case owner.silent < 0:\n"), by(forming, "TestAdmission|TestLiveServerIsNotReplaced")},
		{"members/replaced-without-majority", "G11", "a server is replaced while too few others are healthy to bear another mistake",
			in(forming+"/admission.go", "healthy < majority(all) {\n", "healthy < 0 {\n"), by(forming, "TestAdmission|TestNobodyIsReplacedWithoutAHealthyMajority")},
	}
}

// strangerMutants: who is let in.
func strangerMutants() []Mutant {
	const file = "transport/hello.go"
	return []Mutant{
		{"handshake/cell-id", "G1", "a server of another cell of the same name is let in, and its log is mixed with this one's",
			in(file, "	case own != none && peer != none && own != peer:\n", "	case own != none && peer != none && own != peer && kind == 0:\n"), by("transport", "TestMux.*")},
		{"handshake/cell-name", "G1", "a server of another cell is let in",
			in(file, "	case own.Cell != peer.Cell:\n", "	case own.Cell == \"\":\n"), by("transport", "TestMux.*|TestHostile.*")},
		{"handshake/node", "G1", "a message for one server is taken by another that lives at its address now",
			[]Edit{
				{file, "	case peer.Expect != \"\" && peer.Expect != own.Node:\n", "	case peer.Expect != \"\" && own.Node == \"\":\n"},
				{file, "	case own.Expect != \"\" && own.Expect != peer.Node:\n", "	case own.Expect != \"\" && peer.Node == \"\":\n"},
			}, by("transport", "TestMux.*")},
		{"handshake/raft-before-a-cell", "G1", "a server without a cell is sent a log",
			in(file, "	case kind == KindRaft && peer == none:\n", "	case kind == KindRaft && peer == none && own == none:\n"), by("transport", "TestMux.*")},
		{"handshake/newer-version", "G12", "a peer of a later protocol is talked to as if it were understood",
			in(file, "version > Version:\n", "version > Version+100:\n"), by("transport", "TestHello.*|TestMux.*|TestRefusal.*")},
	}
}

// fenceMutants: stale writes are refused.
func fenceMutants() []Mutant {
	return []Mutant{
		{"fence/stale-token", "G4", "a write under a lower token is let through",
			in("fence/memory.go", "	if t < r.highest {\n", "	if t < r.highest && t == 0 {\n"), by("fence", "TestMemory")},
		{"fence/failed-write-forgotten", "G4", "the token of a write that failed half-way is forgotten, and a former holder finishes what a later one has begun",
			in("fence/memory.go", "	r.highest = t\n	return write(ctx)\n", "	err := write(ctx)\n	if err == nil {\n		r.highest = t\n	}\n	return err\n"), by("fence", "TestG4_MemoryKeepsTheTokenOfAFailedWrite")},
		{"fence/no-token", "G4", "a write without a token is let through",
			in("fence/memory.go", "	if t == 0 {\n", "	if t == 0 && name == \"\" {\n"), by("fence", "TestMemory")},
	}
}

// boundMutants: nothing grows without bound, and nothing is left.
func boundMutants() []Mutant {
	return []Mutant{
		{"bound/requests-of-a-peer", "G12", "a peer may have any number of requests under way",
			in("internal/calls/inbound.go", "	if len(in.requests) >= in.x.cfg.MaxInFlight+2*maxUrgent {\n", "	if len(in.requests) < 0 {\n"), by("internal/calls", "TestBusyPeer")},
		{"bound/payloads-of-a-peer", "G12", "a peer may have large requests under way without bound",
			in("internal/calls/inbound.go", "	if large > 0 && in.payload+large > in.x.cfg.MaxPayload {\n", "	if large < 0 {\n"), by("internal/calls", "TestPayloadsUnderWayAreBounded")},
		{"bound/clients", "G12", "any number of clients may connect to a server",
			in("internal/calls/inbound.go", "	if in.client && x.clients >= x.cfg.MaxClients {\n", "	if in.client && x.clients < 0 {\n"), by("internal/calls", "TestClientsAreBounded")},
		{"bound/held-for-clients", "G12", "what clients make a server hold has no bound",
			in("internal/calls/overload.go", "		greediest.close(errGreedy)\n", "		return\n"), by("internal/calls", "TestGreediestClientGoes")},
		{"bound/claimed-frames", "G12", "a frame gets the memory that its first bytes claim",
			in("internal/calls/intake.go", "		grown := make([]byte, min(n, 2*len(in.buf)))\n", "		grown := make([]byte, n)\n"), by("internal/calls", "TestIntakeTakesMemoryForWhatHasArrived")},
		{"bound/stuck-writes", "G12", "what a peer does not read waits for it for ever",
			in("internal/calls/pulse.go", "	} else if p.stuck++; p.stuck > beats {\n", "	} else if p.stuck++; p.stuck < 0 {\n"), by("internal/calls", "TestReadersThatAreSlow")},
		{"bound/waiting-changes", "G12", "any number of changes may wait to be written",
			in(server+"/packer.go", "	if l.bytes+q.size > packQueued {\n", "	if l.bytes < 0 {\n"), by(server, "TestTooManyWaitingChangesAreRefused")},
		{"bound/waits-left-behind", "G12", "who gave up waiting for an answer is remembered for ever",
			in(replica+"/waiting.go", "		if len(calls) == 1 {\n			delete(w.calls, key)\n			return\n		}\n", "		if len(calls) == 1 {\n			return\n		}\n"), by(replica, "TestApply_TellsInOrder")},
		{"bound/observers-left-behind", "G12", "an observer that was closed is remembered for ever",
			in(hub+"/observer.go", "	if len(set) == 0 {\n", "	if len(set) < 0 {\n"), by(hub, "TestG12_HubCloses")},
		{"bound/closed-hub-waits", "G12", "watchers of a node that was closed wait for ever",
			in(hub+"/hub.go", "	for _, c := range left {\n", "	for _, c := range left[:0] {\n"), by(hub, "TestG12_HubCloses")},
		{"bound/streams-left-open", "G12", "raft's connections are left open when the node stops",
			in(raftnode+"/node.go", "		n.streams.closeAll()\n", "		_ = n\n"), by(raftnode, "TestG12_OverStreams")},
	}
}
