package main

// inboundMutants: what a server answers, and what it tells raft.
func inboundMutants() []Mutant {
	const file = raftnode + "/inbound.go"
	return []Mutant{
		{"raft/heartbeat-fast-path", "G1 G3", "raft's heartbeat handler changes the term beside its main loop: the term goes back, and two leaders share one",
			in(raftnode+"/transport.go", "SetHeartbeatHandler(func(raft.RPC)) {}", "SetHeartbeatHandler(f func(raft.RPC)) { t.inner.SetHeartbeatHandler(f) }"),
			by(raftnode, "TestOnlyRaftsMainLoopChangesTheTerm")},
		{"raft/no-commit-clamp", "G1 G10", "a follower that could not truncate its log commits what nobody agreed to",
			in(raftnode+"/transport.go", "	req = clampCommit(req)\n", ""),
			by(raftnode, "TestG10_CommitIsClampedToWhatWasCompared")},
		{"raft/votes-by-address", "G1", "a candidate that comes up at the address of an earlier one gets the vote that was given to that one",
			in(raftnode+"/check.go", "	if len(header.ID) == 0 || string(header.ID) != string(header.Addr) {\n", "	if len(header.ID) == 0 {\n"),
			by(raftnode, "TestAddressesAreNodeIDs")},
		{"raft/peers-by-address", "G1", "raft's messages name servers by their addresses",
			in(raftnode+"/transport.go", "EncodePeer(id raft.ServerID, _ raft.ServerAddress) []byte { return []byte(id) }",
				"EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte { return []byte(a) }"),
			by(raftnode, "TestAddressesAreNodeIDs")},
		{"raft/heartbeat-of-any-term", "G3", "a heartbeat of another term is answered, and counts as evidence",
			in(file, "	if r.CurrentTerm() != req.Term {\n", "	if req.Term == 0 {\n"), by(raftnode, "TestWhichHeartbeatsAreAnswered")},
		{"raft/heartbeat-of-anybody", "G3", "a heartbeat is answered whoever sent it",
			in(file, "len(req.ID) == 0 || string(leader) != string(req.ID) || string(addr) != string(req.Addr) || leader == in.id", "addr == \"\" || leader == in.id"),
			by(raftnode, "TestWhichHeartbeatsAreAnswered")},
		{"raft/busy-follower-is-silent", "G8", "a follower that installs a snapshot or waits for its disk answers no heartbeat, and deposes the leader",
			in(file, "	if !ok || !isHeartbeat(req) {\n", "	if !ok || req.Term > 0 {\n"), by(raftnode, "TestABusyFollowerDoesNotDeposeTheLeader")},
		{"raft/heartbeats-kept-from-raft", "G8", "raft does not see the heartbeats that were answered for it, and stands for election",
			in(file, "		in.heartbeat = raft.RPC{Command: &late}\n", "		_ = late\n"), by(raftnode, "TestAnsweredHeartbeatsRefreshTheFollower")},
		{"raft/timeout-now-of-anybody", "G8", "whoever asks a server to stand for election is obeyed, and deposes the leader",
			in(file, "		if !ok || in.mayDepose(req) {\n", "		if !ok || req != nil {\n"), by(raftnode, "TestTimeoutNowIsObeyedFromTheLeaderOnly")},
		{"raft/malformed-requests", "G12", "what raft panics about is let through, and ends the host program",
			in(file, "	if err := checkRequest(rpc.Command); err != nil {\n", "	if err := checkRequest(rpc.Command); err != nil && rpc.Command == nil {\n"),
			by(raftnode, "TestG12_MalformedRequestsAreRefused")},
		{"raft/endless-snapshots", "G10", "a server that is sent the same snapshot for ever goes on, and never catches up",
			in(raftnode+"/check.go", "l.refused >= maxInstalls {", "l.refused < 0 {"), by(raftnode, "TestASnapshotThatIsFollowedIsNoLoop")},
		{"raft/unbounded-queue", "G12", "requests that raft does not get to are collected without bound",
			in(file, "	if len(in.queue) >= maxQueued {\n", "	if len(in.queue) < 0 {\n"), by(raftnode, "TestG12_RequestsThatWaitAreBounded")},
	}
}

// switchMutants: a server that has failed is silent.
func switchMutants() []Mutant {
	return []Mutant{
		{"poison/answers-leave", "G11", "the answer to a write that failed leaves the server, and counts as a copy of the entry",
			in(raftnode+"/inbound.go", "	if in.sw.Err() != nil {\n		a = raft", "	if a.Error != nil {\n		a = raft"),
			by(raftnode, "TestG11_TheAnswerToAFailedWriteDoesNotLeave")},
		{"poison/heartbeats-are-answered", "G3 G11", "a follower that has failed answers heartbeats, and counts as evidence",
			in(raftnode+"/inbound.go", "	if in.sw.Err() != nil {\n		in.refuse", "	if rpc.Command == nil {\n		in.refuse"),
			by(raftnode, "TestG11_APoisonedFollowerAnswersNoHeartbeat")},
		{"poison/entries-leave", "G11", "a leader that has failed goes on sending entries",
			in(raftnode+"/transport.go", "	if err := t.sw.Err(); err != nil {\n		return nil, stamp{}, err\n	}\n", ""),
			by(raftnode, "TestG11_APoisonedNodeIsSilent")},
		{"poison/votes-leave", "G1 G11", "a server that has failed asks for votes",
			in(raftnode+"/transport.go", "	if err := t.sw.Err(); err != nil {\n		return err\n	}\n	return again(func() error { return t.inner.RequestVote(", "	return again(func() error { return t.inner.RequestVote("),
			by(raftnode, "TestG11_APoisonedNodeIsSilent")},
		{"poison/still-active", "G3 G11", "a leader that has failed goes on acknowledging",
			in(raftnode+"/term.go", "term == 0 || n.cfg.Switch.Err() != nil || !n.leading(term)", "term == 0 || !n.leading(term)"),
			by(raftnode, "TestG11_APoisonedNodeIsSilent")},
		{"poison/goes-on-applying", "G10 G11", "a server whose state machine broke applies what comes next",
			in(raftnode+"/machine.go", "	if m.n.cfg.Switch.Err() != nil {\n		return nil\n	}\n	started", "	started"),
			by(raftnode, "TestG12_ABrokenMachineStopsTheNode")},
		{"poison/panic-not-recovered", "G12", "a broken invariant of the state machine ends the host program",
			in(raftnode+"/machine.go", "	defer recovered(&err)\n	return m.n.cfg.Machine.Apply(", "	return m.n.cfg.Machine.Apply("),
			by(raftnode, "TestG12_ABrokenMachineStopsTheNode")},
		{"poison/calls-leave", "G11", "a server that has failed goes on answering calls of others",
			in("internal/calls/link.go", "	if err := l.x.cfg.Switch.Err(); err != nil {\n", "	if err := l.x.cfg.Switch.Err(); err != nil && l == nil {\n"),
			by("internal/calls", "TestG11_SwitchSilences")},
	}
}

// raftMutants: the other holes of raft that are mended.
func raftMutants() []Mutant {
	return []Mutant{
		{"raft/snapshot-close-swallowed", "G11", "a snapshot whose last write failed is taken for good, and the log behind it is removed",
			in(raftnode+"/machine.go", "	return sink.Close()\n", "	_ = sink.Close()\n	return nil\n"),
			by(raftnode, "TestG11_AFailedSnapshotDoesNotCompactTheLog")},
		{"raft/no-watchdog", "G8", "a leader whose disk hangs does not hand the leadership over, and stays leader for ever",
			in(raftnode+"/transfer.go", "	if r.State() != raft.Leader {\n		return\n	}\n	ctx, cancel", "	if r.State() > 0 {\n		return\n	}\n	ctx, cancel"),
			by(raftnode, "TestStallTriesTheNextVoter")},
		{"raft/stuck-transfer", "G8", "a transfer to a server that does not answer refuses every write for a long time",
			in(raftnode+"/transfer.go", "context.WithTimeout(ctx, 2*n.cfg.ElectionTimeout)", "context.WithTimeout(ctx, 60*n.cfg.ElectionTimeout)"),
			by(raftnode, "TestAStuckTransferIsGivenUp")},
		{"raft/old-configuration", "G1", "a change of the servers is made on a configuration that is no longer the latest",
			in(raftnode+"/membership.go", "	if prevIndex == 0 {\n", "	if prevIndex = 0; id == \"\" {\n"),
			by(raftnode, "TestConfigurationsAreComparedAndSet")},
		{"raft/futures-left-behind", "G12", "raft is shut down with calls under way, whose futures nobody answers",
			in(raftnode+"/node.go", "	n.drain(r)\n", ""), by(raftnode, "TestG12_ProposalsEndWithTheNode|TestAPoisonedLeaderStopsAtOnce|TestShutdownWithoutAQuorum")},
	}
}
