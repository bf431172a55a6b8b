package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coordcell/coord/internal/failstop"
)

const (
	defaultStall = 10 * time.Second

	// snapshotPatience is how many stall limits a call may take that writes or checks a whole snapshot.
	snapshotPatience = 10
)

// Options are read once, by Open.
type Options struct {
	Cell string // the cell's name, kept with the identity; 1 to 512 bytes of UTF-8

	// Switch is tripped by the first error. nil makes one.
	Switch *failstop.Switch

	// StallTimeout is how long one call may take, a snapshot ten times as long. 0 is 10 s.
	StallTimeout time.Duration

	// OnStall is called, at most once, when a call has overrun, before the switch is tripped: the moment to hand leadership
	// on. The store waits for it no longer than StallTimeout. It must return, and must not call the store.
	OnStall func()

	// LogStore is how a new directory keeps the log, LogSegments by default. A directory that keeps it otherwise is refused
	// with ErrOtherLog; "" takes any. A Disk ignores it.
	LogStore LogStore

	// Log opens another log store than LogStore says, for tests. dir exists. Close is called if the log has it. A Disk
	// ignores it.
	Log func(dir string) (raft.LogStore, error)

	Logger *slog.Logger // nil is silent
	Faults Faults       // for tests
}

// Store is the storage of one server. Its methods are safe for concurrent use.
type Store struct {
	v        volume
	g        *guard
	logs     *logs
	ballots  *ballots
	snaps    *snapshots
	changing chan struct{} // of one, held by who changes the identity

	mu    sync.Mutex
	id    identity
	peers []Peer

	closing sync.Once
	closed  chan struct{} // everything has been released
	result  error         // of releasing, once closed is closed
}

// volume is what a Store keeps things in: a directory or a Disk.
type volume interface {
	path(name string) string          // for people
	read(name string) ([]byte, error) // fs.ErrNotExist if there is none
	write(op Op, name string, data []byte) error
	hasRaft() string // the path of something that raft has stored, if there is any
	openRaft(id identity, opts *Options) (log raft.LogStore, logName string, kept values, err error)
	openSnapshots() (raft.SnapshotStore, error)
	close() error
}

const retiredFile = "retired"

// Open opens the directory, which is made if it does not exist. It fails at once with ErrDirInUse if anybody has it open,
// this process included. Everything in it has been read and checked when Open returns.
func Open(dir string, opts Options) (*Store, error) {
	if dir == "" {
		return nil, fmt.Errorf("store: no directory given")
	}
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	v, err := openDirectory(dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return open(v, opts)
}

// InMemory is a store that forgets everything when it is closed.
func InMemory(opts Options) (*Store, error) { return OpenDisk(NewDisk(), opts) }

// OpenDisk opens a disk in memory. It fails at once with ErrDirInUse if it is open.
func OpenDisk(d *Disk, opts Options) (*Store, error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := d.mount(opts.Faults); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	opts.LogStore = LogBolt // that is: none of its own
	return open(d, opts)
}

func (o *Options) complete() error {
	if o.Switch == nil {
		o.Switch = failstop.New()
	}
	if o.StallTimeout == 0 {
		o.StallTimeout = defaultStall
	}
	if o.StallTimeout < 0 {
		return fmt.Errorf("StallTimeout is %v, it cannot be negative", o.StallTimeout)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch o.LogStore {
	case "", LogSegments, LogBolt:
	default:
		return fmt.Errorf("LogStore is %q, not %q or %q", o.LogStore, LogSegments, LogBolt)
	}
	return validateCell(o.Cell)
}

// open closes v if it fails.
func open(v volume, opts Options) (*Store, error) {
	s := &Store{v: v, changing: make(chan struct{}, 1), closed: make(chan struct{})}
	s.g = &guard{sw: opts.Switch, log: opts.Logger, faults: opts.Faults, limit: opts.StallTimeout, onStall: opts.OnStall, retire: s.retire}
	if err := protect(opts.Logger, func() error { return s.load(&opts) }); err != nil {
		v.close()
		return nil, fmt.Errorf("store: %w", err)
	}
	return s, nil
}

// load reads and checks everything.
func (s *Store) load(opts *Options) error {
	reason, err := s.v.read(retiredFile)
	if err == nil {
		return fmt.Errorf("%w: %s says %.512q: what can be read from it may not be what was written. "+
			"Replace this server: start it with a new, empty directory, where it gets a new id; the old id is %s",
			ErrRetired, s.v.path(retiredFile), reason, s.oldID())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if s.id, err = loadIdentity(s.v, opts.Cell, cmp.Or(opts.LogStore, LogSegments)); err != nil {
		return err
	}
	if has := s.id.logStore(); opts.LogStore != "" && has != opts.LogStore {
		return fmt.Errorf("%w: %s keeps its log as %q, asked for is %q. A directory keeps the kind that it was made with",
			ErrOtherLog, s.v.path(""), has, opts.LogStore)
	}
	log, logName, kept, err := s.v.openRaft(s.id, opts)
	if err != nil {
		return err
	}
	inner, err := s.v.openSnapshots()
	if err != nil {
		return err
	}
	s.logs = &logs{g: s.g, inner: log, name: logName, writing: make(chan struct{}, 1)}
	s.ballots = &ballots{g: s.g, inner: kept}
	s.snaps = &snapshots{g: s.g, inner: inner}
	if err := s.check(); err != nil {
		return err
	}
	if !s.id.Ready {
		s.id.Ready = true
		if err := storeIdentity(s.v, s.id); err != nil {
			return err
		}
	}
	s.loadPeers()
	return nil
}

// oldID names the node of a retired directory, whose identity may not be readable.
func (s *Store) oldID() string {
	data, err := s.v.read(identityFile)
	if err != nil {
		return "unknown"
	}
	id, err := decodeIdentity(data)
	if err != nil {
		return "unknown"
	}
	return id.Node
}

// Logs is raft's log. Its errors are raft.ErrLogNotFound only; whether the store has failed is for the switch to say.
func (s *Store) Logs() raft.LogStore { return s.logs }

// Stable is raft's term and vote.
func (s *Store) Stable() raft.StableStore { return s.ballots }

// Snapshots is raft's snapshots. The newest two are kept. Unlike the others it does return errors once it is poisoned.
func (s *Store) Snapshots() raft.SnapshotStore { return s.snaps }

// Switch is tripped by the first failure of the store, before the call that met it returns.
func (s *Store) Switch() *failstop.Switch { return s.g.sw }

// HasState reports whether raft has stored anything. A server with state must never bootstrap. ErrHalfFormed comes with
// true.
func (s *Store) HasState() (bool, error) {
	last, _ := s.logs.LastIndex()
	metas, err := s.snaps.List()
	if err != nil {
		return false, err
	}
	if last > 0 || len(metas) > 0 {
		return true, nil
	}
	term := s.ballots.current().term
	if len(s.identity().Forming) > 0 && term > 0 {
		return true, fmt.Errorf("%w: %s has term %d, and no log", ErrHalfFormed, s.v.path(""), term)
	}
	return term > 0, nil
}

// Close ends the use of the directory: it waits for the calls that run, then releases it. A call that hangs is not waited
// for: Close returns ErrStalled, and the directory is released if the call ever returns. Closing again does nothing more.
// A call after Close trips the switch.
func (s *Store) Close() error {
	hung := false
	s.closing.Do(func() {
		var ended <-chan struct{}
		ended, hung = s.g.close()
		go func() {
			<-ended
			s.result = protect(s.g.log, s.v.close)
			close(s.closed)
		}()
	})
	if !hung {
		timer := time.NewTimer(s.g.limit)
		defer timer.Stop()
		select {
		case <-s.closed:
			return s.result
		case <-timer.C:
		}
	}
	return fmt.Errorf("store: %w: %s stays in use until the call that hangs returns", ErrStalled, s.v.path(""))
}

// retire marks the directory as never to be used again. It may fail: the disk has failed before.
func (s *Store) retire(reason error) {
	if err := s.v.write(OpRetire, retiredFile, []byte(reason.Error())); err != nil {
		s.g.log.Error("the directory could not be marked as retired; do not use it again", "file", s.v.path(retiredFile), "error", err)
	}
}
