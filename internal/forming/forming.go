package forming

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord/internal/gossip"
	"github.com/coordcell/coord/internal/wire"
)

// What makes it impossible for a server to get into a cell. Run returns errors that wrap them.
var (
	ErrDisagree  = errors.New("configurations disagree")
	ErrWrongCell = errors.New("wrong cell")
	ErrRefused   = errors.New("the cell refuses this server")
	ErrNameTaken = errors.New("a second live node of the same name")
)

// View is who can be seen; *gossip.Gossip is one.
type View interface {
	Members() []gossip.Member
	Changed() <-chan struct{} // closed at the next change of Members
}

// Config is what a server needs to get into a cell. The functions may be called concurrently, but Save, Bootstrap and
// Joined never at the same time. An error of one of those three ends Run: the disk is not to be trusted.
type Config struct {
	ID, Name, Addr string // Addr is what others dial
	Cell           string // name
	CellID         string // the cell it belongs to; empty: it has no state
	Expect         int    // servers that meet to form a new cell; 0: only join
	Limits         string // digest of the limits that are fixed when a cell forms
	Record         []byte // what Save was given last

	// Ask calls a method of the server id and waits for the answer.
	Ask  func(ctx context.Context, id string, method wire.Method, payload []byte) ([]byte, error)
	View View
	// Save writes the record; it is durable when Save returns.
	Save func(record []byte) error
	// Bootstrap makes this server a member of the new cell with these voters. It must write the cell id before anything
	// else: from then on the server has state. After a crash in between, the record's proposal has that cell id, and
	// says what to write.
	Bootstrap func(cellID string, servers []string) error
	// Joined makes the id of the cell that has admitted this server durable.
	Joined func(cellID string) error
	// Leader is the id of the leader that this server knows, or empty. May be nil.
	Leader func() string
	// Admit decides about another server, on the leader; elsewhere it redirects. May be nil: Retry.
	Admit func(context.Context, JoinRequest) JoinReply
	// Permanent says that an error of Ask will not go away, such as a handshake with another cell. May be nil.
	Permanent func(error) bool

	ElectionTimeout time.Duration // the scale of all times; 0: 1s
	Logger          *slog.Logger  // nil: none
}

// Outcome says how a server got into its cell.
type Outcome struct {
	CellID  string
	Servers []string // the first voters, if it bootstrapped; empty: it joined or had state
}

// Forming is a server's part in forming and joining cells.
type Forming struct {
	cfg Config
	log *slog.Logger

	mu      lock // held while the callbacks that write run
	record  Record
	cellID  string
	outcome Outcome
	failed  error         // of a callback
	settled chan struct{} // closed once cellID or failed is set

	waiting atomic.Pointer[string] // see Waiting; written by Run's goroutine only
}

// New prepares a server's part; Handle works from now on.
func New(cfg Config) (*Forming, error) {
	if cfg.Expect < 0 || cfg.Expect > maxServers {
		return nil, fmt.Errorf("forming: Expect is %d, must be 0 to %d", cfg.Expect, maxServers)
	}
	record, err := DecodeRecord(cfg.Record)
	if err != nil {
		return nil, fmt.Errorf("record of adopted proposals: %w", err)
	}
	if cfg.ElectionTimeout <= 0 {
		cfg.ElectionTimeout = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Forming{
		cfg: cfg, log: cfg.Logger, mu: newLock(), record: record, cellID: cfg.CellID, settled: make(chan struct{}),
	}
	if cfg.CellID != "" {
		f.outcome.CellID = cfg.CellID
		close(f.settled)
	}
	return f, nil
}

// Run waits until this server belongs to a cell, and does what is needed for that. It returns ctx's error, or one of
// the errors above, or an error of a callback that writes. A server with state returns at once.
func (f *Forming) Run(ctx context.Context) (Outcome, error) {
	for {
		changed := f.cfg.View.Changed()
		select {
		case <-f.settled:
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.outcome, f.failed
		default:
		}
		if err := f.round(ctx); err != nil {
			if errors.Is(err, ErrDisagree) { // the others shall see it too, by asking this server
				f.sleep(ctx, 3*f.cfg.ElectionTimeout, nil)
			}
			return Outcome{}, err
		}
		// Half of the pause always passes: servers that come up together would keep waking each other.
		pause := f.cfg.ElectionTimeout / 4
		f.sleep(ctx, pause/2+rand.N(pause), nil)
		f.sleep(ctx, pause+rand.N(2*pause), changed)
		if err := ctx.Err(); err != nil {
			return Outcome{}, err
		}
	}
}

// Rejoin is for a server with state: it waits until the leader says that the server is in the configuration. It may have
// been removed, or replaced by another one of its name, while it was away; then it is taken back without a vote, or
// refused. Servers of other cells are not asked. It returns ctx's error, or one of the errors above.
func (f *Forming) Rejoin(ctx context.Context) error {
	for {
		if f.cfg.Leader != nil && f.cfg.Leader() == f.cfg.ID {
			return nil
		}
		answers, _, err := f.survey(ctx, f.status())
		if err != nil {
			return err
		}
		if taken, err := f.tryJoin(ctx, answers); taken || err != nil {
			return err
		}
		timer := time.NewTimer(f.cfg.ElectionTimeout + rand.N(f.cfg.ElectionTimeout))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// sleep waits for d, or the end of ctx, or until this server is settled, or for early.
func (f *Forming) sleep(ctx context.Context, d time.Duration, early <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-f.settled:
	case <-early:
	}
}

// round asks everybody once and takes the step that follows. Its error is permanent.
func (f *Forming) round(ctx context.Context) error {
	me := f.status()
	if me.hasState() {
		return nil
	}
	answers, silent, err := f.survey(ctx, me)
	if err != nil {
		return err
	}
	if joined, err := f.tryJoin(ctx, answers); joined || err != nil {
		return err
	}
	next, err := decide(me, answers, silent)
	if err != nil {
		return err
	}
	switch {
	case next.wait != "":
		f.wait(next.wait)
	case next.complete:
		f.bootstrap(next.proposal)
	default:
		f.propose(ctx, next.proposal)
	}
	return nil
}

// Waiting says what Run waits for, as far as it knows; "" once this server belongs to a cell, and before the first round.
func (f *Forming) Waiting() string {
	w := f.waiting.Load()
	if w == nil {
		return ""
	}
	select {
	case <-f.settled:
		return ""
	default:
		return *w
	}
}

// wait records what Run waits for, and logs it where it is new.
func (f *Forming) wait(what string) {
	if last := f.waiting.Load(); last != nil && *last == what {
		return
	}
	f.waiting.Store(&what)
	f.log.Info("forming: waiting", "for", what)
}

// survey asks all servers that are seen, and those of the last proposal, where they stand. silent are those that ought
// to have answered and did not. A server that belongs to a cell is not disturbed by one of another cell.
func (f *Forming) survey(ctx context.Context, me status) (answers []status, silent []string, err error) {
	var ids []string
	counted := make(map[string]bool) // those that might be part of a new cell
	for _, m := range f.cfg.View.Members() {
		if m.Alive && m.ID != me.ID {
			ids = append(ids, m.ID)
			counted[m.ID] = m.Expect > 0
		}
	}
	ids = append(ids, me.Record.Servers...)
	slices.Sort(ids)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == me.ID })
	replies, errs := f.askAll(ctx, ids, wire.MethodQuery, nil)
	for i, id := range ids {
		s, err := decodeStatus(replies[i])
		if errs[i] != nil {
			err = errs[i]
		}
		switch {
		case err == nil && s.ID == id && s.Cell != me.Cell && me.hasState():
		case err == nil && s.ID == id && s.Cell != me.Cell:
			return nil, nil, fmt.Errorf("%w: node %s belongs to cell %q, this one to %q", ErrWrongCell, id, s.Cell, me.Cell)
		case err == nil && s.ID == id:
			answers = append(answers, s)
		case errs[i] != nil && !me.hasState() && f.cfg.Permanent != nil && f.cfg.Permanent(errs[i]):
			return nil, nil, fmt.Errorf("node %s: %w", id, errs[i])
		case counted[id]:
			silent = append(silent, id)
		}
	}
	return answers, silent, ctx.Err()
}

// askAll calls a method of each of ids at the same time.
func (f *Forming) askAll(ctx context.Context, ids []string, method wire.Method, payload []byte) ([][]byte, []error) {
	ctx, cancel := context.WithTimeout(ctx, 2*f.cfg.ElectionTimeout)
	defer cancel()
	replies, errs := make([][]byte, len(ids)), make([]error, len(ids))
	var calls sync.WaitGroup
	for i, id := range ids {
		calls.Go(func() { replies[i], errs[i] = f.cfg.Ask(ctx, id, method, payload) })
	}
	calls.Wait()
	return replies, errs
}

// propose has all servers of p adopt it, this one first, and has them bootstrap if all did.
func (f *Forming) propose(ctx context.Context, p Proposal) {
	if a := f.adopt(p); !a.OK {
		f.log.Info("forming: own proposal not adopted", "cell", p.CellID, "reason", a.Reason)
		return
	}
	others := slices.DeleteFunc(slices.Clone(p.Servers), func(id string) bool { return id == f.cfg.ID })
	replies, errs := f.askAll(ctx, others, wire.MethodAdopt, encodeProposal(p))
	for i, id := range others {
		a, err := decodeAnswer(replies[i])
		if err = errors.Join(errs[i], err); err != nil || !a.OK {
			f.log.Info("forming: proposal not adopted", "cell", p.CellID, "server", id, "reason", a.Reason, "error", err)
			return
		}
	}
	// The others first: should this server vanish now, they do not depend on it.
	f.askAll(ctx, others, wire.MethodForm, encodeProposal(p))
	f.bootstrap(p)
}

// tryJoin asks the cells of those that have state to admit this server, or only its own if it has one.
func (f *Forming) tryJoin(ctx context.Context, answers []status) (joined bool, err error) {
	own := f.status().CellID
	var targets []string
	for _, s := range answers {
		if !s.hasState() || own != "" && s.CellID != own {
			continue
		}
		if s.Leader != "" && s.Leader != f.cfg.ID {
			targets = append(targets, s.Leader)
		}
		targets = append(targets, s.ID)
	}
	asked := make(map[string]bool)
	for len(targets) > 0 && len(asked) < maxServers && ctx.Err() == nil {
		id := targets[0]
		targets = targets[1:]
		if asked[id] {
			continue
		}
		asked[id] = true
		r, err := f.askJoin(ctx, id)
		switch {
		case err != nil:
			f.log.Debug("forming: no answer to join", "server", id, "error", err)
		case r.Code == Admitted && r.CellID != "":
			f.join(r.CellID)
			return true, nil
		case r.Code == Refused:
			return false, fmt.Errorf("%w: node %s: %s", ErrRefused, id, r.Reason)
		case r.Code == Redirect && r.Leader != "":
			targets = append([]string{r.Leader}, targets...)
		default:
			f.log.Debug("forming: not admitted yet", "server", id, "reason", r.Reason)
		}
	}
	return false, nil
}

func (f *Forming) askJoin(ctx context.Context, id string) (JoinReply, error) {
	// An admission is a change of configuration, which may take an election or two.
	ctx, cancel := context.WithTimeout(ctx, 5*f.cfg.ElectionTimeout)
	defer cancel()
	req := JoinRequest{ID: f.cfg.ID, Name: f.cfg.Name, Addr: f.cfg.Addr, Cell: f.cfg.Cell}
	b, err := f.cfg.Ask(ctx, id, wire.MethodJoin, req.encode())
	if err != nil {
		return JoinReply{}, err
	}
	return decodeJoinReply(b)
}

// lock is a mutex to wait with: who waits for a sync.Mutex would stop the virtual time that its holder waits for.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

func (l lock) TryLock() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}
