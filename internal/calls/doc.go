// Package calls carries requests and their answers between servers.
//
// An Exchange has at most one connection to each peer that it calls, and accepts those on which the peers call it, so
// that what one side asks never waits behind what the other asks. Any number of requests are under way on a connection
// at once; they are answered in any order, at once or hours later, with one reply or many. Neither side spends a
// goroutine on a request: a connection has one that reads and one that writes, whatever waits on it.
//
// Every payload that is handed out has memory of its own: a request that waits for hours keeps nothing else alive.
//
// The reader calls the Handler, and the callbacks of Stream. They must not block: everything else on that connection
// would wait, and if they block for long the peer takes this node for dead.
//
// The writer sends what has gathered while it was writing, so that under load many messages share a frame and a system
// call. Renewals overtake the rest.
//
// # Outcomes
//
// ErrNotSent says that the request never left and can be repeated elsewhere. ErrNoReply says that it may have left and
// nobody knows what became of it. Everything else is the peer's answer.
//
// # Bounds
//
// Requests under way and bytes queued are bounded for each connection; callers wait where they are reached. Replies
// cannot wait, for whoever gives them must not block: a peer that does not read them loses its connection, either
// because too much has gathered or because nothing could be written for too long. A peer that sends what cannot be
// read, or nothing at all, loses its connection too. No peer can disturb another one's.
package calls
