//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/history"
	"github.com/coordcell/coord/internal/load"
	"github.com/coordcell/coord/internal/raftnode"
	"github.com/coordcell/coord/internal/server"
	"github.com/coordcell/coord/transport"
)

const (
	statusEvery  = 100 * time.Millisecond
	stopPatience = 20 * time.Second // for everything to end after SIGTERM
	callPatience = 30 * time.Second // for a call of the orders
)

// worker is one process of the cell: a node, and clients that use it.
type worker struct {
	settings settings
	node     *coord.Node
	guard    remoteGuard
	closing  atomic.Bool // the clients' watchers are not waited for any more
	current  *activeLoad
	orders   sync.WaitGroup

	mu  sync.Mutex
	out *json.Encoder
}

// activeLoad is the clients of one window.
type activeLoad struct {
	load   *load.Load
	record *history.Recorder
	file   *os.File
	number int

	mu       sync.Mutex
	sessions []*coord.Session
	stopping *history.Recorder // set once the node is being shut down
}

// pace is the network of a worker: real, and the log is compacted and the replicas are compared much more often than
// otherwise, so that a few minutes show what else takes hours.
type pace struct{ transport.Network }

var _ server.Pace = pace{}

func (pace) CommitTimeout() time.Duration       { return 0 }
func (pace) Snapshots() (uint64, time.Duration) { return 2000, 5 * time.Second }
func (pace) CheckEvery() uint64                 { return 250 }

// work runs a worker until it is told to stop, and returns its exit status.
func work(argument string) int {
	w := &worker{out: json.NewEncoder(os.Stdout)}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if err := w.start(argument, log); err != nil {
		w.say(note{What: noteStopped, Text: err.Error()})
		return exitFailed
	}
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	input := make(chan order)
	go read(os.Stdin, input) // ends with the process
	status := time.NewTicker(statusEvery)
	defer status.Stop()
	for {
		select {
		case <-status.C:
			s := w.node.Status()
			w.say(note{What: noteStatus, Status: &s})
		case o := <-input:
			w.obey(o)
		case <-terminate:
			return w.shutdown(log)
		case <-w.node.Done():
			w.say(note{What: noteStopped, Text: w.node.Err().Error(), Loop: errors.Is(w.node.Err(), raftnode.ErrSnapshotLoop)})
			log.Error("the node has stopped", "error", w.node.Err())
			return exitStopped
		}
	}
}

func (w *worker) start(argument string, log *slog.Logger) (err error) {
	if err := json.Unmarshal([]byte(argument), &w.settings); err != nil {
		return err
	}
	if w.guard, err = dialVault(w.settings.Vault); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callPatience)
	defer cancel()
	w.node, err = coord.Start(ctx, coord.Config{
		Name: w.settings.Name, Cell: w.settings.Cell, Dir: w.settings.Dir,
		Listen: w.settings.Listen, Join: w.settings.Join, Expect: w.settings.Expect,
		ElectionTimeout: w.settings.ElectionTimeout, Logger: log, Transport: pace{transport.TCP()},
	})
	return err
}

// read passes on the orders, a line each.
func read(in io.Reader, orders chan<- order) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var o order
		if json.Unmarshal(lines.Bytes(), &o) == nil {
			orders <- o
		}
	}
}

// shutdown stops the node under its clients, and then everything.
func (w *worker) shutdown(log *slog.Logger) int {
	stuck := time.AfterFunc(stopPatience, func() {
		log.Error("does not stop")
		_ = syscall.Kill(os.Getpid(), syscall.SIGQUIT) // shows where everybody is
	})
	defer stuck.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience/2)
	defer cancel()
	if w.current != nil {
		w.current.shuttingDown()
	}
	err := w.node.Shutdown(ctx)
	w.closing.Store(true)
	w.orders.Wait()
	if w.current != nil {
		ended, end := context.WithCancel(context.Background())
		end()
		_ = w.current.stop(ended)
	}
	if err != nil {
		log.Error("shutdown", "error", err)
		w.say(note{What: noteStopped, Text: "shutdown: " + err.Error()})
		return exitStuck
	}
	return 0
}

// obey carries out an order. What takes time goes on beside the worker's loop.
func (w *worker) obey(o order) {
	if o.Do == doLoad {
		w.answer(o.Do, "", w.startLoad(o))
		return
	}
	ending := w.current
	if o.Do == doFinish {
		w.current = nil
	}
	w.orders.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callPatience)
		defer cancel()
		text, err := "", error(nil)
		switch o.Do {
		case doFinish:
			err = ending.stop(ctx)
		case doProbe:
			err = w.probe(ctx)
		case doTransfer:
			err = w.node.TransferLeadership(ctx, "")
		case doClean:
			err = w.clean(ctx)
		case doDigest:
			text, err = w.digest(ctx)
		default:
			err = fmt.Errorf("no such order: %q", o.Do)
		}
		w.answer(o.Do, text, err)
	})
}

func (w *worker) answer(what, text string, err error) {
	n := note{What: what, Text: text}
	if err != nil {
		n.Err = err.Error()
	}
	w.say(n)
}

func (w *worker) say(n note) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(n) // whom should it tell
}

// Numbers of a load's clients, and of its calls, begin with the load's own.
const (
	clientsPerLoad = 100
	callsPerLoad   = 100_000_000
)

// startLoad starts the clients of a window.
func (w *worker) startLoad(o order) error {
	f, err := os.OpenFile(o.File, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	l := &activeLoad{file: f, number: o.First}
	l.record = history.NewRecorder(machineTime, f, o.First*callsPerLoad)
	l.load = load.Start(context.Background(), load.Config{
		Record: l.record, Node: func(int) *coord.Node { return w.running() }, Resource: w.guard,
		Opened: l.opened, Complain: w.complain,
		Seed: o.Seed, First: o.First * clientsPerLoad,
		Lockers: 3, Candidates: 2, Writers: 2, Watchers: 1,
		Locks: 10, Elections: 4, Keys: 8,
		TTL: w.settings.TTL, Think: w.settings.Think,
	})
	w.current = l
	return nil
}

// running is the node, or nil if it has stopped.
func (w *worker) running() *coord.Node {
	select {
	case <-w.node.Done():
		return nil
	default:
		return w.node
	}
}

func (w *worker) complain(guarantee, text string) {
	if w.closing.Load() && guarantee == "G9" {
		return // the node has been shut down before its watchers had seen everything
	}
	w.say(note{What: noteComplaint, Guarantee: guarantee, Text: text})
}

// opened notes a session, which is closed at once if the node is being shut down.
func (l *activeLoad) opened(_ int, s *coord.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions = slices.DeleteFunc(l.sessions, func(s *coord.Session) bool { return s.Err() != nil })
	l.sessions = append(l.sessions, s)
	if l.stopping != nil {
		l.noteClose(s)
	}
}

// shuttingDown notes that all sessions are closed from this moment on: Shutdown does that, not the clients.
func (l *activeLoad) shuttingDown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := machineTime()
	l.stopping = history.NewRecorder(func() time.Duration { return at }, l.file, l.number*callsPerLoad+callsPerLoad/2)
	for _, s := range l.sessions {
		if s.Err() == nil {
			l.noteClose(s)
		}
	}
}

// noteClose notes a call of Close that begins when the shutdown did and never returns. l.mu is held.
func (l *activeLoad) noteClose(s *coord.Session) {
	l.stopping.Begin(history.Op{Kind: history.Close, Client: l.number*clientsPerLoad + clientsPerLoad - 1, Session: uint64(s.ID())})
}

// stop ends the clients and closes the record.
func (l *activeLoad) stop(ctx context.Context) error {
	if l == nil {
		return errors.New("there is no load")
	}
	l.load.Stop(ctx)
	return errors.Join(l.record.Err(), l.file.Close())
}

// probe makes calls that only a cell in order can answer: a session, a lock, and a read through this node.
func (w *worker) probe(ctx context.Context) error {
	s, err := w.node.NewSession(ctx, coord.WithTTL(w.settings.TTL))
	if err != nil {
		return err
	}
	l, err := s.Lock(ctx, "probe/"+w.settings.Name)
	if err == nil {
		err = l.Unlock(ctx)
	}
	if _, readErr := w.node.Get(ctx, "probe"); !errors.Is(readErr, coord.ErrKeyNotFound) {
		err = errors.Join(err, fmt.Errorf("a key that nobody writes: %w", readErr))
	}
	return errors.Join(err, s.Close(ctx))
}

func (w *worker) clean(ctx context.Context) error {
	listing, err := w.node.List(ctx, "")
	for _, item := range listing.Keys {
		if _, deleteErr := w.node.Delete(ctx, item.Key); deleteErr != nil && !errors.Is(deleteErr, coord.ErrKeyNotFound) {
			err = errors.Join(err, deleteErr)
		}
	}
	return err
}

// digest is a hash of all keys as this node's own replica has them.
func (w *worker) digest(ctx context.Context) (string, error) {
	listing, err := w.node.List(ctx, "", coord.Stale())
	if err != nil {
		return "", err
	}
	h := fnv.New64a()
	if err := json.NewEncoder(h).Encode(listing); err != nil {
		return "", err
	}
	return fmt.Sprintf("revision %d, %d keys, %016x", listing.Revision, len(listing.Keys), h.Sum64()), nil
}

// machineTime is the same in all processes of the machine.
func machineTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // it cannot fail
	}
	return time.Duration(t.Nano())
}
