package main

// marksMutants: what is taken from its holder, and leases of locks as the leader times them.
func marksMutants() []Mutant {
	const marks, grants = caller + "/marks.go", server + "/grants.go"
	return []Mutant{
		{"marks/not-stopped", "G3", "a holder that is told of a mark does not stop, and the leader is told that it has",
			in(marks, "		found.stop()\n", "		_ = found.stop\n"), by(caller, "TestG3_AMarkStopsTheHolderBeforeTheLeaderIsTold")},
		{"marks/session-not-ended", "G3", "a session that is told of a mark goes on, and the leader is told that it has ended",
			in(marks, "			x.lease.End(ErrSessionExpired)\n", "			_ = x\n"), by(caller, "TestG3_AMarkedSessionEndsBeforeTheLeaderIsTold")},
		{"marks/forgotten", "G3", "a grant whose stop was confirmed before it arrived is handed out when it does",
			in(marks, "	m.marked[token] = struct{}{}\n", ""), by(caller, "TestG3_AMarkedGrantIsNotHandedOutLater")},
		{"marks/suspended-not-reviewed", "G3", "a session lives again with a grant that was revoked while it was suspended",
			in(marks, "x.lease.State() != lease.Suspended ||", "x.lease.State() != lease.Ended ||"), by(caller, "TestG3_RevokedWhileSuspended")},
		{"marks/late-grant-after-suspension", "G3", "a grant from the time that a suspended session has missed is handed out",
			in(marks, "	m.doubt = max(m.doubt, at)\n", ""), by(caller, "TestG3_RevokedWhileSuspended")},
		{"marks/not-carried", "G3", "acknowledgements do not carry marks: the holder goes on when its time to hear of them is over",
			in(server+"/keepalive.go", "				a.Marks, all = marksOf(state, id, a.Marks, marks)\n", "				_, all = marksOf(state, id, a.Marks, marks)\n"),
			by(whole, "TestG3_MarksOutliveLeaderChanges|TestG3_LockLeasesAndMarksUnderFaults")},
		{"marks/impatient", "G3", "what is marked is handed on before its holder is over",
			in(grants, "!yield(m, time.Duration(v.TTL))", "!yield(m, time.Duration(v.TTL)/8)"),
			by(whole, "TestG3_MarksOutliveLeaderChanges|TestG3_MarksOutliveARestart")},
		{"marks/forgotten-by-the-next-leader", "G8", "a new leader does not finish what was marked before its term",
			in(grants, "	t.marks.Start(term, patience(state, state.Marks()))\n", "	t.marks.Start(term, func(func(fsm.Mark, time.Duration) bool) {})\n"),
			by(whole, "TestG3_MarksOutliveLeaderChanges")},
		{"marks/confirmation-ignored", "G8", "a confirmed stop hastens nothing",
			in(grants, "		s.timed.marks.Hasten(mark)\n", "		_ = mark\n"), by(whole, "TestG3_RevokedAtAClientNode")},
		{"marks/hastened-without-evidence", "G8", "what is hastened is proposed by a leader without a majority",
			in(expiry+"/expire.go", "	if err := t.cfg.Evidence(ctx, term); err != nil {\n", "	if err := ctx.Err(); err != nil {\n"), by(expiry, "TestHasten")},
		{"refresh/without-evidence", "G3", "a leader acknowledges a refresh without proof that it still leads",
			in(server+"/proof.go", "	stamp := s.raft.Stamp()\n", "	stamp := uint64(0)\n"), by(directed, "TestG3_DirectedDeposedLeaderAcknowledgesARefresh")},
		{"refresh/counts-from-the-first", "G3 G8", "a refresh counts from another message than the one that was acknowledged",
			in(caller+"/refresh.go", "	case a.Number != m.Number: // an answer to another message says nothing of this one\n", "	case a.Number > m.Number:\n"),
			by(caller, "TestG3_ARefreshCountsFromItsSend")},
		{"delay/not-begun-anew", "G8", "a new leader never ends the delays of an earlier one",
			in(grants, "			if !yield(fsm.GrantID{Name: d.Name, Token: d.Token}, time.Duration(d.Delay)) {\n", "			if d.Delay > 0 {\n"),
			by(whole, "TestLockDelayBeginsAnewWithTheLeader")},
		{"format/old-server-ignored", "G10", "commands are proposed that a server of the cell cannot read",
			in(server+"/format.go", "	if needs <= has {\n", "	if needs <= has || s.formats.get() != \"\" {\n"), by(server, "TestFormat_NothingNewForAnOldServer")},
		{"leader/acknowledges-between-terms", "G3", "a leader acknowledges before the first entry of its term is applied: a suspended session lives again that the log has ended",
			in(server+"/leader.go", "	s.expiry.Stop()\n", ""), by(server, "TestG3_GraceNotRevivedBeforeTheTerm")},
	}
}
