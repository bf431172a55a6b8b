package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/expiry"
	"github.com/coordcell/coord/internal/failstop"
	"github.com/coordcell/coord/internal/forming"
	"github.com/coordcell/coord/internal/gossip"
	"github.com/coordcell/coord/internal/hub"
	"github.com/coordcell/coord/internal/raftnode"
	"github.com/coordcell/coord/internal/replica"
	"github.com/coordcell/coord/internal/store"
	"github.com/coordcell/coord/transport"
)

// Config says what server to start. The public package has checked it and filled in the defaults.
type Config struct {
	Name, Cell        string
	Dir               string
	LogStore          string // "" is as Dir has it
	InMemory          bool
	Listen, Advertise string
	Join              []string
	Expect            int
	ElectionTimeout   time.Duration
	Limits            Limits
	Logger            *slog.Logger
	Network           transport.Network

	// Applied and LeaderChanged are told what happens, Applied once the node has caught up. They must not block.
	Applied       func(out *fsm.Output, since func(fsm.Revision) time.Duration)
	LeaderChanged func(leader string, term uint64)
}

// maxInFlight bounds the requests under way on one connection: a server waits at the leader for all that its clients'
// queued locks wait for.
const maxInFlight = 1 << 20

// Pace is a Network that also decides how often a server does what it does seldom: with 0 as often as in production. It
// is for tests and trials, which must see in minutes what else takes hours.
type Pace interface {
	CommitTimeout() time.Duration                          // raft's
	Snapshots() (threshold uint64, interval time.Duration) // raft's; threshold is also its TrailingLogs
	CheckEvery() uint64                                    // entries between two comparisons of the replicas
}

// Laboratory is a Pace that decides and sees more, for tests: what an InMemory server keeps its things in, so that it can
// be started again; how that fails; what a server sends and applies; and its state.
type Laboratory interface {
	Pace
	Disk(listen string) *store.Disk
	Faults(listen string) store.Faults
	Observer(listen string) raftnode.Observer
	Opened(listen string, state func() *fsm.State)
}

// Server is one node. All methods may be called concurrently.
type Server struct {
	cfg  Config
	id   string
	name string
	log  *slog.Logger

	endpoint transport.Endpoint
	mux      *transport.Mux
	ports    *ports
	store    *store.Store
	trip     *failstop.Switch
	gossip   *gossip.Gossip
	calls    *calls.Exchange
	raft     *raftnode.Node
	replica  *replica.Replica
	hub      *hub.Hub
	expiry   *expiry.Table[fsm.SessionID]
	timed    timed
	formats  formats
	packer   *packer
	caller   *caller.Caller

	processes *processes
	rounds    rounds
	guests    guests
	relays    relays
	renewals  *renewals
	remnants  remnants
	abouts    abouts
	lead      *leadership
	settling  settling
	forming   *forming.Forming
	unreached unreached

	caughtUp atomic.Bool // once with a leader, since the start

	learn  chan struct{} // of one: the members in the state have changed
	opened chan struct{} // closed when every part has been made

	*caller.Life
	stop context.Context // ends when the node begins to stop
}

// Start opens the directory and the port, and goes on to find, form or join the cell in the background.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{
		cfg: cfg, log: cfg.Logger, trip: failstop.New(), Life: caller.NewLife(),
		lead: newLeadership(), renewals: newRenewals(), learn: make(chan struct{}, 1), opened: make(chan struct{}),
		processes: newProcesses(),
	}
	s.stop = s.Lasting()
	if err := s.open(ctx); err != nil {
		s.Halt()
		s.release()
		return nil, err
	}
	s.run()
	return s, nil
}

// open makes the parts, in the order in which they need each other. What it has made when it fails, release undoes.
func (s *Server) open(ctx context.Context) error {
	if err := s.openStore(); err != nil {
		return err
	}
	s.id = s.store.ID()
	if s.cfg.Name == "" {
		s.cfg.Name = caller.DefaultName(s.id)
	}
	s.name = s.cfg.Name
	s.log = s.log.With("node", s.name)
	var err error
	if s.endpoint, err = s.cfg.Network.Listen(ctx, s.cfg.Listen); err != nil {
		return err
	}
	if s.cfg.Advertise == "" {
		s.cfg.Advertise = advertised(s.endpoint.Addr())
	}
	cellID, _ := s.store.CellID()
	s.mux, err = transport.NewMux(s.endpoint, transport.MuxConfig{
		Cell: s.cfg.Cell, Node: s.id, Boot: bootID(), CellID: cellID, Logger: s.log,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	s.endpoint = nil // the mux's
	s.ports = openPorts(s.mux)

	replicaConfig := replica.Config{
		Applied: s.applied, Restored: s.restored, Hashed: s.hashed, Mismatch: s.mismatch, Now: s.now,
	}
	raftConfig := raftnode.Config{
		ID: s.id, Logs: s.store.Logs(), Stable: s.store.Stable(), Snapshots: s.store.Snapshots(), Switch: s.trip,
		ElectionTimeout: s.cfg.ElectionTimeout,
		TermStart:       s.termStart, Activated: s.activated, Deactivated: s.deactivated, Now: s.now, Logger: s.log,
	}
	if pace, ok := s.cfg.Network.(Pace); ok {
		replicaConfig.CheckEvery, raftConfig.CommitTimeout = pace.CheckEvery(), pace.CommitTimeout()
		raftConfig.SnapshotThreshold, raftConfig.SnapshotInterval = pace.Snapshots()
		raftConfig.TrailingLogs = raftConfig.SnapshotThreshold
	}
	s.replica = replica.New(replicaConfig)
	if lab, ok := s.cfg.Network.(Laboratory); ok {
		raftConfig.Observer = lab.Observer(s.cfg.Listen)
		lab.Opened(s.cfg.Listen, s.replica.Clone)
	}
	s.hub = hub.New(hub.Config{
		Source: s.replica, Fresh: s.EvidenceAge,
		StaleAfter: 2 * s.cfg.ElectionTimeout, Progress: min(500*time.Millisecond, s.cfg.ElectionTimeout),
	})
	s.expiry = expiry.New(expiry.Config[fsm.SessionID]{Now: s.now, Compare: cmp.Compare[fsm.SessionID], Evidence: s.evidence, Propose: s.expire})
	s.timed = newTimed(s)
	s.caller = caller.New(caller.Config{
		Cell: s, Node: s.id, Name: s.name, ElectionTimeout: s.cfg.ElectionTimeout, MaxTTL: s.cfg.Limits.MaxTTL,
		Now: s.now, Stop: s.stop, Stopped: s.Stopped, Go: s.Go, Logger: s.log,
	})
	s.packer = newPacker(s.write)
	if err := s.openGossip(); err != nil {
		return err
	}
	if err := s.openForming(); err != nil {
		return err
	}
	raftConfig.Streams = raftnode.Streams(s.id, s.ports.raft(s.gossip.Lookup, s.processes))
	raftConfig.Machine = machine{s.replica, s.opened}
	s.raft, err = raftnode.Open(raftConfig)
	if err != nil {
		return err
	}
	s.calls = calls.New(calls.Config{
		Mux: s.mux, Directory: s.gossip, Handler: s.serve, Switch: s.trip,
		Logger: s.log, Timeout: s.cfg.ElectionTimeout, MaxInFlight: maxInFlight, IsClient: s.isClient,
	})
	s.ports.pumps.Go(s.calls.Serve)
	close(s.opened)
	return nil
}

func (s *Server) openStore() (err error) {
	opts := store.Options{Cell: s.cfg.Cell, Switch: s.trip, OnStall: s.stalled, Logger: s.log}
	lab, inLab := s.cfg.Network.(Laboratory)
	switch {
	case s.cfg.InMemory && inLab:
		opts.Faults = lab.Faults(s.cfg.Listen)
		s.store, err = store.OpenDisk(lab.Disk(s.cfg.Listen), opts)
	case s.cfg.InMemory:
		s.store, err = store.InMemory(opts)
	default:
		opts.LogStore = store.LogStore(s.cfg.LogStore)
		s.store, err = store.Open(s.cfg.Dir, opts)
	}
	switch {
	case errors.Is(err, store.ErrDirInUse):
		return fmt.Errorf("%w: %w", ErrDirInUse, err)
	case errors.Is(err, store.ErrOtherLog):
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	case errors.Is(err, store.ErrWrongCell):
		return fmt.Errorf("%w: %w", ErrWrongCell, err)
	default:
		return err
	}
}

// run starts what goes on in the background.
func (s *Server) run() {
	s.Go(func() { s.packer.run(s.stop) })
	s.Go(s.caller.Run)
	s.Go(s.followLeader)
	s.Go(s.watchLeader)
	s.Go(s.followCell)
	s.Go(s.catchUp)
	s.Go(s.watchEvidence)
	s.Go(s.watch)
	s.Go(s.keepPeers)
	s.Go(s.form)
}

// followLeader tells of changes of the leader: also those who wait for a connection to the last one, or to the next.
func (s *Server) followLeader() {
	lastLeader, lastTerm := "", uint64(0)
	for {
		changed := s.raft.LeaderChanged()
		leader, term := s.raft.Leader()
		if s.cfg.LeaderChanged != nil && (leader != lastLeader || term != lastTerm) {
			s.cfg.LeaderChanged(leader, term)
		}
		if leader != lastLeader && leader != "" && leader != s.id {
			s.log.Info("following", "leader", leader, "term", term)
		}
		if leader != lastLeader {
			s.calls.GiveUp(lastLeader)
			s.calls.Hurry(leader)
		}
		lastLeader, lastTerm = leader, term
		select {
		case <-changed:
		case <-s.stop.Done():
			return
		}
	}
}

// watch stops the node when its switch is thrown.
func (s *Server) watch() {
	select {
	case <-s.trip.Tripped():
		go s.end(s.trip.Err()) // end waits for this goroutine
	case <-s.stop.Done():
	}
}

// stalled is called when the disk does not answer: whoever leads hands leadership on before the switch is thrown.
func (s *Server) stalled() {
	select {
	case <-s.opened:
		s.raft.Stall()
	default:
	}
}

// fail throws the switch: nothing leaves this node any more.
func (s *Server) fail(err error) { s.trip.Trip(err) }

// ID is the node's id.
func (s *Server) ID() string { return s.id }

// Name is what people call it.
func (s *Server) Name() string { return s.name }

// Addr is the address it listens on.
func (s *Server) Addr() string { return s.mux.Addr() }

// EvidenceAge is the age of the last proof of a leader; very long if there never was one.
func (s *Server) EvidenceAge() time.Duration {
	if age := s.raft.EvidenceAge(); age >= 0 {
		return age
	}
	return 1<<63 - 1
}

// write has an entry written to the log. See packer.start.
func (s *Server) write(entry []byte, done func(error)) {
	s.raft.Start(entry, func(err error) {
		if errors.Is(err, raftnode.ErrNotProposed) {
			err = fmt.Errorf("%w: %w", errNotSent, err)
		}
		done(err)
	})
}

// isClient: a peer that is neither known by gossip nor one of the cell's configuration is a client node.
func (s *Server) isClient(peer string) bool {
	if _, known := s.gossip.Lookup(peer); known {
		return false
	}
	servers, _ := s.raft.Configuration()
	return !slices.ContainsFunc(servers, func(srv raftnode.Server) bool { return srv.ID == peer })
}

// now is the lease clock.
func (s *Server) now() time.Duration { return s.mux.Now() }

func (s *Server) params() (p fsm.Params) {
	s.replica.View(func(state *fsm.State) { p = state.Params() })
	return p
}

// evidence waits for proof, from after the call, that this server still leads the term.
func (s *Server) evidence(ctx context.Context, term uint64) error {
	return s.raft.WaitEvidence(ctx, term, s.raft.Stamp(), true)
}

// machine is what raft drives.
type machine struct {
	*replica.Replica
	opened <-chan struct{}
}

// Apply waits until every part that an entry may touch has been made.
func (m machine) Apply(index, term uint64, data []byte) (*[16]byte, error) {
	<-m.opened
	return m.Replica.Apply(index, term, data)
}

func (m machine) Snapshot() (raftnode.Snapshot, error) { return m.Replica.Snapshot(), nil }
