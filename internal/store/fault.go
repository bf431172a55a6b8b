package store

import "errors"

// Op names a call of the store, for errors and faults.
type Op string

// The calls that reach the disk.
const (
	OpGetLog         Op = "GetLog"
	OpStoreLogs      Op = "StoreLogs"
	OpDeleteLogs     Op = "DeleteRange"
	OpSetTerm        Op = "SetTerm"
	OpSetVote        Op = "SetVote"
	OpListSnapshots  Op = "ListSnapshots"
	OpCreateSnapshot Op = "CreateSnapshot"
	OpWriteSnapshot  Op = "WriteSnapshot"
	OpCloseSnapshot  Op = "CloseSnapshot"
	OpCancelSnapshot Op = "CancelSnapshot"
	OpOpenSnapshot   Op = "OpenSnapshot"
	OpReadSnapshot   Op = "ReadSnapshot"
	OpWriteIdentity  Op = "WriteIdentity"
	OpWritePeers     Op = "WritePeers"
	OpRetire         Op = "Retire"
)

// Faults are consulted around each call, on the goroutine that makes it, by tests. Each may be nil. They may block, to
// be a disk that hangs, and may call Disk.Crash, to keep what the disk holds at that moment.
type Faults struct {
	// Before is asked before the call has any effect. Its error becomes that of the call, as if a write had failed.
	Before func(Op) error

	// Sync is asked when a write has reached the operating system but not the disk. Its error is that of the sync: what
	// was written can be read until a crash. ErrSyncLost makes the sync lie: it reports success. Only a Disk asks.
	Sync func(Op) error

	// After is asked when the call has taken effect. Its error becomes that of the call.
	After func(Op) error
}

// ErrSyncLost is returned by Faults.Sync for a sync that reports success and does nothing.
var ErrSyncLost = errors.New("sync lost")
