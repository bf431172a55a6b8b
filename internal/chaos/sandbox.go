//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// errNotAllowed: this machine or user may not make namespaces, network devices or mounts.
var errNotAllowed = errors.New("not allowed here")

// sandboxed runs this program again in a mount namespace of its own, so that what it mounts nobody else sees and nobody
// has to unmount. Without root it is also a user namespace, in which it is root. It returns the exit status.
func sandboxed(args []string, out io.Writer) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	runtime.LockOSThread() // the death of this thread is what kills the other process
	defer runtime.UnlockOSThread()
	cmd := exec.Command(self, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, os.Stderr
	cmd.Env = append(os.Environ(), roleVariable+"="+roleConductor)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%w: a mount namespace: %w", errNotAllowed, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s) // it ends by itself, and cleans up
		case err := <-ended:
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.Exited() {
				return exit.ExitCode(), nil
			}
			return 0, err
		}
	}
}

// mountDisk mounts a small file system in memory. Only processes of this mount namespace see it.
func mountDisk(dir string, megabytes int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", megabytes)); err != nil {
		return fmt.Errorf("%w: mount a tmpfs: %w", errNotAllowed, err)
	}
	return nil
}

// privateMounts sees to it that mounts are not passed on to the namespace that this process came from.
func privateMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("%w: private mounts: %w", errNotAllowed, err)
	}
	return nil
}

const runPrefix, keptPrefix = "coord-chaos-run-", "coord-chaos-kept-"

// journalFile is locked by its run, for as long as that lives.
const journalFile = "journal.log"

// newRunDir makes a directory for this run and opens its journal, after removing the directories of runs that were
// killed. One that is to be kept has another name.
func newRunDir() (dir string, journal *os.File, err error) {
	old, err := filepath.Glob(filepath.Join(os.TempDir(), runPrefix+"*"))
	if err != nil {
		return "", nil, err
	}
	for _, dir := range old {
		if abandoned(dir) {
			if err := os.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrPermission) { // it may be another user's
				return "", nil, err
			}
		}
	}
	if dir, err = os.MkdirTemp("", runPrefix); err != nil {
		return "", nil, err
	}
	if journal, err = os.Create(filepath.Join(dir, journalFile)); err != nil {
		return dir, nil, err
	}
	return dir, journal, unix.Flock(int(journal.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// abandoned says whether the run of a directory has died.
func abandoned(dir string) bool {
	journal, err := os.Open(filepath.Join(dir, journalFile))
	if err != nil {
		return false // it is being made
	}
	defer journal.Close()
	return unix.Flock(int(journal.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// keep gives the directory a name that no later run removes.
func keep(dir string) (string, error) {
	kept := filepath.Join(filepath.Dir(dir), keptPrefix+strings.TrimPrefix(filepath.Base(dir), runPrefix))
	return kept, os.Rename(dir, kept)
}
