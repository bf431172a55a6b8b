// Package sim runs whole cells under faults in virtual time, and checks everything that their clients see against the
// guarantees G1 to G12. All of it is in tests: go test ./internal/sim runs a few seeds,
//
//	go test ./internal/sim -run TestSeeds -seeds 1-2000 -timeout 0
//
// as many as one likes. A run is a cell of three to five servers in a testing/synctest bubble: the real node with
// raft, the state machine, gossip, sessions, locks, elections, keys and watches through the public API, on a network
// and on disks in memory. A seed makes the schedule: which faults strike whom, when, for how long, and what the clients
// (package load) do meanwhile.
//
// # Faults
//
// Of the network: cuts, one-way cuts, isolation, partitions, delays up to several leases in one or both directions,
// slow replies to the leader alone, losses, duplicated packets, packets that overtake each other, replies that are
// lost after the request was carried out, a leader that reaches the non-voter but no voter. Of processes: death at any
// moment, of one or of all at once; death right before, during or after any call of the store, with or without what
// had not been synced; pauses; graceful stops; lease clocks whose rates differ by up to 0.1 %. Of disks: full, failing
// syncs, calls that hang, flipped bits, loss. Of the cell: leadership handed over again and again, members replaced,
// logs compacted all the time.
//
// # Checks
//
// While the cell runs: no session ends in any server's state machine while its client may still act, raft's invariants
// hold in what is sent and applied, no server stops but for what was done to its disk, no call outlasts its context,
// the servers' own comparison of states every few entries. When the last fault is over: the servers get ready, the
// watchers see all that was acknowledged, every lock can be had, nothing is left of ended sessions, all states are
// equal. Then the record of all calls and watches is checked (package history), and leaving the bubble shows that no
// goroutine is left.
//
// # Repeating a run
//
// A run that fails prints the command that runs its seed again. The schedule is the same then, but goroutines within
// one virtual instant are scheduled by the runtime, in no fixed order; so a fault may not show again at once. The
// record of the failed run, with -keep, is what it did exactly.
package sim
