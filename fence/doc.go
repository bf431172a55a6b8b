// Package fence is the resource's side of a fencing token.
//
// A lock alone cannot protect a resource: a holder may be frozen between its last look at the lock and its write, for
// so long that the lock has passed to another, and then write. So each grant of a lock carries a [Token], above that
// of every earlier grant of the same name; a holder sends it along with each write; and the resource refuses a write
// whose token is below the highest that it has accepted. Whatever was paused, and for how long, a former holder then
// changes nothing once a later one has written.
//
// A [Guard] does this for one kind of resource. [Memory] guards state that lives in the process; package sqlfence
// guards a database; package fencetest is the suite that every guard passes, for those who write their own.
//
// The package imports nothing beyond the standard library: a server that checks tokens need not link the lock service.
package fence
