package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/history"
	"github.com/coordcell/coord/internal/load"
)

// fault is something that may happen to a cell.
type fault struct {
	name   string
	weight int
	// calm: it takes a disk for good, so the cell has to be whole before it and after it. A majority of the disks survives.
	calm bool
	do   func(w *world, victim *slot)
}

func faults() []fault {
	return []fault{
		{"isolate", 6, false, (*world).isolate},
		{"cut", 4, false, func(w *world, v *slot) { w.lab.Cut(v.addr, w.other(v).addr) }},
		{"cut one way", 4, false, func(w *world, v *slot) {
			a, b := v.addr, w.other(v).addr
			if w.rng.IntN(2) == 0 {
				a, b = b, a
			}
			w.lab.CutOneWay(a, b)
		}},
		{"partition", 3, false, (*world).partition},
		{"reaches only the non-voter", 2, false, (*world).reachNonvoter},
		{"delay", 4, false, func(w *world, v *slot) {
			w.lab.SetDelay(v.addr, w.other(v).addr, w.upTo(3*ttl))
		}},
		{"slow replies", 5, false, (*world).slowReplies},
		{"slow replies, then another leads", 4, false, func(w *world, v *slot) {
			w.slowReplies(v)
			w.transfer(v)
			w.isolate(v)
		}},
		{"drop", 3, false, func(w *world, v *slot) { w.lab.SetDrop(v.addr, w.other(v).addr, 0.3*w.rng.Float64()) }},
		{"duplicate", 2, false, func(w *world, v *slot) { w.lab.SetDuplicate(v.addr, w.other(v).addr, 0.5) }},
		{"lose replies", 6, false, func(w *world, v *slot) { w.lab.LoseReplies(v.addr) }},
		{"pause", 6, false, func(w *world, v *slot) {
			w.lab.Pause(v.addr)
			w.sleep(w.upTo(2 * maxTTL))
			w.lab.Resume(v.addr)
		}},
		{"kill", 6, false, func(w *world, v *slot) {
			w.kill(v)
			w.sleep(w.upTo(ttl))
			w.revive()
		}},
		{"kill for long", 2, false, func(w *world, v *slot) {
			w.kill(v)
			w.sleep(maxTTL + w.upTo(maxTTL))
			w.revive()
		}},
		{"kill all", 1, false, (*world).killAll},
		{"kill with a crowd", 1, false, (*world).killCrowd},
		{"shut down", 3, false, (*world).shutDown},
		{"transfer", 5, false, (*world).transfer},
		{"transfers", 2, false, func(w *world, v *slot) {
			for range 4 {
				if l := w.leader(); l != nil {
					w.transfer(l)
				}
			}
		}},
		{diesBefore, 2, false, armed(diesBefore, 30)},
		{diesAfter, 2, false, armed(diesAfter, 30)},
		{losesSync, 2, false, armed(losesSync, 20)},
		{tears, 2, false, armed(tears, 20)},
		{fills, 1, false, armed(fills, 20)},
		{hangs, 1, false, armed(hangs, 20)},
		{hangs + " until it is given up", 1, false, func(w *world, v *slot) {
			v.disk.arm(hangs, w.rng.IntN(5))
			w.sleep(25 * time.Second)
		}},
		{failsSync, 1, true, armed(failsSync, 5)},
		{"bit flips", 1, true, (*world).flip},
		{"disk lost", 1, true, (*world).loseDisk},
	}
}

// run lets faults strike for so long. A leader is the victim more often than not.
func (w *world) run(length time.Duration) {
	all := faults()
	total := 0
	for _, f := range all {
		total += f.weight
	}
	end := w.now() + length
	for w.now() < end {
		n := w.rng.IntN(total)
		i := 0
		for ; n >= all[i].weight; i++ {
			n -= all[i].weight
		}
		w.strike(all[i])
		w.sleep(w.upTo(1500 * time.Millisecond))
		switch w.rng.IntN(4) {
		case 0:
			w.heal()
		case 1:
			w.heal()
			w.sleep(w.upTo(6 * election))
		case 2:
			w.revive()
		}
	}
	w.settle("the last fault")
}

func (w *world) strike(f fault) {
	if f.calm {
		w.settle("the fault before: " + f.name + " is next")
	}
	leader := w.leader()
	victim := leader
	if victim == nil || w.rng.IntN(5) < 2 {
		victim = w.slots[w.rng.IntN(len(w.slots))]
	}
	w.counts.faults[f.name]++
	if victim == leader {
		w.counts.leaderFaults++
	}
	w.t.Logf("%8.3fs %s: server%d (leader %v)", w.now().Seconds(), f.name, victim.i, victim == leader)
	f.do(w, victim)
	if f.calm {
		w.sleep(2 * ttl)
		w.settle(f.name)
	}
}

// sleep lets time pass, in which servers may die of what their disks do.
func (w *world) sleep(d time.Duration) { time.Sleep(d) }

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

// other is any server but v.
func (w *world) other(v *slot) *slot {
	return w.slots[(v.i+1+w.rng.IntN(len(w.slots)-1))%len(w.slots)]
}

func (w *world) isolate(v *slot) {
	for _, s := range w.slots {
		if s != v {
			w.lab.Cut(v.addr, s.addr)
		}
	}
}

// partition splits the cell in two, anyhow.
func (w *world) partition(*slot) {
	var sides [2][]string
	for _, s := range w.slots {
		side := w.rng.IntN(2)
		sides[side] = append(sides[side], s.addr)
	}
	w.lab.Partition(sides[0], sides[1])
}

// reachNonvoter cuts a server from all voters, where there is a server that is none.
func (w *world) reachNonvoter(v *slot) {
	for _, s := range w.slots[:w.voters] {
		if s != v {
			w.lab.Cut(v.addr, s.addr)
		}
	}
}

func (w *world) slowReplies(v *slot) {
	d := w.upTo(2 * ttl)
	for _, s := range w.slots {
		if s != v {
			w.lab.SetDelay(s.addr, v.addr, d)
		}
	}
}

func (w *world) transfer(v *slot) {
	n := v.running()
	if n == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.upTo(ttl)+1)
	defer cancel()
	_ = n.TransferLeadership(ctx, "") // under faults it may well fail
}

// killCrowd kills a server on which many more sessions are open than usual: they all expire at once.
func (w *world) killCrowd(v *slot) {
	w.crowds++
	cfg := w.clients(w.rng.Uint64())
	cfg.First, cfg.Lockers, cfg.Candidates, cfg.Writers, cfg.Watchers = 1000*w.crowds, 20, 0, 40, 0
	cfg.Node = func(int) *coord.Node { return v.running() }
	cfg.Opened = func(_ int, s *coord.Session) { w.opened(v, s) }
	crowd := load.Start(context.Background(), cfg)
	w.sleep(ttl)
	w.kill(v)
	ctx, cancel := context.WithTimeout(context.Background(), ttl)
	defer cancel()
	crowd.Stop(ctx)
	w.sleep(w.upTo(maxTTL))
	w.revive()
}

func (w *world) killAll(*slot) {
	for _, s := range w.slots {
		w.killed(s.addr)
		w.lab.Kill(s.addr)
	}
	for _, s := range w.slots {
		w.kill(s)
	}
	w.sleep(w.upTo(2 * maxTTL))
	w.revive()
}

func (w *world) shutDown(v *slot) {
	v.mu.Lock()
	n := v.node
	v.node = nil
	v.mu.Unlock()
	if n == nil {
		return
	}
	v.disk.disarm()
	ctx, cancel := context.WithTimeout(context.Background(), w.upTo(maxTTL)+1)
	defer cancel()
	noted := w.closing(v)
	_ = n.Shutdown(ctx) // out of time, or cut off, it stops all the same
	noted()
	v.disk.release()
	time.Sleep(time.Millisecond)
	if left := v.disk.crashed(); left != nil {
		w.lab.SetDisk(v.addr, left)
	}
	w.revive()
}

// closing notes in the record that the sessions of a server's clients are being closed, by the server.
func (w *world) closing(v *slot) (done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ops []*history.Op
	for _, s := range w.sessions {
		if s.on == v && s.Err() == nil {
			w.closers++
			ops = append(ops, w.rec.Begin(history.Op{Kind: history.Close, Client: -w.closers, Session: uint64(s.ID())}))
		}
	}
	return func() {
		for _, op := range ops {
			op.Outcome = history.Unknown
			w.rec.End(op)
		}
	}
}

func armed(what string, calls int) func(*world, *slot) {
	return func(w *world, v *slot) { v.disk.arm(what, w.rng.IntN(calls)) }
}

// flip changes a bit of what a server has on its disk, which it must notice.
func (w *world) flip(v *slot) {
	w.kill(v)
	if !w.lab.Disk(v.addr).Flip(w.rng.Uint64()) {
		w.revive()
		return
	}
	if err := v.start(); err == nil {
		w.violated("G11", fmt.Sprintf("server %d did not notice that a bit of its disk had changed", v.i))
		return
	}
	w.lab.SetDisk(v.addr, nil)
	w.revive()
}

// loseDisk takes a server's disk: the next start of the server finds an empty one, and is a new member's.
func (w *world) loseDisk(v *slot) {
	w.kill(v)
	w.sleep(w.upTo(2 * ttl))
	w.lab.SetDisk(v.addr, nil)
	w.revive()
}
