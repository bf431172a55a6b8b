package forming

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord/internal/gossip"
	"github.com/coordcell/coord/internal/wire"
)

// world is a set of servers with disks, and the network between them. It plays gossip and raft as far as forming sees
// them: servers that run and are not cut off are seen, and a cell has a leader while a majority of it runs.
type world struct {
	t      *testing.T
	expect int
	ctx    context.Context
	end    context.CancelFunc
	tasks  sync.WaitGroup

	mu      sync.Mutex
	rnd     *rand.Rand
	faults  faults
	servers map[string]*server
	boots   []boot
	refuse  string // why cells refuse whoever asks, if not empty
}

// faults are probabilities, per call or write.
type faults struct {
	loseRequest, loseReply, double float64
	crash                          float64 // around a write to the disk
}

// boot is the bootstrap of one server.
type boot struct {
	id, cellID string
	servers    []string
}

// server is a process, which may be down, and its disk.
type server struct {
	w            *world
	id, name     string
	expect       int
	limits       string
	mute         bool // it is seen, and does not answer
	cut          int  // servers reach each other if they have the same number
	record       []byte
	cellID       string
	bootstrapped []string

	forming *Forming // nil: it does not run
	stop    context.CancelFunc
	err     error // how Run ended
}

var errCrash = errors.New("the process crashes")

func newWorld(t *testing.T, seed uint64, expect int) *world {
	w := &world{t: t, expect: expect, rnd: rand.New(rand.NewPCG(seed, 1)), servers: make(map[string]*server)}
	w.ctx, w.end = context.WithCancel(context.Background())
	return w
}

// close ends everything that runs.
func (w *world) close() {
	w.end()
	w.tasks.Wait()
}

// add makes a server that does not run yet.
func (w *world) add(id string) *server {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &server{w: w, id: id, name: "name-" + id, expect: w.expect, limits: "L"}
	w.servers[id] = s
	return s
}

func (s *server) start() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.forming != nil {
		return
	}
	ctx, stop := context.WithCancel(s.w.ctx)
	var f *Forming
	f, err := New(Config{
		ID: s.id, Name: s.name, Addr: s.id + ":1", Cell: "c", CellID: s.cellID, Expect: s.expect, Limits: s.limits, Record: s.record,
		Ask: func(ctx context.Context, id string, method wire.Method, b []byte) ([]byte, error) {
			return s.w.call(ctx, s, id, method, b)
		},
		View: s,
		Save: func(b []byte) error { return s.write(f, func() { s.record = b }) },
		Bootstrap: func(cellID string, servers []string) error {
			return s.write(f, func() {
				s.cellID, s.bootstrapped = cellID, servers
				s.w.boots = append(s.w.boots, boot{s.id, cellID, servers})
			})
		},
		Joined: func(cellID string) error { return s.write(f, func() { s.cellID = cellID }) },
		Admit:  func(_ context.Context, r JoinRequest) JoinReply { return s.admit(r) },
	})
	if err != nil {
		s.w.t.Error(err)
	}
	s.forming, s.stop, s.err = f, stop, nil
	s.w.tasks.Go(func() {
		_, err := f.Run(ctx)
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		if s.forming == f && ctx.Err() == nil && err != nil {
			s.err = err
			s.crash()
		}
	})
}

// crash ends the process. The world's lock is held.
func (s *server) crash() {
	if s.forming != nil {
		s.stop()
		s.forming = nil
	}
}

func (s *server) kill() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.crash()
}

// write changes the disk on behalf of f, if that still runs, and may crash before or after.
func (s *server) write(f *Forming, change func()) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.forming != f {
		return errCrash
	}
	die := s.w.rnd.Float64() < s.w.faults.crash
	if die && s.w.rnd.IntN(2) == 0 {
		s.crash()
		return errCrash
	}
	change()
	if die {
		s.crash()
		return errCrash
	}
	return nil
}

func (s *server) Changed() <-chan struct{} { return nil }

func (s *server) Members() []gossip.Member {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var seen []gossip.Member
	for _, o := range s.w.servers {
		if o.forming != nil && o.cut == s.cut {
			seen = append(seen, gossip.Member{ID: o.id, Name: o.name, Expect: o.expect, HasState: o.cellID != "", Alive: true})
		}
	}
	return seen
}

// admit lets another server in while the cell has a leader.
func (s *server) admit(r JoinRequest) JoinReply {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if !s.w.leads(s) {
		return JoinReply{Code: Retry, Reason: "no leader"}
	}
	if s.w.refuse != "" {
		return JoinReply{Code: Refused, Reason: s.w.refuse}
	}
	return JoinReply{Code: Admitted}
}

// leads says whether s's cell has a majority of its first voters in reach of s.
func (w *world) leads(s *server) bool {
	set := w.voters(s.cellID)
	up := 0
	for _, id := range set {
		if o := w.servers[id]; o != nil && o.forming != nil && o.cut == s.cut && o.cellID == s.cellID {
			up++
		}
	}
	return len(set) > 0 && up >= majority(len(set))
}

func (w *world) voters(cellID string) []string {
	for _, b := range w.boots {
		if b.cellID == cellID {
			return b.servers
		}
	}
	return nil
}

func (w *world) chance(p *float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.Float64() < *p
}

func (w *world) latency(limit time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Millisecond + time.Duration(w.rnd.Int64N(int64(limit)))
}

// call carries a request and its reply, with faults.
func (w *world) call(ctx context.Context, from *server, to string, method wire.Method, payload []byte) ([]byte, error) {
	if w.chance(&w.faults.double) {
		w.tasks.Go(func() {
			select {
			case <-time.After(w.latency(20 * time.Second)):
				_, _ = w.deliver(w.ctx, from, to, method, payload)
			case <-w.ctx.Done():
			}
		})
	}
	time.Sleep(w.latency(20 * time.Millisecond))
	if w.chance(&w.faults.loseRequest) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	b, err := w.deliver(ctx, from, to, method, payload)
	time.Sleep(w.latency(20 * time.Millisecond))
	if w.chance(&w.faults.loseReply) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b, err
}

func (w *world) deliver(ctx context.Context, from *server, to string, method wire.Method, payload []byte) ([]byte, error) {
	w.mu.Lock()
	o := w.servers[to]
	if o == nil || o.forming == nil || o.cut != from.cut || o.mute {
		w.mu.Unlock()
		return nil, errors.New("unreachable")
	}
	f := o.forming
	w.mu.Unlock()
	return f.Handle(ctx, method, payload)
}

// living lists the cells that have come to life: a majority of their servers has bootstrapped.
func (w *world) living() map[string][]string {
	count := make(map[string]map[string]bool)
	for _, b := range w.boots {
		if count[b.cellID] == nil {
			count[b.cellID] = make(map[string]bool)
		}
		count[b.cellID][b.id] = true
	}
	alive := make(map[string][]string)
	for cell, ids := range count {
		if set := w.voters(cell); len(ids) >= majority(len(set)) {
			alive[cell] = set
		}
	}
	return alive
}

// check looks for what must never be.
func (w *world) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	sets := make(map[string][]string)
	once := make(map[string]string)
	for _, b := range w.boots {
		if set, ok := sets[b.cellID]; ok && !slices.Equal(set, b.servers) {
			return fmt.Errorf("cell %s bootstrapped as %v and as %v", b.cellID, set, b.servers)
		}
		if !slices.Contains(b.servers, b.id) {
			return fmt.Errorf("%s bootstrapped %v", b.id, b.servers)
		}
		if other, ok := once[b.id]; ok && other != b.cellID {
			return fmt.Errorf("%s bootstrapped %s and %s", b.id, other, b.cellID)
		}
		sets[b.cellID], once[b.id] = b.servers, b.cellID
	}
	alive := w.living()
	for x, s := range alive {
		for y, r := range alive {
			if x < y && slices.ContainsFunc(s, func(id string) bool { return slices.Contains(r, id) }) {
				return fmt.Errorf("cells %s of %v and %s of %v live", x, s, y, r)
			}
		}
	}
	return nil
}

// cells counts the running servers of each cell; the empty one is of those without.
func (w *world) cells() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := make(map[string]int)
	for _, s := range w.servers {
		if s.forming != nil {
			n[s.cellID]++
		}
	}
	return n
}

// together says whether all running servers are of one cell.
func (w *world) together() bool {
	n := w.cells()
	return len(n) == 1 && n[""] == 0
}
