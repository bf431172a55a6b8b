// Package client makes a node that keeps no replica: it is attached to one server of the cell at a time, and makes its
// calls through it.
//
//	calls of the program ──► caller ──► Client ──► the server that it is attached to ──► the leader
//
// # Attaching
//
// A Client knows servers from Config.Join and from what servers tell it of each other. It attaches to one of them at
// random, of its own zone if there are any, that knows a leader, and keeps a request waiting there that is answered when
// there is news of the cell. It moves when the connection breaks, when the server has known no leader for two election
// timeouts while another one does, and when renewals through it have failed for that long. (attach.go, search.go)
//
// # What moves with it
//
// Nothing of a session is kept by the server. A change that was under way is asked again elsewhere, under its number; a
// Lock that waits so finds its place in the queue again. A lease counts from the client's own sends, and ends at its
// deadline whether or not the client has found a server by then.
//
// # Who owns what
//
// Client.Go starts a goroutine that Close waits for. Client.stop ends when the node begins to stop.
package client
