package gossip

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

const (
	maxJoins       = 32 // addresses tried in a round while nobody is known
	quietJoins     = 3  // and while somebody is
	parallelJoins  = 8
	resolveTimeout = 5 * time.Second

	// Where an election takes a minute, a server that comes back should still not wait for half an hour.
	maxRejoin = 30 * time.Second
)

// rejoin looks for servers for ever: at once and with growing pauses while this server is alone, then every 10 to 30
// election timeouts, at most every 10 to 30 s, for those that are known and not alive.
func (g *Gossip) rejoin() {
	longest := min(30*g.cfg.ElectionTimeout, maxRejoin)
	shortest := longest / 120
	pause := shortest
	for {
		alone := g.alone()
		limit := quietJoins
		if alone {
			limit = maxJoins
		}
		g.join(g.targets(limit))
		var wait time.Duration
		if alone = g.alone(); alone {
			wait = pause/2 + rand.N(pause)
			pause = min(2*pause, longest/6)
		} else {
			pause = shortest
			wait = longest/3 + rand.N(2*longest/3)
		}
		if !g.idle(wait, alone) {
			return
		}
	}
}

// idle waits for d, or until a server that was not alone is. It returns false when g closes.
func (g *Gossip) idle(d time.Duration, alone bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		changed := g.Changed()
		if !alone && g.alone() {
			return true
		}
		select {
		case <-g.ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-changed:
		}
	}
}

// alone says whether no other server is alive.
func (g *Gossip) alone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, m := range g.members {
		if m.Alive && id != g.cfg.ID {
			return false
		}
	}
	return true
}

// targets picks up to limit addresses under which no living server is known.
func (g *Gossip) targets(limit int) []string {
	found := make(map[string]bool)
	for _, entry := range g.cfg.Join {
		ctx, cancel := context.WithTimeout(g.ctx, resolveTimeout)
		addrs, err := g.cfg.Resolve(ctx, entry)
		cancel()
		if err != nil {
			g.log.Debug("gossip: name not resolved", "join", entry, "error", err)
			if g.cfg.OnDialError != nil {
				g.cfg.OnDialError(entry, err)
			}
		}
		for _, a := range addrs {
			found[a] = true
		}
	}
	g.mu.Lock()
	for _, p := range g.learnt {
		found[p.Addr] = true
	}
	for _, m := range g.members {
		found[m.Addr] = true
	}
	for _, m := range g.members {
		if m.Alive {
			delete(found, m.Addr)
		}
	}
	g.mu.Unlock()
	delete(found, g.meta.Load().Addr)
	list := make([]string, 0, len(found))
	for a := range found {
		list = append(list, a)
	}
	rand.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	return list[:min(len(list), limit)]
}

// join exchanges states with each address, a few at a time: an address that swallows packets takes its timeout.
func (g *Gossip) join(addrs []string) {
	queue := make(chan string)
	var workers sync.WaitGroup
	for range min(parallelJoins, len(addrs)) {
		workers.Go(func() {
			for addr := range queue {
				if _, err := g.list.Join([]string{joinTarget(addr)}); err != nil {
					g.log.Debug("gossip: not joined", "addr", addr, "error", err)
				}
			}
		})
	}
	for _, addr := range addrs {
		if g.ctx.Err() != nil {
			break
		}
		queue <- addr
	}
	close(queue)
	workers.Wait()
}

// ResolveDNS is a Config.Resolve for real networks: every address of a DNS name.
func ResolveDNS(ctx context.Context, hostport string) ([]string, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) != nil {
		return []string{hostport}, nil
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	addrs := make([]string, len(ips))
	for i, ip := range ips {
		addrs[i] = net.JoinHostPort(ip, port)
	}
	return addrs, nil
}
