package store

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/coordcell/coord/internal/store/seglog"
)

// Why a directory cannot be opened, or a store failed. They are wrapped with the file, the value and the limit.
var (
	ErrDirInUse  = errors.New("directory in use")
	ErrDamaged   = seglog.ErrDamaged
	ErrNewer     = seglog.ErrNewer
	ErrRetired   = errors.New("directory retired")
	ErrWrongCell = errors.New("directory of another cell")
	ErrOtherLog  = errors.New("directory with another kind of log")

	// ErrStalled is the reason of a switch tripped by a call that did not return in time. Close returns it while such a
	// call still holds the directory.
	ErrStalled = errors.New("storage stalled")

	// ErrClosed is the reason of a switch tripped by a call after Close.
	ErrClosed = errors.New("store closed")

	// ErrHalfFormed says that this server has a term and a record of forming, but no log: the process may have ended inside
	// raft.BootstrapCluster, which writes the term first and refuses to run again. If the server belongs to the cell of that
	// record, storing the first log entry (index 1, term 1, the configuration) completes it: every server of the set writes
	// the same one.
	ErrHalfFormed = errors.New("forming was interrupted")
)

// errNotFound is what raft's StableStore contract asks for: raft compares the text.
var errNotFound = errors.New("not found")

// full reports whether err says that there was no room for a write. The same error from a sync does not count: it
// leaves unknown which of the earlier writes are on the disk. A sync of bbolt's on Linux is a bare errno.
func full(err error) bool {
	var path *fs.PathError
	if !errors.As(err, &path) || path.Op == "sync" {
		return false
	}
	return errors.Is(path.Err, syscall.ENOSPC) || errors.Is(path.Err, syscall.EDQUOT)
}

// retires reports whether the directory must not be used again after err.
func retires(err error) bool {
	return !full(err) && !errors.Is(err, ErrStalled) && !errors.Is(err, ErrClosed)
}
