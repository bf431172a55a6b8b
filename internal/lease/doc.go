// Package lease is the holder's side of time: how long this process may still act on what the cell granted it.
//
// A Lease is the life of one session as its own process sees it. The cell promises not to end a session before one TTL
// has passed since a renewal reached its leader; the holder therefore counts from the moment at which it SENT the
// renewal, less a margin for clocks that tick at slightly different rates, and is dead strictly before the cell can give
// to others what it held. Nobody compares clocks: only durations are compared, each measured on one clock.
//
// A Hold is one lock under a session's lease. It ends by itself when released, and at the latest with its lease. One
// that the cell lends for a time of its own ends with that, unless its holder renews it; the same arithmetic holds.
//
// A Renewer keeps the leases of a node alive with one message an interval, whatever their number.
//
// # Grace
//
// A holder must stop at its deadline D, whatever the cell does. Often the cell does nothing: it had no leader for a
// while, and the next one gives every session a full TTL. With a grace period a lease is suspended at D and not ended,
// and lives again if an acknowledgement arrives before D + grace that moves D into the future.
//
// The leader never hears of the grace period, and expires a session at its TTL as any other. What makes the revival safe
// is all on its side: it marks a session as expiring BEFORE it proposes its end, and acknowledges no renewal from then
// on; the end counts only in the term in which it was decided; and a new leader acknowledges only after its TermStart
// has given everybody a full TTL. So an acknowledgement says that when its renewal arrived no end of this session had
// been decided that can still take effect before the new D. Nobody was granted what it holds, and its tokens are still
// the highest.
//
// # Clocks
//
// Time is the lease clock of the node's network endpoint, given as a function. It counts the time that really passes,
// also while the machine sleeps. Go's timers may stand still meanwhile, so they serve only to wake somebody up: what
// counts is the comparison with the lease clock in every call, and in Tick.
package lease
