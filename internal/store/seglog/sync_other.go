//go:build !linux

package seglog

import "os"

func syncData(f *os.File) error { return f.Sync() }
