// Package lease is the holder's side of time: how long this process may still act on what the cell granted it.
//
// A Lease is the life of one session as its own process sees it. The cell promises not to end a session before one TTL
// has passed since a renewal reached its leader; the holder therefore counts from the moment at which it SENT the
// renewal, less a margin for clocks that tick at slightly different rates, and is dead strictly before the cell can give
// to others what it held. Nobody compares clocks: only durations are compared, each measured on one clock.
//
// A Hold is one lock under a session's lease. It ends by itself when released, and at the latest with its lease.
//
// A Renewer keeps the leases of a node alive with one message an interval, whatever their number.
//
// Time is the lease clock of the node's network endpoint, given as a function. It counts the time that really passes,
// also while the machine sleeps. Go's timers may stand still meanwhile, so they serve only to wake somebody up: what
// counts is the comparison with the lease clock in every call, and in Tick.
package lease
