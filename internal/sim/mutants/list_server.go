package main

const (
	server   = "internal/server"
	caller   = "internal/caller"
	directed = "internal/sim"
	whole    = "." // the tests of whole cells
)

// releaseMutants: the holder stops first.
func releaseMutants() []Mutant {
	return []Mutant{
		{"release/unlock-stops-last", "G3", "a holder stops only after its Unlock has left, and been answered: the next one may hold before",
			in("lock.go", "		l.hold.End(ErrUnlocked)\n		l.forget()\n		free(l.name, l.token, func(res fsm.Result, err error) {\n",
				"		free(l.name, l.token, func(res fsm.Result, err error) {\n			l.hold.End(ErrUnlocked)\n			l.forget()\n"),
			[]Run{{directed, "TestG3_DirectedHolderStopsBeforeItsReleaseLeaves"}, {whole, "TestUnlockStopsFirst"}}},
		{"release/close-stops-last", "G3", "a session that is closed goes on holding until the cell has answered",
			[]Edit{
				{caller + "/session.go", "		live := x.lease.End(cause)\n", "		live := x.lease.Alive()\n"},
				{caller + "/session.go", "	x.caller.sessions.gone(x)\n	close(x.closed)\n", "	x.lease.End(ErrSessionClosed)\n	x.caller.sessions.gone(x)\n	close(x.closed)\n"},
			}, []Run{{directed, "TestG3_DirectedHolderStopsBeforeItsReleaseLeaves"}, {whole, "TestSessionCloseWithoutALeader"}}},
		{"release/close-of-the-node", "G3 G12", "what a closed node held still passes its Check",
			in(caller+"/caller.go", "		x.lease.End(ErrClosed)\n", "		_ = x\n"), by(whole, "TestG12_ClosedNode")},
		{"release/given-up-with-ctx", "G6 G12", "an Unlock whose context has ended is not repeated: nobody gets the lock before the session ends",
			in(caller+"/lock.go", "	return x.Change(context.Background(), func(c fsm.Change) fsm.Command {\n		return fsm.Unlock",
				"	ctx, end := context.WithTimeout(context.Background(), 300*time.Millisecond)\n	defer end()\n	return x.Change(ctx, func(c fsm.Change) fsm.Command {\n		return fsm.Unlock"),
			by(whole, "TestUnlockStopsFirst")},
		{"release/cancelled-waiter-stays", "G6 G12", "a Lock call that was cancelled stays in the queue, and is granted to nobody",
			in(caller+"/lock.go", "		x.caller.cfg.Go(func() { x.withdraw(c.Seq) })\n", ""),
			by(directed, "TestG6_DirectedACancelledWaiterLeavesTheQueue")},
		{"release/shutdown-says-nothing", "G12", "a node that shuts down leaves its sessions to expire",
			in(caller+"/caller.go", "			if err := x.close(ctx, ErrClosed); err != nil {\n", "			if err := ctx.Err(); err != nil {\n"),
			by(whole, "TestShutdownFreesAtOnce|TestShutdown_TellsTheCellFirst")},
	}
}

// retryMutants: a change is made once, however often it is sent.
func retryMutants() []Mutant {
	return []Mutant{
		{"retry/under-a-new-number", "G7", "a change whose reply was lost is repeated under a new number, and is made twice",
			in(caller+"/submit.go", "			r.attempts++\n", `			r.attempts++
			if put, ok := r.cmd.(fsm.Put); ok && r.attempts > 1 {
				put.Seq += 1 << 32
				r.cmd = put
			}
`), by(whole, "TestG7_LeaderKilledBeforeItsReply")},
		{"retry/session-under-a-new-nonce", "G7 G12", "a creation whose reply was lost is repeated under a new random number, and leaves a session behind",
			in(caller+"/submit.go", "			r.attempts++\n", `			r.attempts++
			if open, ok := r.cmd.(fsm.OpenSession); ok && r.attempts > 1 {
				open.Nonce[0]++
				r.cmd = open
			}
`), by(directed, "TestG3_DirectedRetriedCreationCountsFromTheFirstAttempt")},
		{"retry/unknown-is-an-error", "G7", "a change of which nobody knows whether it was made is reported as not made",
			in(caller+"/submit.go", "	case maybe:\n		return &unknownError{cause}\n", ""), by(whole, "TestErrorsWithoutALeader|TestG7_IncrementsUnderFaults")},
		{"retry/lost-acknowledgements", "G7 G12", "acknowledgements of a change that was not answered are lost, and the cell keeps results for ever",
			in(caller+"/author.go", "	a.seen = append(a.seen, c.Acks...)\n", ""), by(caller, "TestG7_.*")},
		{"retry/acknowledged-unanswered", "G6 G7", "a Lock that was given up is acknowledged by its number, and its withdrawal finds nothing to free",
			in(caller+"/author.go", "	a.seen = append(a.seen, c.Acks...)\n", "	a.seen = append(a.seen, append(c.Acks, c.Seq)...)\n"),
			by(caller, "TestG7_AnUnansweredChangeIsNotAcknowledgedByItself")},
		{"retry/answer-from-the-future", "G7 G11", "a change is answered when it has been proposed, before it is committed",
			in(server+"/packer.go", "	p.start(entry, func(err error) {\n		p.finish(next, err)\n		landed()\n	})\n", "	p.finish(next, nil)\n	p.start(entry, func(error) { landed() })\n"),
			by(server, "TestChangesGatherWhileEntriesAreInFlight|TestG12_AnEndedPackerFailsEachChangeOnce")},
		{"retry/packer-forgets", "G12", "changes that are in flight when the node stops are never answered",
			in(server+"/packer.go", "		failAll(f.proposals, errClosing)\n", "		_ = f\n"), by(server, "TestG12_AnEndedPackerFailsEachChangeOnce")},
	}
}

// readMutants: reads see everything that was acknowledged before them.
func readMutants() []Mutant {
	const file = server + "/read.go"
	return []Mutant{
		{"read/not-applied", "G5", "a read does not wait until this server has applied what the leader had committed",
			in(file, "			err = s.raft.WaitApplied(ctx, index)\n", "			_ = index\n"), by(whole, "TestG5_ReadsAreFresh_LateFollower")},
		{"read/own-state", "G5", "a follower answers from its own state",
			in(file, "			index, err = s.rounds.join(ctx, s)\n", "			index, err = 0, nil\n"), by(whole, "TestG5_ReadsAreFresh_LateFollower")},
		{"read/question-under-way", "G5", "a read is content with the answer to a question that was asked before it",
			in(file, "		done()\n", "		done()\n		r.mu.Lock()\n		waiting = append(waiting, r.waiting...)\n		r.waiting = nil\n		r.mu.Unlock()\n"),
			by(whole, "TestG5_ReadsAreFresh_QuestionUnderWay")},
		{"read/no-evidence", "G5", "a leader that is cut off answers reads",
			in(raftnode+"/evidence.go", "	if err := n.WaitEvidence(ctx, term, stamp, true); err != nil {\n		return 0, err\n	}\n", "	_ = stamp\n"),
			by(whole, "TestG5_ReadsAreFresh_IsolatedLeader")},
		{"read/index-after-evidence", "G5", "the leader vouches for its state at a moment before the read",
			in(raftnode+"/evidence.go", "	stamp := n.Stamp()\n	index", "	stamp := n.Stamp() - min(n.Stamp(), 20)\n	index"),
			by(whole, "TestG5_ReadsAreFresh_IsolatedLeader")},
	}
}

// leaderMutants: what the leader of a term does.
func leaderMutants() []Mutant {
	return []Mutant{
		{"leader/acknowledges-without-evidence", "G3", "a leader acknowledges renewals without proof that it still leads",
			in(server+"/proof.go", "	stamp := s.raft.Stamp()\n", "	stamp := uint64(0)\n"), by(directed, "TestG3_DirectedDeposedLeaderAcknowledges")},
		{"leader/stamp-before-receipt", "G3", "the proof that the leader waits for is of a moment before the renewal came",
			in(server+"/proof.go", "	stamp := s.raft.Stamp()\n", "	stamp := s.raft.Stamp() - min(s.raft.Stamp(), 20)\n"), by(directed, "TestG3_DirectedDeposedLeaderAcknowledges")},
		{"leader/reaping-not-resumed", "G6", "a leader that leads again does not go on handing on what ended sessions held",
			in(server+"/leader.go", "	s.poke()\n	if !s.Go", "	if !s.Go"), by(server, "TestG6_ATermGoesOnReaping")},
		{"leader/reaping-never", "G6", "what an ended session held beyond the first 1,000 things is never handed on",
			in(server+"/leader.go", "			s.reap(ctx)\n", ""), by(whole, "TestG6_TheNextLeaderHandsOnWhatIsLeft")},
		{"leader/members-not-learnt", "G8", "a server does not learn the addresses of those that its cell knows, and does not find them when they come back",
			in(server+"/members.go", "		s.gossip.Learn(known)\n", "		_ = known\n"), by(directed, "TestG8_DirectedAMemberThatWasNeverMetIsFound")},
		{"leader/members-not-saved", "G8", "the addresses of the servers are not kept on the disk, from where a restart finds its way back",
			in(server+"/members.go", "		if err := s.store.SavePeers(kept); err != nil {\n", "		if err := s.stop.Err(); err != nil && kept != nil {\n"), by(whole, "TestForming_JoinIsOutdated")},
		{"leader/no-generation", "G2", "a new cell does not begin above the tokens of an earlier one, nor with its limits",
			in(server+"/form.go", "	if !formed {\n", "	if formed {\n"), by(directed, "TestG2_DirectedANewCellLiftsItsTokens")},
	}
}
