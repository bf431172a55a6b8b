package transport

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// linkFaults is what is wrong with one link.
type linkFaults struct {
	cut       bool
	refuse    bool          // dials
	delay     time.Duration // 0: the network's latency
	drop      float64
	duplicate float64
}

// Seed makes the network's own dice, for drops and duplicates, begin anew. A new Memory has seed 1.
func (m *Memory) Seed(seed uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.random = rand.New(rand.NewPCG(seed, 0))
}

// SetLatency sets how long everything takes to arrive that has no delay of its own; at least a millisecond.
func (m *Memory) SetLatency(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latency = max(d, minLatency)
}

// Cut cuts the link between a and b, both ways. As with TCP, what is written to an open stream waits and arrives
// after Heal, and a dial waits too, for as long as its context lets it. A stream breaks once its link has been cut
// for 15 minutes. Packets are lost.
func (m *Memory) Cut(a, b string) {
	m.change(func() {
		m.faults(a, b).cut = true
		m.faults(b, a).cut = true
	})
}

// CutOneWay is Cut for what is sent by from to to; the other direction goes on. (Acknowledgements of the network's
// own do not exist, so that nothing else is held up.)
func (m *Memory) CutOneWay(from, to string) {
	m.change(func() { m.faults(from, to).cut = true })
}

// Refuse makes dials of to by from be refused at once, as if nobody listened there: a firewall that answers for it. What
// is open stays open; see Reset. HealAll ends it.
func (m *Memory) Refuse(from, to string) {
	m.change(func() { m.faults(from, to).refuse = true })
}

// Reset resets both ends of every stream that is open between a and b, whoever dialled, and loses what is under way.
func (m *Memory) Reset(a, b string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.streams {
		near, far := s.ends[0].ep, s.ends[1].ep
		if near.at(a) && far.at(b) || near.at(b) && far.at(a) {
			s.tear()
		}
	}
}

// Partition splits the network: each group is cut off from the others and from all that are in no group, which form
// one more group. Partition([]string{a}) isolates a. It replaces the last Partition, adds to Cut, and is ended by
// HealAll or by Partition().
func (m *Memory) Partition(groups ...[]string) {
	m.change(func() {
		m.groups = make(map[string]int)
		for i, group := range groups {
			for _, name := range group {
				m.groups[place(name)] = i + 1
			}
		}
	})
}

// Heal ends what Cut or CutOneWay did between a and b, when called with the same names, in either direction.
func (m *Memory) Heal(a, b string) {
	m.change(func() {
		m.faults(a, b).cut = false
		m.faults(b, a).cut = false
	})
}

// HealAll ends every cut, refusal, partition, delay, drop and duplication. What belongs to a process remains: Pause, the
// rates of clocks, and the latency of the network.
func (m *Memory) HealAll() {
	m.change(func() {
		clear(m.links)
		m.groups = nil
	})
}

// SetDelay sets how long what is sent by from takes to reach to: at least a millisecond; 0 is the network's latency
// again. A delay for two addresses goes before one for a host. Streams keep their order; packets may be overtaken.
func (m *Memory) SetDelay(from, to string, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d > 0 {
		d = max(d, minLatency)
	}
	m.faults(from, to).delay = max(d, 0)
}

// SetDrop makes what is sent by from to to vanish with the given probability: a packet by itself; a stream breaks
// at that Write, which still succeeds: its bytes are lost and both ends get a reset.
func (m *Memory) SetDrop(from, to string, probability float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults(from, to).drop = probability
}

// SetDuplicate makes packets sent by from to to arrive twice with the given probability, the second copy somewhat
// later.
func (m *Memory) SetDuplicate(from, to string, probability float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults(from, to).duplicate = probability
}

// LoseReplies makes each stream that is open now and was accepted by one of these endpoints lose what is written
// back on it next: that Write succeeds, its bytes vanish, and both ends get a reset. So a request was carried out
// and its caller cannot know. Streams accepted later are not affected.
func (m *Memory) LoseReplies(from ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.streams {
		for _, name := range from {
			if accepted := &s.ends[1]; accepted.ep.at(name) {
				accepted.losesReply = true
			}
		}
	}
}

// Pause freezes an endpoint, as if its process were stopped: it is handed nothing, and nothing that it sends
// leaves. Others can still dial it, send to it until buffers are full, and hear nothing. Its code runs on, which it
// would not in a stopped process: deadlines of its reads and writes pass.
func (m *Memory) Pause(addr string) { m.setPaused(addr, true) }

// Resume ends Pause. What has gathered meanwhile is there at once, and what the endpoint has sent leaves.
func (m *Memory) Resume(addr string) { m.setPaused(addr, false) }

func (m *Memory) setPaused(addr string, paused bool) {
	m.change(func() {
		for _, e := range m.endpointsAt(addr) {
			e.setPaused(paused)
		}
	})
}

// Kill ends an endpoint as the death of its process would: nobody listens there any more, and the far ends of its
// streams get a reset, as soon as one can reach them.
func (m *Memory) Kill(addr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.endpointsAt(addr) {
		e.shut(true)
	}
}

// SetClockRate makes the lease clock of the endpoint at addr, host:port, tick rate times as fast as time passes,
// from now on; those that only dial have a clock for each host, and addr is the host. The rate is 1 until set, above
// 0, and stays with the address when it is listened on again. Different clocks start from different values.
func (m *Memory) SetClockRate(addr string, rate float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock(place(addr)).setRate(time.Now(), rate)
}

// faults returns the changeable faults of a link.
func (m *Memory) faults(from, to string) *linkFaults {
	key := link{place(from), place(to)}
	f := m.links[key]
	if f == nil {
		f = new(linkFaults)
		m.links[key] = f
	}
	return f
}

// endpointsAt returns the open endpoints with this address or on this host.
func (m *Memory) endpointsAt(name string) []*memEndpoint {
	var found []*memEndpoint
	for _, e := range m.endpoints {
		if e.at(name) {
			found = append(found, e)
		}
	}
	return found
}

// change applies a change of what can get through, and lets everything that waits see it.
func (m *Memory) change(apply func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	apply()
	m.follow(slices.Collect(maps.Keys(m.streams))...)
	close(m.changed)
	m.changed = make(chan struct{})
}

// follow makes streams adapt to what the faults are now.
func (m *Memory) follow(streams ...*memStream) {
	now := time.Now()
	stalled := false
	for _, s := range streams {
		for i := range s.ends {
			stalled = s.ends[i].out.follow(now) || stalled
		}
	}
	if stalled {
		time.AfterFunc(streamTimeout, m.breakStalled)
	}
}

// breakStalled breaks the streams over links that have been cut for too long.
func (m *Memory) breakStalled() {
	m.mu.Lock()
	defer m.mu.Unlock()
	limit := time.Now().Add(-streamTimeout)
	for s := range m.streams {
		for i := range s.ends {
			if since := s.ends[i].out.stalled; !since.IsZero() && !since.After(limit) {
				s.timeOut()
				break
			}
		}
	}
}

// summary is what is wrong between two addresses, all rules taken together.
func (m *Memory) summary(from, to string) linkFaults {
	sum := linkFaults{cut: m.groupOf(from) != m.groupOf(to), delay: m.latency}
	if len(m.links) == 0 {
		return sum
	}
	fromHost, toHost := hostOf(from), hostOf(to)
	for _, key := range [...]link{{fromHost, toHost}, {fromHost, to}, {from, toHost}, {from, to}} {
		f := m.links[key]
		if f == nil {
			continue
		}
		sum.cut = sum.cut || f.cut
		sum.refuse = sum.refuse || f.refuse
		if f.delay > 0 {
			sum.delay = f.delay
		}
		sum.drop = max(sum.drop, f.drop)
		sum.duplicate = max(sum.duplicate, f.duplicate)
	}
	return sum
}

func (m *Memory) groupOf(addr string) int {
	if g, ok := m.groups[addr]; ok {
		return g
	}
	return m.groups[hostOf(addr)]
}

// chance throws the network's dice; it leaves them alone when the outcome is certain.
func (m *Memory) chance(probability float64) bool {
	return probability > 0 && (probability >= 1 || m.random.Float64() < probability)
}
