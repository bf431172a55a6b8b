package raftnode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coordcell/coord/internal/failstop"
)

// The cells of these tests run in synctest bubbles: time is virtual, and a goroutine that is left blocked at the end
// fails the test.

const (
	latency  = time.Millisecond
	election = 300 * time.Millisecond
)

// cell is a raft group over raft.InmemTransport with faults on the way.
type cell struct {
	t     *testing.T
	nodes []*member
}

// member is one node with everything that outlives it.
type member struct {
	*Node
	cfg     Config
	machine *recorder
	store   *memStore
	snaps   *raft.InmemSnapshotStore
	wire    *wire
	sw      *failstop.Switch
	acts    *activity
}

// startCell starts voters n0, n1, … and non-voters after them, and waits for an active leader.
func startCell(t *testing.T, voters, nonvoters int, mod func(i int, c *Config)) *cell {
	c := &cell{t: t}
	t.Cleanup(c.stop)
	for i := range voters + nonvoters {
		c.add(fmt.Sprintf("n%d", i), func(cfg *Config) {
			if mod != nil {
				mod(i, cfg)
			}
		})
	}
	var ids []string
	for _, m := range c.nodes[:voters] {
		ids = append(ids, m.ID())
	}
	if err := c.nodes[0].Bootstrap(ids); err != nil {
		t.Fatal(err)
	}
	l := c.leader()
	for _, m := range c.nodes[voters:] {
		_, index := l.Configuration()
		if err := l.AddNonvoter(t.Context(), m.ID(), index); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// add makes a new member and opens it.
func (c *cell) add(id string, mod func(*Config)) *member {
	m := &member{
		machine: &recorder{},
		store:   newMemStore(),
		snaps:   raft.NewInmemSnapshotStore(),
		sw:      failstop.New(),
		acts:    &activity{},
	}
	m.store.sw = m.sw
	m.wire = newWire(id)
	m.cfg = Config{
		ID: id, Transport: m.wire, Logs: m.store, Stable: m.store, Snapshots: m.snaps, Machine: m.machine, Switch: m.sw,
		ElectionTimeout: election,
		TermStart:       func(nonce [16]byte) []byte { return append([]byte("T"), nonce[:]...) },
		Activated:       m.acts.activated, Deactivated: m.acts.deactivated,
	}
	mod(&m.cfg)
	c.nodes = append(c.nodes, m)
	c.open(m)
	return m
}

// open starts a member, anew if it ran before: on what its stores hold.
func (c *cell) open(m *member) {
	m.wire = newWire(m.cfg.ID)
	m.cfg.Transport = m.wire
	for _, o := range c.nodes {
		if o != m {
			m.wire.Connect(raft.ServerAddress(o.cfg.ID), o.wire.InmemTransport)
			o.wire.Connect(raft.ServerAddress(m.cfg.ID), m.wire.InmemTransport)
		}
	}
	n, err := Open(m.cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	m.Node = n
}

// restart opens a stopped member with a new switch and an empty machine.
func (c *cell) restart(m *member) {
	m.sw, m.machine, m.acts = failstop.New(), &recorder{}, &activity{}
	m.store.sw = m.sw
	m.cfg.Switch, m.cfg.Machine = m.sw, m.machine
	m.cfg.Activated, m.cfg.Deactivated = m.acts.activated, m.acts.deactivated
	c.open(m)
}

func (c *cell) stop() {
	for _, m := range c.nodes {
		if err := m.Shutdown(); err != nil {
			c.t.Error(err)
		}
	}
	for _, m := range c.nodes {
		if err := m.acts.check(); err != nil {
			c.t.Errorf("%s: %v", m.ID(), err)
		}
	}
	time.Sleep(20 * election) // what still sleeps in a wire
}

// leader waits for an active leader that is not one of these.
func (c *cell) leader(not ...*member) *member {
	c.t.Helper()
	for range 6000 {
		for _, m := range c.nodes {
			if !slices.Contains(not, m) && m.ActiveTerm() != 0 {
				return m
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("no leader")
	return nil
}

func (c *cell) others(not ...*member) []*member {
	var ms []*member
	for _, m := range c.nodes {
		if !slices.Contains(not, m) {
			ms = append(ms, m)
		}
	}
	return ms
}

// cut stops everything between m and these, in both directions.
func (c *cell) cut(m *member, from ...*member) {
	for _, o := range from {
		m.wire.cut(o.ID(), true)
		o.wire.cut(m.ID(), true)
	}
}

func (c *cell) heal() {
	for _, m := range c.nodes {
		for _, o := range c.nodes {
			m.wire.cut(o.ID(), false)
			m.wire.slow(o.ID(), 0)
		}
	}
}

func (m *member) propose(t *testing.T, s string) {
	t.Helper()
	if err := m.Propose(t.Context(), []byte(s)); err != nil {
		t.Fatalf("%s: propose %q: %v", m.ID(), s, err)
	}
}

// eventually waits up to a virtual minute.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 6000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("not within a minute: %s", what)
}

// wire is a raft.Transport that can be cut and slowed per peer, on the sending side. Pipelines are left to the tests
// over streams.
type wire struct {
	*raft.InmemTransport
	mu    sync.Mutex
	isCut map[string]bool
	delay map[string]time.Duration // of answers
	sent  func()                   // called with each request
}

func newWire(id string) *wire {
	_, inner := raft.NewInmemTransportWithTimeout(raft.ServerAddress(id), election)
	return &wire{InmemTransport: inner, isCut: make(map[string]bool), delay: make(map[string]time.Duration)}
}

func (w *wire) cut(id string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut[id] = cut
}

func (w *wire) slow(id string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay[id] = d
}

func newSwitch() *failstop.Switch { return failstop.New() }

var errCut = errors.New("cut")

func (w *wire) before(id raft.ServerID) error {
	w.mu.Lock()
	sent := w.sent
	w.mu.Unlock()
	if sent != nil {
		sent()
	}
	time.Sleep(latency)
	w.mu.Lock()
	cut := w.isCut[string(id)]
	w.mu.Unlock()
	if cut {
		time.Sleep(election - latency)
		return errCut
	}
	return nil
}

func (w *wire) after(id raft.ServerID) {
	w.mu.Lock()
	d := w.delay[string(id)]
	w.mu.Unlock()
	time.Sleep(d)
}

func (w *wire) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (w *wire) AppendEntries(id raft.ServerID, a raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := w.before(id); err != nil {
		return err
	}
	err := w.InmemTransport.AppendEntries(id, a, req, resp)
	w.after(id)
	return err
}

func (w *wire) RequestVote(id raft.ServerID, a raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := w.before(id); err != nil {
		return err
	}
	err := w.InmemTransport.RequestVote(id, a, req, resp)
	w.after(id)
	return err
}

func (w *wire) RequestPreVote(id raft.ServerID, a raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := w.before(id); err != nil {
		return err
	}
	err := w.InmemTransport.RequestPreVote(id, a, req, resp)
	w.after(id)
	return err
}

func (w *wire) InstallSnapshot(id raft.ServerID, a raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, r io.Reader) error {
	if err := w.before(id); err != nil {
		return err
	}
	return w.InmemTransport.InstallSnapshot(id, a, req, resp, r)
}

func (w *wire) TimeoutNow(id raft.ServerID, a raft.ServerAddress, req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if err := w.before(id); err != nil {
		return err
	}
	return w.InmemTransport.TimeoutNow(id, a, req, resp)
}

// recorder is a Machine that keeps the commands it applied.
type recorder struct {
	mu      sync.Mutex
	applied []string
	restore time.Duration // how long a Restore takes
	fail    func(data []byte) error
	snapErr error
}

func (r *recorder) Apply(index, term uint64, data []byte) (*[16]byte, error) {
	if len(data) == 17 && data[0] == 'T' {
		return (*[16]byte)(data[1:]), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		if err := r.fail(data); err != nil {
			return nil, err
		}
	}
	r.applied = append(r.applied, string(data))
	return nil, nil
}

func (r *recorder) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.applied)
}

func (r *recorder) has(s string) bool { return slices.Contains(r.list(), s) }

func (r *recorder) Snapshot() (Snapshot, error) {
	return recorded(r.list()), r.snapErr
}

func (r *recorder) Restore(rd io.Reader) error {
	b, err := io.ReadAll(rd)
	if err != nil {
		return err
	}
	time.Sleep(r.restore)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied = nil
	for _, s := range bytes.Split(b, []byte("\n")) {
		if len(s) > 0 {
			r.applied = append(r.applied, string(s))
		}
	}
	return nil
}

type recorded []string

func (s recorded) Persist(w io.Writer) error {
	for _, c := range s {
		if _, err := io.WriteString(w, c+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (s recorded) Release() {}

// activity checks that Activated and Deactivated come in pairs and in order.
type activity struct {
	mu    sync.Mutex
	terms []uint64
	on    bool
	bad   error
}

func (a *activity) activated(term uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on || (len(a.terms) > 0 && a.terms[len(a.terms)-1] >= term) {
		a.bad = fmt.Errorf("activated for %d after %v, still active: %v", term, a.terms, a.on)
	}
	a.terms, a.on = append(a.terms, term), true
}

func (a *activity) deactivated(term uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.on || a.terms[len(a.terms)-1] != term {
		a.bad = fmt.Errorf("deactivated for %d after %v, active: %v", term, a.terms, a.on)
	}
	a.on = false
}

func (a *activity) check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on {
		return errors.New("still active")
	}
	return a.bad
}

// memStore is a log and stable store with the contract that Config asks for: it throws the switch before a failed call
// returns, and after that does nothing and reports no error. It can be made to fail and to hang.
type memStore struct {
	*raft.InmemStore
	sw        *failstop.Switch
	mu        sync.Mutex
	failWrite error
	failTrunc error              // reported to raft without a word to the switch, as a bare store would
	hang      chan struct{}      // writes of the log wait for it to be closed
	delay     time.Duration      // of each write of the log
	read      func(index uint64) // called before an entry is read
}

func newMemStore() *memStore { return &memStore{InmemStore: raft.NewInmemStore()} }

func (s *memStore) IsMonotonic() bool { return true }

func (s *memStore) set(f func(*memStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// write is false if the write is not to be done.
func (s *memStore) write(log bool) bool {
	s.mu.Lock()
	err, hang, delay := s.failWrite, s.hang, s.delay
	s.mu.Unlock()
	if log {
		time.Sleep(delay)
		if hang != nil {
			<-hang
		}
	}
	if err != nil && s.sw != nil {
		s.sw.Trip(err)
	}
	return s.sw == nil || s.sw.Err() == nil
}

func (s *memStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

func (s *memStore) StoreLogs(ls []*raft.Log) error {
	if !s.write(true) {
		return nil
	}
	own := make([]*raft.Log, len(ls)) // InmemTransport shares entries between nodes
	for i, l := range ls {
		c := *l
		own[i] = &c
	}
	return s.InmemStore.StoreLogs(own)
}

func (s *memStore) GetLog(index uint64, l *raft.Log) error {
	s.mu.Lock()
	read := s.read
	s.mu.Unlock()
	if read != nil {
		read(index)
	}
	err := s.InmemStore.GetLog(index, l)
	if err != nil && s.sw != nil && s.sw.Err() != nil {
		*l = raft.Log{Index: index, Type: raft.LogNoop}
		return nil
	}
	return err
}

func (s *memStore) DeleteRange(lo, hi uint64) error {
	s.mu.Lock()
	err := s.failTrunc
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if !s.write(true) {
		return nil
	}
	return s.InmemStore.DeleteRange(lo, hi)
}

func (s *memStore) Set(k, v []byte) error {
	if !s.write(false) {
		return nil
	}
	return s.InmemStore.Set(k, v)
}

func (s *memStore) SetUint64(k []byte, v uint64) error {
	if !s.write(false) {
		return nil
	}
	return s.InmemStore.SetUint64(k, v)
}

func TestCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 1, nil)
		l := c.leader()
		for i := range 20 {
			l.propose(t, fmt.Sprint("c", i))
		}
		index, err := l.ReadIndex(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.nodes {
			if err := m.WaitApplied(t.Context(), index); err != nil {
				t.Fatal(err)
			}
			if got := m.machine.list(); len(got) != 20 || got[19] != "c19" {
				t.Errorf("%s applied %v", m.ID(), got)
			}
			if id, term := m.Leader(); id != l.ID() || term != l.ActiveTerm() {
				t.Errorf("%s knows leader %q of term %d", m.ID(), id, term)
			}
			servers, at := m.Configuration()
			if want := []Server{{"n0", true}, {"n1", true}, {"n2", true}, {"n3", false}}; !slices.Equal(servers, want) || at == 0 {
				t.Errorf("%s has configuration %v of index %d", m.ID(), servers, at)
			}
			if age := m.EvidenceAge(); age < 0 || age > election {
				t.Errorf("%s has evidence %v old", m.ID(), age)
			}
		}
		for _, p := range l.Progress() {
			if p.Match != l.LastIndex() {
				t.Errorf("progress of %s is %d, not %d", p.ID, p.Match, l.LastIndex())
			}
		}
	})
}

func TestSingleVoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 1, 0, nil)
		l := c.leader()
		l.propose(t, "x")
		start := time.Now()
		if _, err := l.ReadIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("a read took %v", d)
		}
		if age := l.EvidenceAge(); age != 0 {
			t.Errorf("evidence is %v old", age)
		}
	})
}
