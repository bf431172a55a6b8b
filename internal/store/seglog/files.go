package seglog

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// files is the directory of a log. Tests have one that loses what was not synced.
type files interface {
	path(name string) string // for people
	list() ([]string, error)
	create(name string) (file, error)
	open(name string) (file, error)
	remove(name string) error
	sync() error // puts what was created and removed on the disk
}

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	size() (int64, error)
	Truncate(size int64) error // which makes it longer here, by zeros
	sync() error               // puts the data, and what is needed to read them, on the disk
}

const nameSuffix = ".log"

func segmentName(n uint64) string { return fmt.Sprintf("%08d%s", n, nameSuffix) }

func parseSegmentName(name string) (n uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, nameSuffix)
	n, err := strconv.ParseUint(digits, 10, 32)
	return n, ok && err == nil && n > 0 && segmentName(n) == name
}

// folder is a real directory.
type folder struct {
	dir     string
	syncDir func(string) error
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f folder) list() (names []string, err error) {
	entries, err := os.ReadDir(f.dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (f folder) create(name string) (file, error) {
	return openFile(f.path(name), os.O_CREATE|os.O_EXCL)
}
func (f folder) open(name string) (file, error) { return openFile(f.path(name), 0) }
func (f folder) remove(name string) error       { return os.Remove(f.path(name)) }
func (f folder) sync() error                    { return f.syncDir(f.dir) }

func openFile(path string, flags int) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

type osFile struct{ *os.File }

func (f osFile) sync() error { return syncData(f.File) }

func (f osFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
