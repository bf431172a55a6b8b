package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/coordcell/coord/internal/store/seglog"
)

const (
	lockFile    = "lock"
	groupDir    = "group-0" // everything of one raft group
	raftFile    = groupDir + "/raft.db"
	logDir      = groupDir + "/log"
	snapshotDir = groupDir + "/snapshots"
	tempSuffix  = ".tmp"

	boltTimeout = time.Second // for bbolt's own lock, which nobody holds who does not hold ours
)

// directory is a volume on a real disk. It is locked from openDirectory to close.
type directory struct {
	dir   string
	lock  *os.File
	bolt  *raftboltdb.BoltStore // nil until openRaft
	other raft.LogStore         // if the log is not in bolt

	// step is called by tests between the steps of a write; its error stands for the end of the process there.
	step func(string) error
}

// openDirectory makes the directory if it does not exist, and locks it.
func openDirectory(dir string) (*directory, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d := &directory{dir: dir}
	if d.lock, err = os.OpenFile(d.path(lockFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := lockNow(d.lock); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(d.lock, 64))
		d.lock.Close()
		return nil, fmt.Errorf("%w: %s is locked by process %q: %w", ErrDirInUse, d.path(lockFile), strings.TrimSpace(string(holder)), err)
	}
	if err := d.claim(); err != nil {
		d.lock.Close()
		return nil, err
	}
	return d, nil
}

// claim says in the lock file who holds it, and makes sure that the directory itself survives a crash.
func (d *directory) claim() error {
	if err := d.lock.Truncate(0); err != nil {
		return err
	}
	if _, err := d.lock.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0); err != nil {
		return err
	}
	return syncDir(filepath.Dir(d.dir))
}

func (d *directory) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

func (d *directory) read(name string) ([]byte, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxRecord {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrDamaged, f.Name(), maxRecord)
	}
	return data, nil
}

// write replaces a file so that after a crash at any moment it is either the old one or the new one, and the new one once
// write has returned nil.
func (d *directory) write(_ Op, name string, data []byte) error {
	temp := d.path(name + tempSuffix)
	if err := d.writeSynced(temp, data); err != nil {
		return err
	}
	if err := d.reached("written"); err != nil {
		return err
	}
	if err := os.Rename(temp, d.path(name)); err != nil {
		return err
	}
	if err := d.reached("renamed"); err != nil {
		return err
	}
	return syncDir(d.dir)
}

func (d *directory) writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := d.reached("created"); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

func (d *directory) reached(step string) error {
	if d.step == nil {
		return nil
	}
	return d.step(step)
}

func (d *directory) hasRaft() string {
	if _, err := os.Lstat(d.path(groupDir)); err == nil {
		return d.path(groupDir)
	}
	return ""
}

// openRaft opens the log and the ballot.
func (d *directory) openRaft(id identity, opts *Options) (raft.LogStore, string, values, error) {
	if err := os.MkdirAll(d.path(groupDir), 0o700); err != nil {
		return nil, "", nil, err
	}
	if err := d.openBolt(id.Ready); err != nil {
		return nil, "", nil, err
	}
	if err := errors.Join(syncDir(d.path(groupDir)), syncDir(d.dir)); err != nil {
		return nil, "", nil, err
	}
	var err error
	switch {
	case opts.Log != nil:
		d.other, err = opts.Log(d.path(groupDir))
		return d.other, groupDir, d.bolt, err
	case id.logStore() == LogSegments:
		err = d.openSegments(id.Ready, opts)
		return d.other, logDir, d.bolt, err
	}
	return d.bolt, raftFile, d.bolt, nil
}

// openBolt opens bbolt's file. bbolt would make a new one where it is missing or empty, and this server would have
// forgotten its votes.
func (d *directory) openBolt(created bool) error {
	path := d.path(raftFile)
	if info, err := os.Stat(path); created && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, path)
	} else if created && err == nil && info.Size() == 0 {
		return fmt.Errorf("%w: %s is empty", ErrDamaged, path)
	}
	err := checkBolt(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	d.bolt, err = raftboltdb.New(raftboltdb.Options{
		Path:                    path,
		MsgpackUseNewTimeFormat: true,
		BoltOptions: &bbolt.Options{
			Timeout:        boltTimeout,
			NoFreelistSync: true, // it is rebuilt when the file is opened
			FreelistType:   bbolt.FreelistMapType,
		},
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%w: %s is locked: %w", ErrDirInUse, path, err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// openSegments opens the log in segment files.
func (d *directory) openSegments(created bool, opts *Options) error {
	path := d.path(logDir)
	if !created {
		if err := errors.Join(os.MkdirAll(path, 0o700), syncDir(d.path(groupDir))); err != nil {
			return err
		}
	}
	log, err := seglog.Open(path, seglog.Options{Exists: created, SyncDir: syncDir, Logger: opts.Logger})
	if created && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing: %w", ErrDamaged, path, err)
	}
	if err != nil {
		return err
	}
	d.other = log
	return nil
}

// openSnapshots removes what a crash left behind.
func (d *directory) openSnapshots() (raft.SnapshotStore, error) {
	files, err := raft.NewFileSnapshotStore(d.path(groupDir), keepSnapshots, io.Discard)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.path(snapshotDir), err)
	}
	if err := d.sweepSnapshots(files); err != nil {
		return nil, err
	}
	return &fileSnapshots{FileSnapshotStore: files, dir: d.path(snapshotDir)}, syncDir(d.path(groupDir))
}

// close releases the directory, last of all its lock.
func (d *directory) close() error {
	var errs []error
	if c, ok := d.other.(io.Closer); ok {
		errs = append(errs, c.Close())
	}
	if d.bolt != nil {
		errs = append(errs, d.bolt.Close())
	}
	return errors.Join(append(errs, d.lock.Close())...)
}
