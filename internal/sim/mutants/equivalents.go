package main

// What follows was tried, and is not in the list, because nobody can tell it from the code as it is.
//
//   - server: a renewal is acknowledged without another look at the mark when the evidence has come. A session that was
//     renewed at R is marked at R + TTL at the earliest, and a leader that waits for evidence for an election timeout,
//     of which a TTL is four at least, is none any more. (With a grace period that lasts beyond the TTL it would be
//     another matter.)
//   - server: the term is not compared again before a renewal is acknowledged. The evidence is what makes the
//     acknowledgement true, whatever has happened since.
//   - server: the expiry table is not stopped when the term ends. Its rounds wait for evidence, which there is none of
//     after the term, and renewals ask for the term first. It costs a goroutine until the next term.
//   - raftnode: what was answered in an earlier term is kept when a term begins. Stamps only rise, and whoever waits has
//     taken its own in the new term. (What a server's log is known to hold is kept along, which misleads transfers and
//     promotions for one round trip.)
//   - raftnode: the response that raft passes in is not cleared before it is filled. An answer that came without error
//     has set its term.
//   - server: watchers are not woken when a snapshot replaces the state. They look again within half a second anyway.
//   - lease: the clock is read before the deadline is loaded. What a pause between the two lets through was true when
//     the clock was read, and no test can place a pause there.
//   - fsm: reading a clock, or a random number. Its own test reads the sources as they are in the tree, where a mutant
//     is not.
