// Package hub serves watches and observers from one server's copy of the state.
//
// A Cursor is a position in the history that the state machine keeps, not a buffer: it holds a revision and a filter, and
// whoever has it pulls one Batch after the other. A slow one delays nobody; one that falls behind the history is told so
// (ErrCompacted) or begins again from a marked snapshot. Because the cursor is a revision and every server has the same
// history, it means the same on every server, and after a snapshot has replaced the state under it: it then waits until
// the state has passed it.
//
// # Many cursors, few goroutines
//
// Next never blocks. When it has nothing to return the Cursor waits, and its owner is told by a function of his, ready,
// when it is worth calling again. So no cursor needs a goroutine of its own:
//
//   - the hub's one goroutine reads each change once from the history, keeps the newest ones in a tail that all cursors
//     share, finds the cursors that wait for the key, and calls their ready; it also keeps the time for progress;
//   - a Pump gives the cursors of local readers their turns, on one goroutine: a turn pulls what there is into a Go channel
//     that somebody reads or not;
//   - a server that streams to other nodes lets ready mark the stream, and pulls while the stream may send. What Batch.Form
//     keeps (a frame, encoded) is made once for all streams of the same changes.
//
// A cursor that is further behind than the tail reads the history by itself, one revision at a time.
//
// # Age
//
// A server that is cut off keeps its old state, which a watcher cannot tell from a quiet cell. So each Next also looks at
// the age of the server's last proof of a leader (Config.Fresh), and returns ErrStale when that is too old.
//
// # Locks
//
// An Observer follows one lock: it says the present holder and then each change, leaving out what was overtaken before
// it was read.
package hub
