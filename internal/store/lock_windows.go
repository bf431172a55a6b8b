package store

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockNow takes an exclusive lock that lasts until f is closed or the process ends. It does not wait.
func lockNow(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	// A byte far behind the contents, so that others can read who holds the lock.
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1})
}

// syncDir does nothing: Windows has no such call.
func syncDir(string) error { return nil }
