package calls

// beats is how many times in its patience a link looks whether something has arrived, and pings if not. It is dead when
// that many pings brought nothing; beats that a pause of this process swallowed do not count. Both ends do so, each with
// a patience of its own.
const beats = 4

// pulse is what a link remembers from one beat to the next.
type pulse struct {
	heard, moved uint64 // what link.heard and link.moved were
	silent       int    // beats in which nothing was heard, in a row
	pings        int    // sent since
	stuck        int    // beats in which a write made no progress, in a row
}

// beat looks after the link.
func (l *link) beat() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	calm, p := l.side.beat(), &l.pulse
	if moved := l.moved.Load(); !l.writing || moved != p.moved {
		p.moved, p.stuck = moved, 0
	} else if p.stuck++; p.stuck > beats {
		l.closeLocked(errSlow)
		return
	}
	if heard := l.heard.Load(); heard != p.heard {
		p.heard, p.silent, p.pings = heard, 0, 0
		return
	}
	if p.silent++; calm && p.silent%l.x.slowness != 0 {
		return
	}
	if p.pings == beats {
		l.closeLocked(errSilent)
		return
	}
	p.pings++
	l.sendLocked(message{kind: kindPing}, true)
}

// beat is the goroutine that gives all links their beats. Those of clients take turns.
func (x *Exchange) beat() {
	defer x.ticker.Stop()
	for turn := 0; ; {
		select {
		case <-x.ticker.C:
			turn = turn%x.slowness + 1
			x.beatAll(0)
			x.beatAll(turn)
		case <-x.crowded:
			x.shed()
		case <-x.ctx.Done():
			return
		}
	}
}

// beatAll gives the links of a slot their beat.
func (x *Exchange) beatAll(slot int) {
	x.mu.Lock()
	x.due = append(x.due[:0], x.links[slot]...)
	x.mu.Unlock()
	for _, l := range x.due {
		if slot > 0 && !x.isClient(l.node) {
			x.promote(l)
		}
		l.beat()
	}
	clear(x.due)
}

// watch begins to give a link its beats. x.mu is held.
func (x *Exchange) watch(l *link) {
	if x.count++; x.count == 1 {
		x.ticker.Reset(x.cfg.Timeout / beats)
	}
	l.slot = 0
	if l.client {
		x.clients++
		l.slot = 1 + x.clients%x.slowness
	}
	l.place = len(x.links[l.slot])
	x.links[l.slot] = append(x.links[l.slot], l)
}

// forget is called when a link has ended.
func (x *Exchange) forget(l *link) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unwatch(l)
}

// unwatch is the end of watch. x.mu is held.
func (x *Exchange) unwatch(l *link) {
	slot := x.links[l.slot]
	last := slot[len(slot)-1]
	slot[l.place], last.place = last, l.place
	slot[len(slot)-1] = nil
	x.links[l.slot] = slot[:len(slot)-1]
	if l.slot > 0 {
		x.clients--
	}
	if x.count--; x.count == 0 {
		x.ticker.Stop()
	}
}

// promote treats a peer as a server that was taken for a client, before it was known.
func (x *Exchange) promote(l *link) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.holdLocked(-l.held)
		x.unwatch(l)
		l.client = false
		x.watch(l)
	}
}

// isClient tells whether a peer is a client and not a server.
func (x *Exchange) isClient(peer string) bool { return x.cfg.IsClient != nil && x.cfg.IsClient(peer) }

// all returns every link.
func (x *Exchange) all() (links []*link) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, slot := range x.links {
		links = append(links, slot...)
	}
	return links
}
