package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// kind is a sort of fault.
type kind string

const (
	kill     kind = "kill -9"      // one process, started again later
	killAll  kind = "kill all"     // every process at the same moment
	shutdown kind = "shutdown"     // SIGTERM: the node hands over and stops, and is started again
	rolling  kind = "rolling"      // the same to every process, one after the other
	freeze   kind = "freeze"       // SIGSTOP, then SIGCONT
	standby  kind = "freeze all"   // the same to every process, as if the machine stood still
	transfer kind = "transfer"     // leadership is handed to another server
	full     kind = "disk full"    // no room on the disk of one server for a while
	wipe     kind = "wipe"         // kill -9, and the disk is empty when the server starts again
	split    kind = "split"        // two or three processes on one side, the rest on the other
	isolate  kind = "isolate"      // one process reaches nobody
	deaf     kind = "deaf"         // nothing arrives at one process; it is heard
	mute     kind = "mute"         // nothing leaves one process; it hears
	pair     kind = "pair"         // two processes do not reach each other
	bridge   kind = "bridge"       // two halves see each other only through one process
	flap     kind = "flap"         // one process is cut off and back again, many times
	slow     kind = "slow"         // what one process sends and gets is late, perhaps by more than a lease
	outdated kind = "late answers" // what one process gets is late, and then what it sends is lost
	lossy    kind = "loss"         // packets are lost everywhere
	disorder kind = "out of order" // packets overtake each other and arrive twice, everywhere
)

// hitsAll says whether every process is a victim.
func (k kind) hitsAll() bool { return k == killAll || k == rolling || k == standby }

// weights says how often each kind is drawn.
func weights() []weight {
	return []weight{
		{kill, 16}, {killAll, 1}, {shutdown, 5}, {rolling, 1}, {freeze, 14}, {standby, 1}, {transfer, 4}, {full, 4}, {wipe, 3},
		{split, 6}, {isolate, 7}, {deaf, 4}, {mute, 4}, {pair, 3}, {bridge, 3}, {flap, 2}, {slow, 5}, {outdated, 5}, {lossy, 4}, {disorder, 4},
	}
}

type weight struct {
	kind kind
	n    int
}

// fault is one entry of a schedule.
type fault struct {
	at, lasts time.Duration // since the start of the schedule; lasts is 0 for what has no end
	kind      kind
	leader    bool  // it hits whoever leads at that moment
	order     []int // of the hosts: the first is hit unless leader is set, kinds with several go on from there
	amount    float64
}

// draw makes the schedule of one window: faults for all hosts, from a seed. The same arguments give the same schedule.
func draw(seed uint64, hosts int, length, ttl time.Duration) []fault {
	rng := rand.New(rand.NewPCG(seed, 0))
	total := 0
	for _, w := range weights() {
		total += w.n
	}
	var faults []fault
	for at := gap(rng); at < length; at += gap(rng) {
		f := fault{at: at, leader: rng.IntN(2) == 0, order: rng.Perm(hosts), amount: rng.Float64()}
		pick := rng.IntN(total)
		for _, w := range weights() {
			if pick -= w.n; pick < 0 {
				f.kind = w.kind
				break
			}
		}
		f.lasts = lasting(f.kind, rng.Float64(), ttl)
		faults = append(faults, f)
	}
	return faults
}

func gap(rng *rand.Rand) time.Duration {
	return time.Duration(200+rng.IntN(2000)) * time.Millisecond
}

// lasting maps x of [0, 1) to how long a fault goes on: short ones are as frequent as long ones.
func lasting(k kind, x float64, ttl time.Duration) time.Duration {
	between := func(low, high time.Duration) time.Duration {
		return time.Duration(float64(low) * math.Pow(float64(high)/float64(low), x)).Round(time.Millisecond)
	}
	switch k {
	case transfer, wipe:
		return 0
	case freeze, standby:
		return between(100*time.Millisecond, 4*ttl)
	case kill, killAll, shutdown, rolling:
		return between(50*time.Millisecond, 3*ttl)
	case outdated:
		return between(ttl, 4*ttl)
	default:
		return between(300*time.Millisecond, 4*ttl)
	}
}

// rules is what a fault does to the network, for as long as it lasts. order is the fault's, with whom it hits first.
func (f fault) rules(order []int, ttl time.Duration) []rule {
	all := hostsOf(order...)
	first := hostsOf(order[0])
	rest := all &^ first
	scaled := func(least, most time.Duration) time.Duration {
		return least + time.Duration(f.amount*float64(most-least))
	}
	switch f.kind {
	case split:
		side := hostsOf(order[:2+int(f.amount*2)]...)
		return between(side, all&^side)
	case isolate, flap:
		return between(first, rest)
	case deaf:
		return []rule{{from: rest, to: first, effect: effect{cut: true}}}
	case mute:
		return []rule{{from: first, to: rest, effect: effect{cut: true}}}
	case pair:
		return between(first, hostsOf(order[1]))
	case bridge:
		half := hostsOf(order[1 : 1+len(order)/2]...)
		return between(half, rest&^half)
	case slow:
		late := effect{delay: scaled(10*time.Millisecond, ttl*3/2)}
		return []rule{{from: first, to: rest, effect: late}, {from: rest, to: first, effect: late}}
	case outdated:
		return []rule{{from: rest, to: first, effect: effect{delay: scaled(ttl/10, ttl*23/100)}}} // short of a call's timeout, which is a quarter of a TTL
	case lossy:
		return []rule{{from: all, to: all, effect: effect{loss: 0.02 + 0.3*f.amount}}}
	case disorder:
		return []rule{{from: all, to: all, effect: effect{twice: 0.3 * f.amount, jitter: scaled(2*time.Millisecond, 60*time.Millisecond)}}}
	}
	return nil
}

// String is a line of the schedule, as -schedule prints it.
func (f fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%8.3fs  %-12s ", f.at.Seconds(), f.kind)
	if f.leader {
		b.WriteString("leader, then ")
	}
	for _, i := range f.order {
		b.WriteString(hostName(i))
	}
	fmt.Fprintf(&b, " %.2f", f.amount)
	if f.lasts > 0 {
		fmt.Fprintf(&b, " for %v", f.lasts)
	}
	return b.String()
}

// hostName is a letter.
func hostName(i int) string { return string(rune('a' + i)) }
