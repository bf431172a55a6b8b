// Package hub serves watches and observers from one server's copy of the state.
//
// A Watcher is a cursor into the history that the state machine keeps, not a buffer: it holds a revision and a filter,
// and reads on when something has been applied. A slow one delays nobody; one that falls behind the history is told so
// (ErrCompacted) or begins again from a marked snapshot. Because the cursor is a revision and every server has the same
// history, it means the same on every server, and after a snapshot has replaced the state under it: it then waits until
// the state has passed it.
//
// A server that is cut off keeps its old state, which a watcher cannot tell from a quiet cell. So each Watcher also
// looks at the age of the server's last proof of a leader (Config.Fresh), and ends with ErrStale when that is too old.
//
// An Observer follows one lock: it says the present holder and then each change, leaving out what was overtaken before
// it was read.
package hub
