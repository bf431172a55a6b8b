package seglog

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// syncData leaves out the times of the file, which would cost a write to the journal each time.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "sync", Path: f.Name(), Err: err}
		}
		return nil
	}
}
