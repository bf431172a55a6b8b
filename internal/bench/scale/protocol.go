//go:build unix

package main

import "time"

// childVariable is set in the environment of a server's process.
const childVariable = "COORD_SCALE_CHILD"

// place is the first line that a server reads: where it is in the cell.
type place struct {
	Number   int // of the server
	Dir      string
	Addrs    []string // of all servers
	Election time.Duration
	Profile  string // where to write a CPU profile of the whole run; "": none
}

// order tells a server what to do; which fields count depends on Do. The server answers each with one report.
type order struct {
	Do      deed
	N       int           // of sessions, locks, names, callers or watchers
	First   int           // the number of the first name
	Callers int           // calls under way at once
	Each    int           // waiters on each name
	TTL     time.Duration // of the sessions
	Keys    bool          // with an ephemeral key each
	Pass    bool          // unlock as soon as it is granted
	Since   int64         // Unix time in nanoseconds: what was before does not count
	For     time.Duration
	Spread  time.Duration // each call begins at a random moment within
}

type deed string

const (
	doStatus  deed = "status"  // say how this process is
	doGC      deed = "gc"      // the same, after a collection
	doOpen    deed = "open"    // N sessions
	doLock    deed = "lock"    // N locks, under this process's sessions in turn
	doWait    deed = "wait"    // start Each waiters on each of N names, and return at once
	doGranted deed = "granted" // say what has been granted to the waiters, counting from Since
	doRelease deed = "release" // unlock the first N locks that were taken
	doProbe   deed = "probe"   // begin to take and free a lock of this process's own every few milliseconds
	doProbed  deed = "probed"  // stop, and say how long that took since Since
	doWatch   deed = "watch"   // start N watchers of all keys
	doWatched deed = "watched" // say what they have seen
	doEnds    deed = "ends"    // begin to look when the number of sessions shrinks
	doEnded   deed = "ended"   // say when it did
	doEnd     deed = "end"     // finish the profile: the process is about to be killed
	doLoad    deed = "load"    // N callers that take and free locks of their own as fast as they can
)

// report is an answer. Which fields are set depends on the order.
type report struct {
	Err  string
	Took time.Duration
	Time latency

	Done, Limited, Failed int

	Status
	First, Last int64 // Unix times in nanoseconds
	Gaps        int
}

// Status is how a process is.
type Status struct {
	Leader     bool
	Ready      bool // a leader is known
	Applied    uint64
	Sessions   int // in the cell
	Locks      int
	Keys       int
	Waiting    int
	Own, Lost  int // sessions of this process: opened, and ended since
	CPU        time.Duration
	Heap, RSS  uint64 // bytes; Heap is live ones after a collection
	PeakRSS    uint64
	Goroutines int
}
