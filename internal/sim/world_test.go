package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/fence"
	"github.com/coordcell/coord/internal/history"
	"github.com/coordcell/coord/internal/lab"
	"github.com/coordcell/coord/internal/load"
	"github.com/coordcell/coord/internal/raftnode"
)

const (
	election = 250 * time.Millisecond
	ttl      = time.Second // the shortest that the election timeout allows
	maxTTL   = 3 * ttl     // the longest that clients ask for

	// patience is how long a cell may take to be whole after the last fault: servers that have not heard of each other
	// for long look for each other only every few seconds, and a server with an empty disk has to replace its former self.
	patience = 20 * time.Second
)

// world is one cell, its clients, and what is known of them. The schedule runs on one goroutine; fields without a
// mutex are its own.
type world struct {
	t     *testing.T
	begun time.Time
	rng   *rand.Rand
	lab   *lab.Lab
	load  *load.Load
	rec   *history.Recorder
	raft  *history.Raft

	resource fence.Guard

	voters int
	slots  []*slot
	counts counts
	crowds int

	mu         sync.Mutex
	sessions   map[coord.SessionID]session // of the clients
	closers    int                         // sessions that their servers have closed
	expired    map[coord.SessionID]time.Duration
	violations []history.Violation
	observers  map[string]*observer // of the servers that were started last, by address
	leaders    map[uint64]*observer // by term
	terms      uint64               // the highest whose TermStart was applied
	termBegan  time.Duration
}

// counts is what a run has to report.
type counts struct {
	faults       map[string]int
	leaderFaults int

	// snapshotLoops are servers that stopped because raft had them install the same snapshot again and again, which only a
	// new start ends: see the list of raft's holes in package raftnode. Logs that are cut as short as here bring it on.
	snapshotLoops int

	stood int // elections that a server stood for because its leader's process was dead
}

// session is a client's, and where it was opened.
type session struct {
	*coord.Session
	on *slot
}

// slot is the place of a server: its name, its address, its disk.
type slot struct {
	w    *world
	i    int
	addr string
	disk disk

	mu   sync.Mutex
	node *coord.Node // nil while none runs
}

func newWorld(t *testing.T, seed uint64, commitTimeout time.Duration) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		t: t, begun: time.Now(), rng: rng, lab: lab.New(commitTimeout), raft: history.NewRaft(), resource: fence.NewMemory(),
		sessions: make(map[coord.SessionID]session), expired: make(map[coord.SessionID]time.Duration),
		observers: make(map[string]*observer), leaders: make(map[uint64]*observer),
	}
	w.counts.faults = make(map[string]int)
	w.rec = history.NewRecorder(w.now, nil, 1)
	w.lab.Seed(seed)
	w.lab.SetCheckEvery(100)
	w.lab.SetSnapshots(uint64(20+rng.IntN(300)), time.Duration(1+rng.IntN(5))*time.Second)
	w.lab.SetObserver(w.observer)
	size := []int{3, 3, 4, 5}[rng.IntN(4)]
	w.voters = size - 1 + size%2
	for i := range size {
		s := &slot{w: w, i: i, addr: fmt.Sprintf("server%d:1", i)}
		w.slots = append(w.slots, s)
		w.lab.SetFaults(s.addr, s.disk.faults(w.lab, s.addr))
		w.lab.SetClockRate(s.addr, 1+0.001*(2*rng.Float64()-1))
	}
	return w
}

func (w *world) now() time.Duration { return time.Since(w.begun) }

// form starts the cell. One of four servers joins later: it becomes the non-voter.
func (w *world) form() {
	all := w.slots
	w.slots = all[:w.voters]
	for _, s := range w.slots {
		w.start(s)
	}
	w.settle("forming")
	w.slots = all
	w.settle("forming")
}

// begin starts the clients.
func (w *world) begin(seed uint64) { w.load = load.Start(context.Background(), w.clients(seed)) }

func (w *world) clients(seed uint64) load.Config {
	return load.Config{
		Record: w.rec, Node: w.nodeOf, Resource: w.resource, Complain: w.violated,
		Opened: func(client int, s *coord.Session) { w.opened(w.slots[client%len(w.slots)], s) },
		Seed:   seed, First: 1, Lockers: 5, Candidates: 2, Writers: 4, Watchers: 3, Locks: 2, Elections: 1, Keys: 3,
		TTL: ttl, Think: 400 * time.Millisecond, Overrun: 10 * time.Millisecond,
	}
}

func (w *world) nodeOf(client int) *coord.Node { return w.slots[client%len(w.slots)].running() }

func (w *world) opened(on *slot, s *coord.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions[s.ID()] = session{s, on}
}

// violated notes that a guarantee was broken.
func (w *world) violated(guarantee, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, history.Violation{Guarantee: guarantee, Text: text, At: w.now()})
}

// start starts a server on the disk that its slot has.
func (w *world) start(s *slot) {
	err := s.start()
	if err == nil {
		return
	}
	if s.disk.lost() {
		w.lab.SetDisk(s.addr, nil)
		s.disk.replaced()
		err = s.start()
	}
	if err != nil {
		w.violated("G11", fmt.Sprintf("server %d does not start: %v", s.i, err))
	}
}

func (s *slot) start() error {
	cfg := coord.Config{
		Name: fmt.Sprint("server", s.i), InMemory: true, Listen: s.addr, Expect: s.w.voters,
		ElectionTimeout: election, Transport: s.w.lab, Limits: coord.Limits{HistoryEvents: 300},
		Logger: slog.New(slog.NewTextHandler(&logs{w: s.w, server: s.i}, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if s.i >= s.w.voters {
		cfg.Expect = 0
	}
	for _, other := range s.w.slots {
		cfg.Join = append(cfg.Join, other.addr)
	}
	n, err := coord.Start(context.Background(), cfg)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.node = n
	return nil
}

func (s *slot) running() *coord.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node
}

// kill ends a server as kill -9 does.
func (w *world) kill(s *slot) {
	w.killed(s.addr)
	w.lab.Kill(s.addr)
	s.mu.Lock()
	n := s.node
	s.node = nil
	s.mu.Unlock()
	s.disk.disarm()
	s.disk.release()
	if n != nil {
		n.Close()
		time.Sleep(time.Millisecond) // calls of the store that had been given up are over by then
	}
	w.lab.Resume(s.addr)
	if left := s.disk.crashed(); left != nil {
		w.lab.SetDisk(s.addr, left)
	}
}

// revive starts the servers that were killed, and those that have stopped because of what was done to their disks, or to
// get out of a loop of raft's. One that has stopped for another reason is a violation.
func (w *world) revive() {
	for _, s := range w.slots {
		n := s.running()
		if n != nil && n.Err() == nil {
			continue
		}
		if n != nil {
			switch {
			case s.disk.explains(n.Err()):
			case errors.Is(n.Err(), raftnode.ErrSnapshotLoop):
				w.counts.snapshotLoops++
			default:
				w.violated("G10", fmt.Sprintf("server %d has stopped: %v", s.i, n.Err()))
			}
			s.disk.heal()
			w.kill(s)
		}
		s.disk.heal()
		w.start(s)
	}
}

// leader is the server that leads, or nil.
func (w *world) leader() *slot {
	for _, s := range w.slots {
		if n := s.running(); n != nil && n.Status().IsLeader {
			return s
		}
	}
	return nil
}

// heal ends every fault but those that are of the processes themselves, such as the rates of their clocks.
func (w *world) heal() {
	w.lab.HealAll()
	for _, s := range w.slots {
		w.lab.Resume(s.addr)
		s.disk.disarm()
		s.disk.release()
	}
	w.revive()
}

// settle ends all faults and waits until the cell is whole.
func (w *world) settle(after string) {
	w.heal()
	healed := w.now()
	led := false
	for !w.whole() {
		led = led || w.leader() != nil
		if !led && w.now() > healed+10*election {
			w.violated("liveness", fmt.Sprintf("nobody has led since %s, healed at %v: %s", after, healed, w.state()))
			led = true // told once
		}
		if w.now() > healed+patience {
			w.violated("liveness", fmt.Sprintf("not whole %v after %s, healed at %v: %s", patience, after, healed, w.state()))
			return
		}
		time.Sleep(election / 5)
		w.revive()
	}
	w.t.Logf("%8.3fs whole %v after %s", w.now().Seconds(), w.now()-healed, after)
}

// whole says whether every server is ready, and as many vote as should.
func (w *world) whole() bool {
	for _, s := range w.slots {
		n := s.running()
		if n == nil {
			return false
		}
		ready, cancel := context.WithTimeout(context.Background(), 2*election)
		err := n.WaitReady(ready)
		cancel()
		if err != nil {
			return false
		}
		voters := 0
		members := n.Members()
		for _, m := range members {
			if m.Voter {
				voters++
			}
		}
		if len(members) != w.present() || voters != min(w.voters, w.present()) {
			return false
		}
	}
	return true
}

// present is how many servers run.
func (w *world) present() (n int) {
	for _, s := range w.slots {
		if s.running() != nil {
			n++
		}
	}
	return n
}

func (w *world) state() string {
	var out strings.Builder
	for _, s := range w.slots {
		n := s.running()
		if n == nil {
			fmt.Fprintf(&out, "\n  server%d does not run", s.i)
			continue
		}
		fmt.Fprintf(&out, "\n  server%d: %+v; members %+v; err %v", s.i, n.Status(), n.Members(), n.Err())
	}
	return out.String()
}

// logs is where a server's errors go: a recovered panic is one.
type logs struct {
	w      *world
	server int
}

func (l *logs) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "panic") {
		l.w.violated("G12", fmt.Sprintf("server %d: %s", l.server, line))
	}
	return len(line), nil
}

// errCrash is what a call of the store returns in a process that has just died: nobody sees it.
var errCrash = fmt.Errorf("the process died: %w", syscall.EIO)
