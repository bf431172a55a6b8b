package forming

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/coordcell/coord/internal/gossip"
	"github.com/coordcell/coord/internal/raftnode"
)

const (
	defaultVoters = 5
	maxLag        = 1000 // entries that a server may be behind and count as caught up
	maxAskers     = 256  // servers that ask to join, remembered at once
	askerKept     = time.Minute
)

// Raft is what membership needs of the leader's raft; *raftnode.Node is one.
type Raft interface {
	Configuration() (servers []raftnode.Server, index uint64)
	Progress() []raftnode.Progress
	LastIndex() uint64
	AddNonvoter(ctx context.Context, id string, prevIndex uint64) error
	Promote(ctx context.Context, id string, prevIndex uint64) error
	Remove(ctx context.Context, id string, prevIndex uint64) error
}

// State is the part of the cell's replicated state that says who the members are. Changes return once applied.
type State interface {
	Members() []gossip.Peer
	SetMember(context.Context, gossip.Peer) error
	RemoveMember(ctx context.Context, id string) error
}

// MembershipConfig is what the active leader needs to look after its cell.
type MembershipConfig struct {
	ID              string
	Raft            Raft
	State           State
	View            View
	ElectionTimeout time.Duration // 0: 1s
	MaxVoters       int           // odd; 0: 5
	Logger          *slog.Logger  // nil: none
}

// Membership admits servers, promotes them, and keeps the members' names and addresses in the cell's state. One is made
// for each term, when the term has started, and serves that term only. It changes one thing at a time, each on the
// configuration that it was decided on.
type Membership struct {
	cfg   MembershipConfig
	log   *slog.Logger
	began time.Time

	mu    lock                 // one decision and its execution at a time
	ready map[string]time.Time // since when a server has been in touch and caught up

	asking sync.Mutex
	askers map[string]asker // by node id
}

type asker struct{ first, last time.Time }

// NewMembership prepares the membership of a term.
func NewMembership(cfg MembershipConfig) *Membership {
	if cfg.ElectionTimeout <= 0 {
		cfg.ElectionTimeout = time.Second
	}
	if cfg.MaxVoters == 0 {
		cfg.MaxVoters = defaultVoters
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Membership{
		cfg: cfg, log: cfg.Logger, began: time.Now(), mu: newLock(),
		ready: make(map[string]time.Time), askers: make(map[string]asker),
	}
}

// Run looks after the cell until ctx ends.
func (m *Membership) Run(ctx context.Context) {
	tick := time.NewTicker(m.cfg.ElectionTimeout / 2)
	defer tick.Stop()
	for {
		for n := 0; n < maxMembers && m.tend(ctx); n++ {
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Admit decides about a server that asks to join, and does what follows. It takes as long as a few changes of the
// configuration, at most until ctx ends. While another change is under way it says Retry.
func (m *Membership) Admit(ctx context.Context, r JoinRequest) JoinReply {
	asking := m.asked(r.ID)
	if !m.mu.TryLock() {
		return JoinReply{Code: Retry, Reason: "another change is under way"}
	}
	defer m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 4*m.cfg.ElectionTimeout)
	defer cancel()
	v := m.look()
	a := decideAdmission(v, r, asking)
	if a.code == Admitted && a.remove != "" {
		m.log.Info("forming: a server is replaced", "dead", a.remove, "by", r.ID, "name", r.Name)
		if err := m.cfg.Raft.Remove(ctx, a.remove, v.index); err != nil {
			return JoinReply{Code: Retry, Reason: err.Error()}
		}
		if err := m.cfg.State.RemoveMember(ctx, a.remove); err != nil {
			return JoinReply{Code: Retry, Reason: err.Error()}
		}
		_, v.index = m.cfg.Raft.Configuration()
	}
	if a.code == Admitted && a.add {
		if err := m.cfg.Raft.AddNonvoter(ctx, r.ID, v.index); err != nil {
			return JoinReply{Code: Retry, Reason: err.Error()}
		}
		m.log.Info("forming: a server is admitted", "server", r.ID, "name", r.Name, "addr", r.Addr)
		if err := m.cfg.State.SetMember(ctx, gossip.Peer{ID: r.ID, Name: r.Name, Addr: r.Addr}); err != nil {
			m.log.Debug("forming: member not recorded yet", "server", r.ID, "error", err) // tend will
		}
	}
	return JoinReply{Code: a.code, Reason: a.reason}
}

// asked notes a request of the server id, and returns for how long it has been asking.
func (m *Membership) asked(id string) time.Duration {
	m.asking.Lock()
	defer m.asking.Unlock()
	now := time.Now()
	for other, a := range m.askers {
		if now.Sub(a.last) > askerKept {
			delete(m.askers, other)
		}
	}
	a, known := m.askers[id]
	if !known {
		if len(m.askers) >= maxAskers {
			return 0
		}
		a.first = now
	}
	a.last = now
	m.askers[id] = a
	return now.Sub(a.first)
}

// tend makes the next change that is due. It returns false if there was none, or it failed.
func (m *Membership) tend(ctx context.Context) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 4*m.cfg.ElectionTimeout)
	defer cancel()
	v := m.look()
	c := decideStep(v)
	var err error
	switch {
	case c.record != nil:
		err = m.cfg.State.SetMember(ctx, *c.record)
	case c.forget != "":
		err = m.cfg.State.RemoveMember(ctx, c.forget)
	case c.promote != "":
		if err = m.cfg.Raft.Promote(ctx, c.promote, v.index); err == nil {
			m.log.Info("forming: a server votes now", "server", c.promote)
		}
	default:
		return false
	}
	if err != nil {
		m.log.Debug("forming: a change of the members failed", "change", c, "error", err)
	}
	return err == nil
}

// look gathers what the leader knows. m.mu is held.
func (m *Membership) look() cellView {
	now := time.Now()
	servers, index := m.cfg.Raft.Configuration()
	v := cellView{
		self: m.cfg.ID, index: index, recorded: m.cfg.State.Members(), seen: m.cfg.View.Members(),
		maxVoters: m.cfg.MaxVoters, scale: m.cfg.ElectionTimeout,
	}
	progress := make(map[string]raftnode.Progress)
	for _, p := range m.cfg.Raft.Progress() {
		progress[p.ID] = p
	}
	last := m.cfg.Raft.LastIndex()
	ready := make(map[string]time.Time)
	for _, s := range servers {
		sv := serverView{id: s.ID, voter: s.Voter}
		p := progress[s.ID]
		if s.ID != m.cfg.ID {
			heard := p.Heard
			if heard.Before(m.began) {
				heard = m.began
			}
			sv.silent = now.Sub(heard)
		}
		if !p.Heard.IsZero() && v.healthy(sv) && p.Match+maxLag >= last {
			since, ok := m.ready[s.ID]
			if !ok {
				since = now
			}
			ready[s.ID], sv.ready = since, now.Sub(since)
		}
		v.servers = append(v.servers, sv)
	}
	m.ready = ready
	return v
}
