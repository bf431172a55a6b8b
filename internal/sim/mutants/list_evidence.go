package main

const raftnode = "internal/raftnode"

// evidenceMutants: what is taken for proof that nobody else leads.
func evidenceMutants() []Mutant {
	const file = raftnode + "/evidence.go"
	return []Mutant{
		{"evidence/verify-leader", "G3 G5", "VerifyLeader is taken for proof, though it counts answers to requests from before the call",
			in(file, `	r, err := n.evidence.join(term, stamp)
`, `	if err := n.raft.Load().VerifyLeader().Error(); err != nil {
		return n.notActive(term)
	}
	r, err := n.evidence.join(term, 0)
`), by(raftnode, "TestG3G5_AnswersToOldRequestsAreNoEvidence")},
		{"evidence/state-is-leader", "G3 G5", "raft's state is taken for proof: a leader that is cut off acknowledges and answers reads",
			in(file, "	if need <= e.confirmed.n {", "	if need > 0 {"),
			[]Run{{raftnode, "TestG3G5_AnswersToOldRequestsAreNoEvidence"}, {directed, "TestG3_DirectedDeposedLeaderAcknowledges"}}},
		{"evidence/nonvoters-count", "G3 G5", "answers of servers without a vote are counted: they may not know of an election",
			in(file, "		case s.Suffrage != raft.Voter:\n", ""),
			by(raftnode, "TestG3G5_AnswersOfNonvotersAreNoEvidence|TestG3G5_WhatIsEvidence")},
		{"evidence/self-always-counts", "G3 G5", "a leader that has no vote any more counts itself",
			[]Edit{
				{file, "	answers := buf[:0]\n", "	answers := append(buf[:0], stamp{n: math.MaxUint64, sent: e.clock()})\n"},
				{file, "			answers = append(answers, stamp{n: math.MaxUint64, sent: e.clock()})\n", ""},
			}, by(raftnode, "TestG3G5_WhatIsEvidence")},
		{"evidence/half-is-enough", "G3 G5", "half of the voters count as a majority",
			in(file, "len(answers)/2 + 1", "max(1, len(answers)/2)"), by(raftnode, "TestG3G5_WhatIsEvidence")},
		{"evidence/old-term-answers", "G3 G5", "answers to requests of an earlier term are counted",
			in(file, "	return term == e.term\n", "	return true\n"), by(raftnode, "TestG3G5_WhatIsEvidence")},
		{"evidence/own-vote-after-stepping-down", "G3 G5", "a server that has stepped down, and may have voted in a later term, counts itself",
			in(file, "	if n.ActiveTerm() != term { //", "	if n.ActiveTerm() == term+1 { //"),
			by(raftnode, "TestG3G5_TheOwnVoteCountsOnlyWhileLeading")},
		{"evidence/age-by-the-wrong-clock", "G9", "the age of evidence stands still while the machine sleeps: what is hours old passes for fresh",
			in(file, "	return e.clock() - e.confirmed.sent\n", "	return min(e.clock()-e.confirmed.sent, time.Since(e.peers[\"b\"].heard))\n"),
			by(raftnode, "TestG9_EvidenceAgesWhileTheMachineSleeps")},
	}
}

// answerMutants: which answers on the wire make evidence.
func answerMutants() []Mutant {
	const file = raftnode + "/transport.go"
	return []Mutant{
		{"evidence/stamped-at-receipt", "G3 G5", "an AppendEntries is stamped when its answer comes, and proves something about the time after it was answered",
			in(file, "	t.answered(id, req, resp, sent)\n", "	sent = t.evidence.next()\n	t.answered(id, req, resp, sent)\n"),
			by(raftnode, "TestG3G5_AnswersToOldRequestsAreNoEvidence")},
		{"evidence/pipeline-stamped-at-receipt", "G3 G5", "the same for those that travel in a pipeline",
			in(file, "			sent := p.take(f.Request())\n", "			p.take(f.Request())\n			sent := p.t.evidence.next()\n"),
			by(raftnode, "TestG3G5_APipelinedAppendIsStampedBeforeItLeaves")},
		{"evidence/failed-pipelined-append", "G3 G5", "a pipelined AppendEntries that failed counts as answered",
			in(file, `			if f.Error() != nil {
				_ = p.inner.Close()
				return
			}
`, ""), by(raftnode, "TestG3G5_AFailedPipelinedAppendIsNoEvidence")},
		{"evidence/zero-answers", "G3 G5", "an answer without a term, or of an earlier one, counts",
			in(file, "	if resp.Term != req.Term {\n", "	if resp.Term > req.Term {\n"),
			by(raftnode, "TestG3G5_WhatIsEvidence")},
		{"evidence/later-term-answers", "G3 G5", "an answer that shows a later term counts: its sender may have elected somebody else",
			in(file, "	if resp.Term != req.Term {\n", "	if resp.Term < req.Term {\n"),
			by(raftnode, "TestG3G5_WhatIsEvidence|TestG3_ALeaderThatMayNotActStepsDown")},
		{"evidence/installed-snapshot", "G3 G5", "the answer to a snapshot counts, though it was sent long before",
			in(file, "		t.evidence.matched(id, req.Term, req.LastLogIndex)\n", "		t.evidence.answered(id, req.Term, t.evidence.next(), req.LastLogIndex)\n"),
			by(raftnode, "TestG3G5_AnInstalledSnapshotIsNoEvidence")},
	}
}

// termMutants: when a leader may act.
func termMutants() []Mutant {
	const file = raftnode + "/term.go"
	return []Mutant{
		{"term/acts-before-its-start", "G3 G5 G8", "a leader acknowledges, expires and reads as soon as it is elected, before it has applied what earlier leaders committed",
			in(file, "	data := n.cfg.TermStart(n.start.nonce)\n	n.termMu.Unlock()\n",
				"	data := n.cfg.TermStart(n.start.nonce)\n	nonce := n.start.nonce\n	n.termMu.Unlock()\n	n.termStarted(nonce, term)\n"),
			by(raftnode, "TestG3G5_NothingBeforeTheTermStartIsApplied")},
		{"term/reads-before-its-start", "G5", "a new leader gives its commit index to readers before it knows what has been committed",
			in(raftnode+"/evidence.go", "	term := n.ActiveTerm()\n	if term == 0 {\n		return 0, n.notActive(0)\n	}\n	stamp := n.Stamp()\n",
				"	term := n.ActiveTerm()\n	if r := n.raft.Load(); term == 0 && n.leading(r.CurrentTerm()) {\n		return r.CommitIndex(), r.VerifyLeader().Error()\n	}\n	if term == 0 {\n		return 0, n.notActive(0)\n	}\n	stamp := n.Stamp()\n"),
			by(raftnode, "TestG3G5_NothingBeforeTheTermStartIsApplied")},
		{"term/edge-not-level", "G3 G8", "a term begins when LeaderCh says so: it drops one of two elections in a row, and the leader never acts",
			in(file, "		n.refresh()\n		select {\n		case <-n.raft.Load().LeaderCh():\n",
				"		select {\n		case <-n.raft.Load().LeaderCh():\n			n.refresh()\n"),
			by(raftnode, "TestG3_TermStartIsALevel")},
		{"term/proposed-once", "G8", "TermStart is proposed once: a leader whose disk was slow just then never acts",
			in(file, "	for n.leading(term) && n.active.Load() != term {\n		err", "	if n.leading(term) && n.active.Load() != term {\n		err"),
			by(raftnode, "TestG8_TheTermStartIsProposedUntilItIsApplied")},
		{"term/any-nonce", "G3", "the TermStart of another server starts this one's term",
			in(file, " || nonce != n.start.nonce", ""), by(raftnode, "TestG3_WhichTermStartCounts")},
		{"term/any-entry-term", "G3", "a TermStart that was delayed into another term starts it",
			in(file, " || term != n.start.term", ""), by(raftnode, "TestG3_WhichTermStartCounts")},
		{"term/copy-counts-again", "G3 G8", "a copy of the TermStart gives everybody another TTL, or revives a term that is over",
			in(file, "n.start.active || ", ""), by(raftnode, "TestG3_WhichTermStartCounts")},
		{"term/later-term-not-seen", "G3", "a leader that has seen a later term on the wire goes on acting until raft has noticed",
			in(file, " && n.evidence.seen.Load() <= term", ""), by(raftnode, "TestG3_ALeaderThatMayNotActStepsDown")},
		{"term/stays-without-acting", "G8", "a leader that may not act any more does not step down: nobody acts",
			in(file, "		n.inbound.resign(term) // raft's", "		// raft's"), by(raftnode, "TestG3_ALeaderThatMayNotActStepsDown")},
		{"term/active-while-it-begins", "G3", "a term is active before every session has got its TTL",
			[]Edit{
				{file, "	if n.cfg.Activated != nil {\n", "	n.evidence.open(term)\n	n.active.Store(term)\n	if n.cfg.Activated != nil {\n"},
				{file, "		n.cfg.Activated(term)\n	}\n	n.evidence.open(term)\n	n.active.Store(term)\n", "		n.cfg.Activated(term)\n	}\n"},
			}, by(raftnode, "TestG3_ActivatedComesFirst")},
	}
}
