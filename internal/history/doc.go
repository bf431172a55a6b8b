// Package history is the record of what the clients of a cell did and what they saw, and the checks of it against the
// guarantees G1 to G12.
//
// A Recorder takes note of each call of the public API as it is made and as it returns, and of each batch that a watch
// delivers. Whole cells in virtual time (package sim) keep the record in memory; processes that are killed (package
// chaos) write it to a file line by line, and Read puts the files of all of them together. All times of one history
// come from one clock: that of the bubble, or the monotonic clock of the one machine.
//
// Verify goes through a history when the run is over. It knows nothing of servers, terms and entries: only what callers
// could see counts. A call that failed in a way that leaves its effect open is Unknown and may have taken effect at any
// moment from its start on, or never. What happens at the same time may have happened in either order.
//
// What is found is certain: no run of a cell that keeps its guarantees can look like that. What is not found may still be
// wrong; each check says what it cannot see. They are:
//
//	G1       Once a grant is known to anybody, nothing is accepted under an earlier one of the name.   exclusion.go
//	G2       What is called for after a token or revision was seen gets a higher one, whatever the
//	         name; none is given twice.                                                                tokens.go
//	G3       Once a grant is known to anybody, no Check under an earlier one is nil; nor after the
//	         return of the release.                                                                    exclusion.go
//	G4       A resource that has accepted a token accepts no lower one.                                tokens.go
//	G5       There is an order of the calls of each lock, election and key, each between its start
//	         and its return, that explains all answers. Found by porcupine.         linear.go, locks.go, keys.go
//	G6       Tokens rise in the order in which callers were seen to wait, and whoever calls after
//	         that is behind them.                                                                      queue.go
//	G7       A value that is written once is seen once, where its writer was told, and never if it was
//	         refused; no two writes follow the same revision of a key; nothing happens unasked.        changes.go
//	G8       A session that was seen to be over does nothing any more; none expires long before a TTL
//	         has passed.                                                                               expiry.go
//	G9       What a watcher was told, in order, from one revision to another, holds every change that
//	         anybody knows of; a snapshot is the state that those before it have left.                 watch.go
//	G12      Lost: calls that never returned.                                                          check.go
//
// Raft (raft.go) is for whoever sees more than clients do: it checks raft's own invariants as messages leave and entries
// are applied, which G10 and G11 rest on.
package history
