package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

// book is the addresses of the servers that the client knows. It is the Directory of its calls.
type book struct {
	mu      sync.Mutex
	servers map[string]wire.AboutServer // by id
	obscure error                       // why the last server that was tried could not be asked
}

// Lookup says where a server listens.
func (b *book) Lookup(id string) (addr string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.servers[id]
	return s.Addr, ok
}

// learn takes in what a server says of all. Others are forgotten, so that nobody asks for ever for those that are gone.
func (b *book) learn(servers []wire.AboutServer) {
	if len(servers) == 0 {
		return // one that has not heard of its cell's configuration yet
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.servers = make(map[string]wire.AboutServer, len(servers))
	for _, s := range servers {
		if s.Addr != "" {
			b.servers[s.ID] = s
		}
	}
}

// met takes in the id of the server at an address that was dialled.
func (b *book) met(id, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.servers == nil {
		b.servers = make(map[string]wire.AboutServer)
	}
	s := b.servers[id]
	s.ID, s.Addr = id, addr
	b.servers[id] = s
}

// known are the servers, by chance, those of a zone first.
func (b *book) known(zone string) []wire.AboutServer {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]wire.AboutServer, 0, len(b.servers))
	for _, s := range b.servers {
		all = append(all, s)
	}
	rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	if zone != "" {
		slices.SortStableFunc(all, func(a, b wire.AboutServer) int {
			switch {
			case a.Zone == zone && b.Zone != zone:
				return -1
			case a.Zone != zone && b.Zone == zone:
				return 1
			}
			return 0
		})
	}
	return all
}

func (b *book) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.obscure = err
}

// obstacle says why no server could be asked, as far as that is known.
func (b *book) obstacle() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.obscure
}

// found is a server that answers.
type found struct {
	id    string
	about wire.AboutAnswer
}

// find looks for a server to attach to until there is one: one that knows a leader, else any. It returns nil when the
// client stops.
func (c *Client) find() *found {
	for pause := c.cfg.ElectionTimeout / 8; ; pause = min(2*pause, 2*c.cfg.ElectionTimeout) {
		led, any := c.search("")
		switch {
		case led != nil:
			return led
		case any != nil:
			return any
		}
		t := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-t.C:
		case <-c.stop.Done():
			t.Stop()
			return nil
		}
	}
}

// findLed looks once for a server that knows a leader, other than one.
func (c *Client) findLed(except string) *found {
	led, _ := c.search(except)
	return led
}

// candidate is a server to try. Of those that Join names the id is not known before they have been dialled.
type candidate struct{ id, addr string }

// candidates are all servers that the client has heard of.
func (c *Client) candidates(except string) (all []candidate) {
	seen := make(map[string]bool)
	for _, s := range c.book.known(c.cfg.Zone) {
		seen[s.Addr] = true
		if s.ID != except {
			all = append(all, candidate{s.ID, s.Addr})
		}
	}
	var named []candidate
	for _, entry := range c.cfg.Join {
		addrs, err := c.resolve(entry)
		if err != nil {
			c.book.failed(err)
		}
		for _, addr := range addrs {
			if !seen[addr] {
				seen[addr] = true
				named = append(named, candidate{addr: addr})
			}
		}
	}
	rand.Shuffle(len(named), func(i, k int) { named[i], named[k] = named[k], named[i] })
	return append(all, named...)
}

// resolve turns an entry of Join into addresses. Only TCP has names to look up.
func (c *Client) resolve(hostport string) ([]string, error) {
	if c.cfg.Network != transport.TCP() {
		return []string{hostport}, nil
	}
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	ctx, done := context.WithTimeout(c.stop, 5*time.Second)
	defer done()
	hosts, err := net.DefaultResolver.LookupHost(ctx, host)
	for i, h := range hosts {
		hosts[i] = net.JoinHostPort(h, port)
	}
	return hosts, err
}

// search asks the candidates one after the other, the next one when one has not answered for a while, and returns the
// first that knows a leader. If none does, any is one that has answered.
func (c *Client) search(except string) (led, any *found) {
	ctx, done := context.WithCancel(c.stop)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer done()
	all := c.candidates(except)
	answers := make(chan *found, len(all)) // nil: it cannot be asked
	for next, open := 0, 0; next < len(all) || open > 0; {
		var patience <-chan time.Time
		if next < len(all) {
			who := all[next]
			next, open = next+1, open+1
			asking.Go(func() { answers <- c.try(ctx, who) })
			t := time.NewTimer(c.cfg.ElectionTimeout / 4)
			defer t.Stop()
			patience = t.C
		}
		select {
		case f := <-answers:
			open--
			switch {
			case f == nil:
			case f.about.Leader != "":
				return f, any
			case any == nil:
				any = f
			}
		case <-patience:
		case <-ctx.Done():
			return nil, nil
		}
	}
	return nil, any
}

// try asks one candidate.
func (c *Client) try(ctx context.Context, who candidate) *found {
	ctx, done := context.WithTimeout(ctx, c.cfg.ElectionTimeout)
	defer done()
	if who.id == "" {
		conn, err := c.mux.Dial(ctx, transport.KindCalls, who.addr, "")
		if err != nil {
			c.strange(who.addr, err)
			return nil
		}
		who.id = conn.Peer().Node
		conn.Close()
		c.book.met(who.id, who.addr)
	}
	about, err := c.about(ctx, who.id, 0)
	if err != nil {
		c.book.failed(err)
		c.log.Debug("a server does not answer", "server", who.id, "addr", who.addr, "error", err)
		return nil
	}
	return &found{who.id, about}
}

// strange hears why an address that Join names could not be dialled. A client that has met nobody of its cell and meets
// another cell there has been told wrong, and would look for its own for ever.
func (c *Client) strange(addr string, err error) {
	c.book.failed(err)
	c.log.Debug("a server cannot be reached", "addr", addr, "error", err)
	if errors.Is(err, transport.ErrCell) && c.mux.CellID() == [16]byte{} {
		go c.end(fmt.Errorf("%w: at %s, which Join names: %w", caller.ErrWrongCell, addr, err)) // end waits for this goroutine
	}
}
