package expiry

import "time"

// minPause is the shortest time without a look at the clock that counts as a pause of the process.
const minPause = 200 * time.Millisecond

// pauses knows when the process stood still. The clock is looked at every tick and at every renewal; if nobody has for
// longer than minPause and a tenth of the shortest TTL, nobody was able to.
type pauses struct {
	seen     time.Duration // the last look, on the lease clock
	shortest time.Duration // the shortest TTL of the term
	total    time.Duration // of all pauses of the term
	count    int
	end      time.Duration // of the last one
	length   time.Duration // of the last one
}

// look takes note of a pause that ends now.
func (p *pauses) look(now time.Duration) {
	if gap := now - p.seen; gap > max(minPause, p.shortest/10) {
		p.total += gap
		p.count++
		p.end, p.length = now, gap
	}
	p.seen = now
}

// deadline is when a session expires unless it is renewed.
//
// The pauses since its last renewal are added, so that a pause costs no session any of its time, one TTL at most. Renewals
// sent meanwhile still wait in the sockets: to read them there is as much time as the last pause took, again one TTL at
// most. A leader that goes on pausing for longer than it runs expires nobody: it cannot tell who is dead.
func (p *pauses) deadline(renewed, ttl, paused time.Duration) time.Duration {
	d := renewed + ttl
	if paused := p.total - paused; paused > 0 {
		d = max(d+min(paused, ttl), p.end+min(p.length, ttl))
	}
	return d
}
