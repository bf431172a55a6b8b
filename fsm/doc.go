// Package fsm is the replicated state machine of a cell. This page is its specification.
//
// Every server of a cell applies the same log to a [State] of its own, and so has the same sessions, locks, keys and
// history. The machine is pure: what [State.Apply] does and returns depends on the state, on the index and term of
// the log entry and on the commands in it, and on nothing else. It tells what happened as data ([Output]): replies
// for callers, events for watchers, grants, releases, sessions opened and ended. Sending any of it is for others.
//
//	s := fsm.New()
//	out := s.Apply(1, 1, []fsm.Command{fsm.OpenSession{Nonce: n, TTL: 10e9}})
//	id := out.Replies[0].Result.Session
//	out = s.Apply(2, 1, []fsm.Command{fsm.Lock{Change: fsm.Change{Session: id, Seq: 1}, Name: "jobs/7"}})
//	token := out.Replies[0].Result.Revision
//
// The stories in testdata/*.txt show every rule below at work, with the complete output.
//
// # Time
//
// There is none. A session has a TTL, and the machine only keeps it for those who watch the clock: that a session is
// over is a decision taken outside, which arrives as [Expire].
//
// # Revisions and tokens
//
// The revision counts changes. Each of these raises it by one, and has the new value as its own:
//
//   - a session opened (the value is its id) or ended;
//   - a Lock queued (the value is its place in the order), a queued one withdrawn;
//   - a grant (the value is its fencing token), a release, new data of a lock;
//   - a Put, a Delete, an ephemeral key removed; a Txn that writes, once for all it writes.
//
// A [Generation] lifts it above everything that was ever handed out, even where the state comes from an old backup.
// Refused changes, repeats, acknowledgements, members, terms and checks do not raise it. It never falls: tokens and
// session ids are never given twice, not even by one log entry that grants a lock several times.
//
// # Sessions
//
//	         OpenSession                 Expire, CloseSession, Generation           reaped to the end
//	(none) ──────────────▶  live  ────────────────────────────────────▶  ended  ───────────────────▶  (none)
//	          id = revision   │                                            │
//	                          │ changes take effect                        │ changes: UnknownSession
//	                          │ may hold, wait, own keys                   │ holds for granting only, waits for nothing
//
// Everything but the cell's own business is a [Change] of a session. OpenSession is recognised by its nonce while the
// session lives, and makes one session however often it is proposed.
//
// An ended session is dead at once, in whole: none of its changes is performed, none of its waiters is granted,
// [HeldBy] is false for its locks, [State.Lookup] shows them as Freeing, its nonce is forgotten. What it has left is
// handed on by reaping: its locks by name, then its places in queues, its ephemeral keys, its kept results, at last the
// session itself. Each is one thing. The command that ends sessions deals with Params.ReapStep things, and each
// [Reap] with as many again, the lowest session first; somebody has to propose them while [State.Reaping]. Until its
// turn comes an ephemeral key can be read, and a lock cannot be had. A Generation does all of it in one go.
//
// Expire and [EndHold] carry the term in which they were decided, and are ignored in an entry of another term: a leader
// that was stuck and has been replaced meanwhile must not act on what it knew.
//
// # Locks
//
//	          Lock                  release, and nobody waits
//	(free) ─────────▶  held by one  ──────────────────────────▶ (free)
//	                    │       ▲
//	            release │       │ grant to the first waiter that lives:
//	                    ▼       │ in the same command, under a new token
//	                      queue  ◀── Lock, while the name is held
//
// A release is an Unlock, a [Withdraw] of the Lock that was granted, or the reaping of its session. Each Lock is an
// acquisition of its own: two of one session exclude each other like any two. An Unlock names the grant by its token
// and frees that one or none ([NotHeld]). The queue is in the order of the log. Whether the session of a waiter lives
// is looked at once more when its turn comes.
//
// A queued Lock gets no reply. Its reply comes with the entry that grants it, under its own session and number, or
// with [Withdrawn] when it is taken back, or with [UnknownSession] when its session's place is reaped.
//
// After a Generation that ended sessions, grants are held back until EndHold: the processes that held locks before may
// not know yet, and get the longest of their TTLs to find out. Requests queue up meanwhile, and [Lock] with Try is
// answered [Locked].
//
// What Withdraw answers:
//
//	its Target is            answer                               and then
//	queued                   OK (Locked with OnlyQueued)          left the queue; its caller is told Withdrawn
//	granted                  OK                                   unlocked, if it was still held
//	granted, OnlyQueued      Granted, Revision: its token         nothing: the grant and its result stay
//	a change of other kind   OK                                   the result is dropped, the effect stays
//	not seen yet             OK                                   refused when it comes
//	settled before           OK                                   nothing
//
// But for the third line the Target counts as acknowledged afterwards.
//
// # Keys
//
// A key is plain, or belongs to a session and goes with it. Each write decides that anew. A [Precondition] or the
// conditions of a [Txn] are judged at the moment of the change. The operations of a Txn are performed in order, each
// sees those before it, and all have one revision; if none writes, the revision reported is the present one. Whether
// there would be too many keys is judged by what a Txn leaves behind, and if so nothing of it is done.
//
// # Exactly once
//
// A change has a number that its session gives to no other. The number is, in this order,
//
//	unseen ──▶ outstanding: queued, or with a kept result ──▶ settled: acknowledged or withdrawn
//
// Proposed again, a change whose result is kept gets the same result; one that is queued stays queued, once, and gets
// no reply yet; one that is settled gets [Refused]. None is performed again. Refusals such as [Conflict] are results like
// any other. Not kept, because nothing was done and the number stays unseen, are UnknownSession, [Malformed], and
// [LimitReached] with LimitOutstanding; the last means that the session has MaxOutstanding numbers outstanding,
// and goes away with acknowledgements. (A Withdraw that makes room passes nevertheless, an Unlock that frees
// something, and CloseSession, whose result goes with the session.)
//
// Acknowledgements come first, before the change that carries them, and also when that is a repeat. Those of queued
// Locks are ignored: there is nothing to have received. Settled numbers are kept as ranges; their gaps are what is
// outstanding, and a session with more gaps than an honest one can have gets Malformed.
//
// # History
//
// Every change of a key is an event, with the value before. At the end of an entry the oldest events are forgotten
// until what is left is within Params.HistoryEvents and Params.HistoryBytes; an event counts its key, its two values,
// and 128 bytes. All events of one revision go together. [State.Floor] is the revision from which on nothing is missing.
//
// # Limits
//
// [Params] bound what a cell holds. They come with a Generation and are part of the state: no replica reads its own
// configuration. Ended sessions do not count; what they have left does, until it is reaped. A handover from one holder
// to the next makes no room for another name.
//
// # Invariants
//
// After every entry:
//
//	I1  A name has at most one holder, and a holder's session exists (live, or ended and being reaped).
//	I2  A token is above every token given before, of any name.
//	I3  A lock that nobody holds has no queue, unless grants are held back; while they are, nothing is held.
//	I4  A waiter's session exists, and the waiter's number is outstanding, without a result.
//	I5  A number of a session is unseen, or queued at one place, or has one kept result, or is settled.
//	I6  An ephemeral key's session exists.
//	I7  The history has every event from Floor on: revisions rise, and within one the events are numbered from 0.
//	I8  An ended session is being reaped; once nothing is left of it, it is gone.
//	I9  Every index and counter is what it would be if it were built anew from the records of a snapshot.
//	I10 Nothing that a clone can reach has been written to since the clone was made.
//
// # Agreement
//
// The package imports nothing that knows time, chance, the network or another goroutine, starts no goroutine, has no
// map, no floating-point number and no package variable; a test reads the source for that. Names and keys are compared
// as bytes. Sizes of names and values are not checked: that is for the proposer, whose configuration may differ from
// another's. Commands that no honest proposer makes are answered Malformed or ignored, alike everywhere.
//
// [State.Hash] is 64 bits of SHA-256 over the records of a snapshot in their canonical form: replicas that have
// applied the same entries have the same hash, a restored one too. [Check] carries the leader's hash to the others.
//
// # Snapshots
//
// State lives in trees that copy on write. [State.Clone] copies their roots, and the clone may be read on other
// goroutines while Apply goes on. [State.Records] yields the state as plain structs in one canonical order, [Restore]
// builds a new state of them, and complains of anything missing, out of order, or contradictory.
package fsm
