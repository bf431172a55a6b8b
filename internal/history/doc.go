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
// moment from its start on, or never.
package history
