// Package expiry is the leader's side of time: it decides when a session has not been renewed for one TTL, and has its
// end written to the log. Leases of locks are sessions to it, and so are delays and the time that a holder has to confirm
// a stop, which nobody renews.
//
// A Table knows the deadline of every session, in memory alone, on the leader's lease clock. Nothing of it survives a
// change of leader: each term starts anew, with a full TTL for every session from the moment its first entry was
// applied. Renewals write nothing.
//
// Three rules keep a session that is renewed in time from being ended, and two holders from meeting:
//
//   - A session is marked BEFORE its end is proposed, and a marked session is never acknowledged again in this term. The
//     proposal is repeated until it is applied or the term is over. The entry carries the term, and the state machine
//     ignores it if it was written in another, so what an old leader decided cannot touch what a new one acknowledged.
//   - Nobody is marked without fresh evidence that this server still leads. A leader without a quorum expires nobody: it
//     could neither have its decision written nor have acknowledged the renewals.
//   - A pause of the process counts for nobody. Whoever looks at the clock and finds that nobody has looked for too long
//     knows that the process stood still, and that renewals may be waiting unread in its sockets.
package expiry
