package main

import "time"

// hosts is a set of hosts, a bit each.
type hosts uint16

func hostsOf(indexes ...int) hosts {
	var s hosts
	for _, i := range indexes {
		s |= 1 << i
	}
	return s
}

func (s hosts) has(i int) bool { return s>>i&1 == 1 }

// rule is what the network does to packets from one of the hosts to one of the others, in that direction.
type rule struct {
	from, to hosts
	effect
}

// effect is what happens to the packets of one direction between two hosts.
type effect struct {
	cut    bool
	loss   float64       // the share of packets that are lost
	twice  float64       // the share of packets that arrive twice
	delay  time.Duration // of every packet
	jitter time.Duration // at most this much more, at random: packets overtake each other
}

// and is both effects at once.
func (e effect) and(other effect) effect {
	return effect{
		cut:    e.cut || other.cut,
		loss:   1 - (1-e.loss)*(1-other.loss),
		twice:  1 - (1-e.twice)*(1-other.twice),
		delay:  e.delay + other.delay,
		jitter: e.jitter + other.jitter,
	}
}

// between keeps two sets of hosts apart, in both directions.
func between(a, b hosts) []rule {
	return []rule{{from: a, to: b, effect: effect{cut: true}}, {from: b, to: a, effect: effect{cut: true}}}
}

// matrix is the effect of all rules together on each direction, by sender and receiver.
func matrix(n int, rules []rule) [][]effect {
	m := make([][]effect, n)
	for from := range n {
		m[from] = make([]effect, n)
		for to := range n {
			for _, r := range rules {
				if from != to && r.from.has(from) && r.to.has(to) {
					m[from][to] = m[from][to].and(r.effect)
				}
			}
		}
	}
	return m
}
