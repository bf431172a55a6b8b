// Package raftnode drives hashicorp/raft v1.7.3, and is the only package that does. It adds what raft leaves open: proof
// that a leader still leads, a term that begins when its first entry has been applied, and a node that falls silent when
// it is broken.
//
// # Who runs where
//
//	raft main loop     elections, the log, RPCs; one goroutine of raft's
//	raft FSM           machine.Apply, StoreConfiguration, Snapshot, Restore, and Config.Activated; one goroutine of raft's
//	raft replication   two goroutines a peer (entries, heartbeats), which call transport; one more a pipeline
//	inbound.run        takes RPCs from the network, hands them to the main loop one at a time, brings the answers back
//	watch              begins and ends terms, announces changes of the leader
//	verify             asks raft for a round of heartbeats when somebody waits for evidence
//	guard              shuts the node down when the switch is thrown
//	startTerm          one in each term that this node leads, until its TermStart is applied
//	await              one for each call of raft's that is under way
//
// Shutdown waits for all of them.
//
// # A proposal
//
//	Propose ──► raft.Apply ──► main loop: gathers what waits, one write of the log ──► replication ──► transport: stamp,
//	clamp ──► network ──► inbound: check ──► follower's main loop: one write ──► inbound ──► transport: evidence, progress
//	──► commit ──► FSM goroutine: machine.Apply ──► Config.Machine ──► the future, and Propose returns
//
// The machine tells callers what became of their commands. What Propose returns says only whether it pays to wait:
// ErrNotProposed never can be applied, ErrUnknown may be, also later and under another leader.
//
// # Evidence
//
// A leader that was paused, or cut off, may not know that it has been replaced. What it hands out must not rest on a
// clock, so before it answers it wants proof that nobody else had been elected when the question came.
//
// Every AppendEntries, heartbeat or not, is stamped from one counter before it is handed to the network. The answer
// to one counts if the RPC returned no error and the answer's term is the request's. For each voter the newest stamp
// answered is kept; the quorum-th largest, with this node's own as "now" if it has a vote, is confirmed. A caller takes
// R from the same counter (Stamp) and waits until R is confirmed (WaitEvidence).
//
// Why this is proof, for term T. Each voter of the quorum took in a request of T after R was taken, and had term T
// then. A server raises its term before it grants a vote in it, and never lowers it. So none of them had voted in a
// later term when R was taken. A leader of a later term needs the votes of a majority; that majority and our quorum
// share a server, also when their configurations are neighbours, which differ by one server. So no later leader had been
// elected at R, and nothing that we have not got had been committed by one.
// Our own vote counts because WaitEvidence looks, after R was taken, that raft still leads T: it had not voted either.
// It does not matter whether the follower agreed to the entries: its term is what counts. InstallSnapshot, votes and
// raft's LastContact are not counted. VerifyLeader is not proof either, since it takes in answers to requests from
// before the call, and of servers without a vote: it is used as a trigger, one at a time.
//
// That inbound answers some heartbeats itself does not weaken this: see answerHeartbeat.
//
// # Terms
//
// Being raft's leader is no permission. In each term that it leads, a node proposes a TermStart with a nonce, and acts
// once its own machine has applied it: with that nonce, in that very term. Everything committed before it is then
// applied as well. ActiveTerm is a level, looked up each time, and ends as soon as raft has stepped down or any answer on
// the wire shows a later term, even if raft's main loop hangs. Activated and Deactivated alternate.
//
// # The switch
//
// Once failstop.Switch is thrown, no RPC and no answer leaves the node, nothing is applied, nobody gets evidence, and
// raft is shut down. A store throws it before the call that failed returns, and tells raft that all is well, because
// raft would panic or get stuck: what raft concludes from that stays inside.
//
// # What raft leaves open
//
// Each hole of raft v1.7.3, what mends it here, and the test that fails without.
//
//   - VerifyLeader counts old answers and those of non-voters. Quorum evidence. TestG3G5_AnswersToOldRequestsAreNoEvidence,
//     TestG3G5_AnswersOfNonvotersAreNoEvidence, TestG3G5_WhatIsEvidence, TestG3G5_EvidenceUnderFaults.
//   - A pipelined AppendEntries that failed is delivered with a zero answer, and refreshes the leader's lease. It is
//     kept from raft, and the pipeline closed. TestG3G5_AFailedPipelinedAppendIsNoEvidence.
//   - The heartbeat handler changes the term beside the main loop. It is never installed.
//     TestOnlyRaftsMainLoopChangesTheTerm.
//   - Without it a follower that installs a snapshot, or waits for its disk, deposes the leader. inbound answers the known
//     leader's heartbeats; all timeouts are the election timeout. TestABusyFollowerDoesNotDeposeTheLeader,
//     TestWhichHeartbeatsAreAnswered, TestAnsweredHeartbeatsRefreshTheFollower.
//   - A follower commits up to its own last index, compared or not. clampCommit on the sender's side.
//     TestG10_CommitIsClampedToWhatWasCompared.
//   - A former leader's replication can send a mixture of its own and the next leader's log. checkEntries, at the receiver.
//     TestG10_AFormerLeaderMixesNoLogs.
//   - Votes and leaders go by address. An address is a node id here. TestAddressesAreNodeIDs.
//   - TimeoutNow is obeyed from anybody, in any state. inbound.mayDepose. TestTimeoutNowIsObeyedFromTheLeaderOnly,
//     TestWhoMayStand, TestWhoDoesNotStand.
//   - LeaderCh and observations lose events. Terms are levels. TestG3_TermStartIsALevel, TestG3_WhichTermStartCounts,
//     TestG3_LeadershipFlaps.
//   - A failed store is worse than none. The switch. TestG11_APoisonedNodeIsSilent,
//     TestG11_APoisonedFollowerAnswersNoHeartbeat, TestG11_TheAnswerToAFailedWriteDoesNotLeave,
//     TestG12_ABrokenMachineStopsTheNode.
//   - A store that hangs leaves its node leader for ever. Stall. TestAHungStoreHandsTheLeadershipOver.
//   - Futures hang after Shutdown. They are counted and brought to an end before: on their own, or by a step-down that
//     inbound.resign makes raft's main loop do. TestG12_ProposalsEndWithTheNode, TestAPoisonedLeaderStopsAtOnce.
//   - Malformed entries and configurations from a peer panic. checkRequest. TestG12_MalformedRequestsAreRefused.
//   - InstallSnapshot can repeat for ever. snapshotLoop stops the node; a log store that is monotonic is cured by a restart.
//     TestASnapshotLoopStopsTheNode.
//   - A snapshot whose Close failed is taken for good. snapshot.Persist. TestG11_AFailedSnapshotDoesNotCompactTheLog.
//   - The index of a configuration is always 0, which switches compare-and-set off; an FSM is not told its configuration
//     when it is restored. machine.StoreConfiguration and the header of our snapshots.
//     TestConfigurationsAreComparedAndSet, TestConfigurationAfterARestart.
//   - A leadership transfer can get stuck and refuse all writes. Transfer does without it, within two election timeouts.
//     TestAStuckTransferIsGivenUp.
//   - The network transport leaves connections open. streams. TestG12_OverStreams.
//   - A vote is written in two steps: the store's to mend. User Restore and RestoreCommittedLogs are never used.
package raftnode
