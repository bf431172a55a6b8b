package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/wire"
)

// refreshEvery is how often a client asks for the numbers of Status, at most half as much later.
const refreshEvery = 20 * time.Second

// place is where a client is attached.
type place struct {
	mu      sync.Mutex
	server  string           // "": nowhere
	leave   func()           // has the client leave the server
	about   wire.AboutAnswer // the last word of a server, the present one or an earlier one
	changed chan struct{}    // closed and replaced when the route may be another one
	failing time.Duration    // since when renewals have failed, on the lease clock; 0: they do not
}

func newPlace() place { return place{changed: make(chan struct{})} }

// last is the last word of a server.
func (p *place) last() wire.AboutAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.about
}

// attached is the server that the client is attached to, "" if it is to none, and the route over it.
func (p *place) attached() (server string, rt caller.Route) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rt.Changed = p.changed
	if p.server != "" {
		rt.Leader = p.about.Leader
	}
	return p.server, rt
}

// enter attaches the client to a server that has said this much. exit follows.
func (p *place) enter(server string, about wire.AboutAnswer, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server, p.about, p.leave, p.failing = server, about, leave, 0
	p.turn()
}

// exit leaves the client attached to none.
func (p *place) exit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server, p.leave = "", nil
	p.turn()
}

// hear takes note of the server's word. The route has changed when somebody else leads, or nobody does any more.
func (p *place) hear(about wire.AboutAnswer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	turned := about.Leader != p.about.Leader
	p.about = about
	if turned {
		p.turn()
	}
}

// turn says that the route may be another one. Under mu.
func (p *place) turn() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// renewed takes note of how a renewal through a server went, and has the client leave one through which none has come
// through for long.
func (p *place) renewed(server string, err error, now, patience time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case server != p.server:
	case err == nil:
		p.failing = 0
	case p.failing == 0:
		p.failing = max(now, 1)
	case now-p.failing > patience:
		p.failing = 0
		p.leave()
	}
}

// Route says where changes go for now: to the leader, by way of the server that the client is attached to.
func (c *Client) Route() caller.Route {
	_, rt := c.place.attached()
	return rt
}

// AttachedTo is the server that the client is attached to; "": to none.
func (c *Client) AttachedTo() string {
	server, _ := c.place.attached()
	return server
}

// stayAttached keeps the client attached to some server until it stops.
func (c *Client) stayAttached() {
	var next *found
	for c.stop.Err() == nil {
		if next == nil {
			next = c.find()
		}
		if next != nil {
			next = c.stay(*next)
		}
	}
}

// stay is attached to a server for as long as that is of use, and follows what it says of the cell. It returns where to
// go next, if that is known.
func (c *Client) stay(at found) (next *found) {
	c.log.Info("attached", "server", at.id, "leader", at.about.Leader)
	ctx, leave := context.WithCancel(c.stop)
	defer leave()
	c.place.enter(at.id, at.about, leave)
	defer c.place.exit()
	lonely := c.heard(at.about, 0) // since when the server has known no leader; 0: it knows one
	for known := at.about.Version; ; {
		wait := refreshEvery + rand.N(refreshEvery/2)
		switch {
		case known == 0: // it has to answer at once
			wait = 2 * c.cfg.ElectionTimeout
		case lonely != 0:
			wait = max(lonely+2*c.cfg.ElectionTimeout-c.mux.Now(), time.Millisecond)
		}
		about, err := c.askFor(ctx, wait, at.id, known)
		switch {
		case err == nil:
			lonely = c.heard(about, lonely)
			known = about.Version
		case ctx.Err() != nil: // stopping, or renewals through the server fail
			return c.findLed(at.id)
		case known == 0 || !errors.Is(err, context.DeadlineExceeded):
			c.log.Info("server lost", "server", at.id, "error", err)
			return nil
		case lonely == 0:
			known = 0
		default:
			if next = c.findLed(at.id); next != nil {
				return next
			}
			lonely += c.cfg.ElectionTimeout
		}
	}
}

// heard takes in what the attached server says. It returns since when that has known no leader; 0: it knows one.
func (c *Client) heard(about wire.AboutAnswer, lonely time.Duration) time.Duration {
	c.place.hear(about)
	c.book.learn(about.Servers)
	if now := (leadership{about.Leader, about.Term}); now != c.told {
		c.told = now
		if c.cfg.LeaderChanged != nil {
			c.cfg.LeaderChanged(now.leader, now.term)
		}
	}
	switch {
	case about.Leader != "":
		return 0
	case lonely == 0:
		return max(c.mux.Now(), 1)
	default:
		return lonely
	}
}

// askFor is about for a while.
func (c *Client) askFor(ctx context.Context, wait time.Duration, server string, known uint64) (wire.AboutAnswer, error) {
	ctx, done := context.WithTimeout(ctx, wait)
	defer done()
	return c.about(ctx, server, known)
}

// about asks a server what it knows of the cell.
func (c *Client) about(ctx context.Context, server string, known uint64) (wire.AboutAnswer, error) {
	sent := c.mux.Now()
	payload, err := c.calls.Call(ctx, server, wire.MethodAbout, wire.About{Known: known}.Append(nil))
	if err != nil {
		return wire.AboutAnswer{}, err
	}
	a, err := wire.DecodeAboutAnswer(payload)
	if err == nil && known == 0 {
		c.proofs.note(sent - a.Evidence)
	}
	return a, err
}

// proofs is the moment of the last proof of a leader, on the lease clock.
type proofs struct {
	mu   sync.Mutex
	any  bool
	last time.Duration
}

func (p *proofs) note(at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.any || at > p.last {
		p.any, p.last = true, at
	}
}

// EvidenceAge is the age of the last proof of a leader that this node has heard of; very long if there never was one.
func (c *Client) EvidenceAge() time.Duration {
	c.proofs.mu.Lock()
	defer c.proofs.mu.Unlock()
	if !c.proofs.any {
		return 1<<63 - 1
	}
	return c.mux.Now() - c.proofs.last
}
