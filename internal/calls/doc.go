// Package calls carries requests and their answers between servers, and from clients to servers.
//
// An Exchange has at most one connection to each peer that it calls, and accepts those on which the peers call it, so
// that what one side asks never waits behind what the other asks. Any number of requests are under way on a connection
// at once; they are answered in any order, at once or hours later, with one reply or many. Neither side spends a
// goroutine on a request, whatever waits: a connection has one that reads, and while there is something to write one
// that writes.
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
// nobody knows what became of it. Everything else is the peer's answer; ErrBusy is also that of a server that has no
// room for another client.
//
// # Clients
//
// A server has a few peers that are servers, and tens of thousands that are clients (Config.IsClient). A client
// (Config.Client) asks, at its pace, and is not asked. While it has nothing to do it costs the server one parked
// goroutine and 2 to 3 KiB beside it.
//
// Servers look after each other: each pings when it has heard nothing for a quarter of the Timeout. Between a client
// and a server that would be most of the work. There each pings in quarters of the ClientTimeout, so that a client that
// renews a session is never pinged; but a client that has asked and has heard nothing since, or has a Call under way,
// goes by the Timeout. So what a client asks finds out at once whether its server can be reached, and ends the streams
// that were under way with it if not.
//
// # Bounds
//
// Requests under way and bytes queued are bounded for each connection; callers wait where they are reached. Replies
// cannot wait, for whoever gives them must not block: a peer that does not read them loses its connection, either
// because too much has gathered or because nothing could be written for too long. A peer that sends what cannot be
// read, or nothing at all, loses its connection too. A frame gets memory for what has arrived of it, not for what it
// claims. No peer can disturb another one's.
//
// Clients are bounded in number (MaxClients); one too many is told so. What they make a server hold, all together, is
// bounded as well (MaxHeld); above that the client that holds the most loses its connection, and those that hold little
// do not notice.
package calls
