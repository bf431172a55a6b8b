// Package replica is one server's copy of the cell's state, as the log drives it.
//
// It stands between raft and the pure state machine of package fsm: it decodes an entry, applies it, and then tells
// whoever must know. That happens on raft's one FSM goroutine, in this order:
//
//	decode ─► fsm.State.Apply ─► who serves this server (Config.Applied) ─► who waits for a change (Await)
//
// so that, for instance, the leader's table of deadlines knows a session before its opener hears of it.
//
// # Reading
//
// View runs a function on the state under a read lock, and is for what is small. Clone hands out a copy in O(1) for
// everything else. Both see whole entries only.
//
// # Agreement
//
// Every CheckEvery entries of the log each server takes a clone and hashes it beside the FSM goroutine, at the same
// index everywhere. The leader puts its own hash into the log; a server whose hash differs learns it through
// Config.Mismatch and asks the others who is right. Hashes of the last few checkpoints are kept for that question.
//
// # Since when
//
// The log carries no clock, so "held for" and "waited for" are what this server has seen: a timeline of
// (revision, local time) samples turns the revision of a grant into an age, at most 100 ms too old, at a cost that does
// not grow with the number of locks.
package replica
