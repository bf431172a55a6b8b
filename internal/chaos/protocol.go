//go:build linux

package main

import (
	"time"

	"github.com/coordcell/coord"
)

// settings are what a worker is started with, as JSON in its argument.
type settings struct {
	Name, Cell, Dir, Listen string
	Join                    []string
	Expect                  int
	ElectionTimeout, TTL    time.Duration
	Vault                   string // path of its socket
	Think                   time.Duration
}

// order is a line on a worker's standard input.
type order struct {
	Do    string // one of the constants below
	File  string `json:",omitempty"` // load: the record
	First int    `json:",omitempty"` // load: the load's number, from 1; none is used twice in a run
	Seed  uint64 `json:",omitempty"`
}

const (
	doLoad     = "load"     // start clients
	doFinish   = "finish"   // stop them, and close the record
	doProbe    = "probe"    // make one call of each sort
	doTransfer = "transfer" // hand over leadership
	doClean    = "clean"    // delete all keys
	doDigest   = "digest"   // hash the replica's keys
)

// note is a line on a worker's standard output: once in a while its status, and what became of an order.
type note struct {
	What      string        // "status", "stopped", "complaint", or the order that was carried out
	Status    *coord.Status `json:",omitempty"`
	Guarantee string        `json:",omitempty"` // complaint
	Text      string        `json:",omitempty"` // complaint: what; stopped: why; digest: the hash
	Err       string        `json:",omitempty"` // of the order
	Loop      bool          `json:",omitempty"` // stopped: to get out of raft's snapshot loop
}

const (
	noteStatus    = "status"
	noteStopped   = "stopped" // the node has ended by itself
	noteComplaint = "complaint"
)

// Exit statuses of a worker.
const (
	exitStopped = 3 // the node has ended by itself
	exitFailed  = 4 // it could not be started
	exitStuck   = 5 // something did not end
)
