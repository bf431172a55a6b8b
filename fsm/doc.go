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
//   - a grant (the value is its fencing token), a release, new data of a lock, a mark, the end of a delay;
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
// session itself. Each is one thing; a grant or a request for several names is as many. The command that ends sessions deals with Params.ReapStep things, and each
// [Reap] with as many again, the lowest session first; somebody has to propose them while [State.Reaping]. Until its
// turn comes an ephemeral key can be read, and a lock cannot be had. A Generation does all of it in one go.
//
// Expire, [EndHold], [ExpireGrants], [EndDelay] and [FinishRevoke] carry the term in which they were decided, and are
// ignored in an entry of another term: a leader that was stuck and has been replaced meanwhile must not act on what it
// knew.
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
// A release is an Unlock, a [Withdraw] of the Lock that was granted, a [HandOver], the reaping of its session, the end of
// its own lease, or a Revoke. Each Lock is an acquisition of its own: two of one session exclude each other like any
// two. An Unlock names the grant by its token and any of its names, and frees that one or none ([NotHeld]). The queue is
// in the order of the log. Whether the session of a waiter lives is looked at once more when its turn comes.
//
// A queued Lock gets no reply. Its reply comes with the entry that grants it, under its own session and number, or
// with [Withdrawn] when it is taken back, or with [UnknownSession] when its session's place is reaped, or with [Revoked].
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
// # Ways to hold a lock
//
// What a Lock asks for beyond one name for itself alone is in its [Terms]:
//
//	            may hold a name beside each other    in the way of
//	alone       nobody                               everybody
//	Shared      readers                              who wants it alone, or a slot
//	Slots n     n holders, each in a slot            who wants it alone, or to read, or a slot when none is free
//
// Names are one space, whichever way they are asked for. The queue of a name is strictly first come first served: only
// its first request can be granted, and is as soon as nothing is in its way; then the next is the first. So readers that
// stand next to each other are granted in one entry, and none passes a writer that waits. A grant in a slot gets the
// lowest that is free; tokens rise from grant to grant of a name, hence of a slot.
//
// A name has as many slots as the first who asked for one said, for as long as anybody has, lost, or waits for a slot of
// it. Who asks for another number is answered [SlotsMismatch], with the number there is.
//
// A Lock whose Terms say that its caller holds the same name in another way is answered [Upgrade]: readers that wait to
// write would wait for each other. To go on from one to the other, unlock and lock.
//
// Malformed are: an empty name, a name twice, more than [MaxNames]; a number of slots below 0 or above [MaxSlots], slots
// for readers; a TTL above the session's; a negative TTL or Delay; more than [MaxHolding] in Holding. Whoever proposes
// checks that before, to tell the caller which it was.
//
// # Several names
//
// A Lock with More is granted all its names in one step or waits for all, and holds none while it waits. It has one place
// in the order, the same in the queue of every name, and is granted when it is the first in each of them and nothing is
// in its way in any. Nobody passes it: a name that is free is kept for it if it stands first there, whatever it waits for
// elsewhere, and that is why it does not starve. It gets one token for all, and is one grant: freed, marked, revoked,
// expired as a whole, by any of its names.
//
// Requests cannot wait for each other in a circle by their places alone. Each stands in all its queues by one number, and
// whatever is before it in any of them has a lower one; the lowest of all has nothing before it, and waits for holders
// only. (A HandOver lets a request pass others, but it waits for nothing from then on.)
//
// When names are freed, or a request leaves its queues, each of the names, in the order of the request, is handed on as
// far as it goes; then the other names of what was granted or removed on the way, and so on: their queues have moved up.
// Places of sessions that have ended or are marked are removed when their turn comes and there is room for anybody.
//
// # Leases and delays
//
// The TTL of a Lock is a lease of its grant. As with sessions the machine only keeps it: [ExpireGrants] ends grants whose
// lease has run out, for the reason LockExpired, as far as they have one.
//
// A grant is lost if it ends for the reasons SessionExpired, LockExpired or GrantRevoked: its holder has not said that it
// stopped. If it has a Delay, a loss stands in its place then until [EndDelay], one of each of its names, and is in the
// way of whoever the grant was in the way of: of everybody; of writers, where a reader was lost; in its slot. Requests
// wait, and those with Try are answered Locked. [State.Lookup] shows it as Freeing, and in Delayed.
//
// # Deadlocks
//
// A Lock may say what its caller holds meanwhile (Terms.Holding), of any sessions. A Lock that would have to wait, and by
// that would close a circle of requests and grants each of which waits for the next, is answered [Deadlock] with the
// [Cycle], and is not queued. A request waits for the holders in its way and for all requests before it in its queues; a
// grant waits for the requests that say their caller holds it. It is exact:
//
//   - Only what was said counts. Two Locks of one session have nothing to do with each other unless one says so, and
//     who says nothing is never refused, nor seen to hold anything.
//   - Where a slot is waited for, one holder that can go on is enough. Only if all of them wait, directly or not, for what
//     the caller holds, there is a deadlock.
//   - What somebody else ends for sure stands in nobody's way: grants and requests of sessions that have ended or are
//     marked, marked grants, losses. A lease does not count, for it may be refreshed; neither does the patience of
//     whoever waits.
//
// The search costs nothing unless the Lock says what its caller holds, next to nothing unless somebody waits for that, and
// then as much as there are requests on the way; deadlock.go says more, and why it is enough to look at that moment. A
// search of more than 10,000 steps is given up, and the Lock is queued as if nothing had been said.
//
// # Handing over
//
// A HandOver gives an exclusive grant of one name to a session that waits for that name, and that alone, for itself
// alone: its first such place moves to the front, and it is granted in the same entry, under a new token. If there is
// none, the answer is [NotQueued] and nothing has changed. Those that are passed keep their places.
//
// # Stepping in
//
// [Revoke] marks a grant, and [RevokeSession] a session. A mark changes nothing by itself but that a marked session is
// granted nothing more: its requests are answered [Revoked], those that are queued by reaping (see [State.Reaping]), or
// when their turn comes. HeldBy stays true, for the holder may act until it hears of the mark; that is why marks are in
// the state: every acknowledgement carries them ([State.MarksOf]). FinishRevoke takes what is marked from its holders; it
// passes over what is not. A marked grant ends for the reason GrantRevoked in whatever way it ends, also by an Unlock,
// and is lost by that; a session that was marked ends as expired. With Force, mark and end are one: then only tokens
// protect.
//
// A Revoke of a grant that is not the present one is answered NotHeld, a RevokeSession of a session there is not
// [NoSuchSession]; of what is marked already OK, and nothing has changed.
//
// # What a leader does
//
//	at the start of its term     afterwards, for each               proposes
//	State.Sessions               Output.Opened                      Expire
//	State.Leases                 Output.Grants with a TTL           ExpireGrants
//	State.Delays                 Output.Delayed                     EndDelay
//	State.Marks                  Output.Marked                      FinishRevoke
//	State.Reaping                every entry                        Reap
//	State.Hold                   Output.Held                        EndHold
//
// What it times it begins anew with its term. What of it has gone meanwhile is passed over by the command, and is known
// by Output.Releases and Output.Ended.
//
// # Formats
//
// [State.Format] is the newest format of commands that the cell uses; it begins with 1. A leader that knows that every
// server reads a newer one proposes [SetFormat], and from then on what is of that format. (The machine does not look: it
// performs what it reads.) Terms, and all commands about leases, delays, marks and handing over, are of format 2. The
// records and hashes of a state in which nothing of these is used are what they were before there was any.
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
//	I1  The holders of a name, and its losses, are one that has it alone, or readers, or in different slots of those
//	    there are; and a holder's session exists (live, or ended and being reaped).
//	I2  A token is above every token given before, of any name.
//	I3  Unless grants are held back, no request is queued that is the first in all its queues with nothing in its way;
//	    while they are, nothing is held.
//	I4  A waiter's session exists, and the waiter's number is outstanding, without a result. A request has one place in
//	    the queue of each of its names, everywhere the same.
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
