// Package caller is the caller's half of a node: the sessions of this process, what they hold, and the changes that
// they make, whatever kind of node it is.
//
//	calls of the program ──► Session, own session      numbers changes (author), keeps leases alive (lease.Renewer)
//	                              │
//	                           submit                  sends a change again and again until it is answered
//	                              │
//	                            Cell                   one attempt, to whoever leads now
//
// It knows nothing of how the cell is reached: Cell says who leads and carries one attempt, one renewal or one question
// (refresh.go, marks.go) there. A server does that with its own raft, a client node through the server that it is attached
// to. Both have a Life, which begins and ends in the same way (life.go).
//
// # Who owns what
//
// Whatever a Caller does in the background runs in Config.Go, whose owner waits for it, or in Run. When Config.Stop ends,
// everybody who waits is let go.
package caller
