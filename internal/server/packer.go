package server

import (
	"context"
	"sync"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/wire"
)

const (
	packCommands = 2048      // commands in one entry
	packBytes    = 512 << 10 // of commands in one entry; the first of each lane goes in any case
	packOpens    = 256       // new sessions in one entry
	packQueued   = 64 << 20  // bytes that may wait in a lane to be packed; beyond it a caller is refused
	packInFlight = 2         // entries proposed and not yet committed
)

// errBusy refuses a change because too many wait already.
var errBusy = caller.ErrBusy

// packer puts many changes into one log entry. What gathers while earlier entries are being written travels together
// in the next one, so that throughput is bound by bytes and not by disk syncs, while a lone change leaves at once.
// Nobody waits here for the outcome: that comes from the state machine.
//
// Where more waits than fits, the lanes say who goes first. Within a lane the order is that of submission. Between lanes
// any order will do, for what waits here has not been answered, and so is concurrent: a change that comes to the log
// after the end of its session finds it ended, as if it had been sent too late.
type packer struct {
	// start has an entry written. It returns when the next one may follow, and calls done when this one has been
	// applied here, or has failed.
	start func(entry []byte, done func(error))

	mu     sync.Mutex
	lanes  [lanes]lane
	flying map[*pack]struct{}
	closed bool
	more   chan struct{} // of one: a lane is not empty
}

// lane is a queue of proposals.
type lane struct {
	queue []proposal
	bytes int
}

// The lanes, those that go first first.
const (
	// laneOwn has the leader's own commands: few, and what they end or hand on somebody waits for.
	laneOwn = iota
	// laneChanges has the changes of sessions that there are.
	laneChanges
	// laneOpens has new sessions. When everybody comes back at once they wait here, a bounded number of them enters with
	// each entry, and those who are in already hardly notice. The bound keeps places for them as well: changes leave
	// that many free while somebody waits here.
	laneOpens
	lanes
)

// pack is what travels in one entry.
type pack struct{ proposals []proposal }

// proposal is one command on its way. One of the functions is called, once, on some goroutine; both may be nil.
type proposal struct {
	cmd     fsm.Command
	written func()      // it has been applied here
	failed  func(error) // it will not be written, or that is unknown
	size    int
}

func newPacker(start func([]byte, func(error))) *packer {
	return &packer{start: start, more: make(chan struct{}, 1), flying: make(map[*pack]struct{})}
}

// submit queues a command. It never waits. After an error neither function of the proposal is called.
func (p *packer) submit(q proposal) error {
	q.size = commandSize(q.cmd)
	l := &p.lanes[laneOf(q.cmd)]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosing
	}
	if l.bytes+q.size > packQueued {
		return errBusy
	}
	l.queue = append(l.queue, q)
	l.bytes += q.size
	select {
	case p.more <- struct{}{}:
	default:
	}
	return nil
}

func laneOf(cmd fsm.Command) int {
	if open, ok := cmd.(fsm.OpenSession); ok && !open.Internal {
		return laneOpens
	}
	if _, change := keyOf(cmd); change {
		return laneChanges
	}
	return laneOwn
}

// run proposes until ctx ends. Then everything that is left fails, also what is in flight.
func (p *packer) run(ctx context.Context) {
	defer p.abort()
	slots := make(chan struct{}, packInFlight)
	for {
		select {
		case <-p.more:
		case <-ctx.Done():
			return
		}
		for {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			next := p.take()
			if next == nil {
				<-slots
				break
			}
			p.write(next, func() { <-slots })
		}
	}
}

// take removes what goes into the next entry; nil: nothing waits.
func (p *packer) take() *pack {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &pack{}
	opens := min(len(p.lanes[laneOpens].queue), packOpens)
	bytes := p.lanes[laneOwn].moveTo(next, packCommands-opens, 0)
	bytes = p.lanes[laneChanges].moveTo(next, packCommands-opens, bytes)
	p.lanes[laneOpens].moveTo(next, len(next.proposals)+opens, bytes)
	if len(next.proposals) == 0 {
		return nil
	}
	p.flying[next] = struct{}{}
	return next
}

// moveTo moves proposals to a pack that is to have most of them at most, and has bytes already; it returns how many bytes
// it has now.
func (l *lane) moveTo(next *pack, most, bytes int) int {
	n := 0
	for ; n < len(l.queue) && len(next.proposals)+n < most; n++ {
		size := l.queue[n].size
		if n > 0 && bytes+size > packBytes {
			break
		}
		bytes += size
		l.bytes -= size
	}
	next.proposals = append(next.proposals, l.queue[:n]...)
	l.queue = l.queue[n:]
	return bytes
}

func (p *packer) write(next *pack, landed func()) {
	cmds := make([]fsm.Command, len(next.proposals))
	size := 64
	for i, q := range next.proposals {
		cmds[i] = q.cmd
		size += q.size
	}
	entry, err := wire.AppendEntry(make([]byte, 0, size), cmds)
	if err != nil {
		p.finish(next, err)
		landed()
		return
	}
	p.start(entry, func(err error) {
		p.finish(next, err)
		landed()
	})
}

// finish tells a pack's proposals how it went, unless abort has told them.
func (p *packer) finish(done *pack, err error) {
	p.mu.Lock()
	_, flying := p.flying[done]
	delete(p.flying, done)
	p.mu.Unlock()
	switch {
	case !flying:
	case err != nil:
		failAll(done.proposals, err)
	default:
		for _, q := range done.proposals {
			if q.written != nil {
				q.written()
			}
		}
	}
}

// abort fails what nobody will write any more, and what nobody will hear of any more.
func (p *packer) abort() {
	p.mu.Lock()
	p.closed = true
	rest, flying := p.lanes, p.flying
	p.lanes, p.flying = [lanes]lane{}, nil
	p.mu.Unlock()
	for _, l := range rest {
		failAll(l.queue, errClosing)
	}
	for f := range flying {
		failAll(f.proposals, errClosing)
	}
}

func failAll(proposals []proposal, err error) {
	for _, q := range proposals {
		if q.failed != nil {
			q.failed(err)
		}
	}
}

// commandSize estimates the bytes of a command in an entry, never too low by more than its fixed fields.
func commandSize(cmd fsm.Command) int {
	const fixed = 64
	switch c := cmd.(type) {
	case fsm.Lock:
		return fixed + len(c.Name) + len(c.Data) + 9*len(c.Acks) + termsSize(c.Terms)
	case fsm.Unlock:
		return fixed + len(c.Name) + 9*len(c.Acks)
	case fsm.SetData:
		return fixed + len(c.Name) + len(c.Data) + 9*len(c.Acks)
	case fsm.Put:
		return fixed + len(c.Key) + len(c.Value) + 9*len(c.Acks)
	case fsm.Delete:
		return fixed + len(c.Key) + 9*len(c.Acks)
	case fsm.Txn:
		n := fixed + 9*len(c.Acks)
		for i := range c.If {
			n += 32 + len(c.If[i].Key) + len(c.If[i].Value)
		}
		for _, ops := range [2][]fsm.Op{c.Then, c.Else} {
			for i := range ops {
				n += 16 + len(ops[i].Key) + len(ops[i].Value)
			}
		}
		return n
	case fsm.Expire:
		return fixed + 9*len(c.Sessions)
	case fsm.ExpireGrants:
		return fixed + grantsSize(c.Grants)
	case fsm.EndDelay:
		return fixed + grantsSize(c.Losses)
	case fsm.FinishRevoke:
		return fixed + grantsSize(c.Grants) + 9*len(c.Sessions)
	case fsm.HandOver:
		return fixed + len(c.Name) + 9*len(c.Acks)
	case fsm.Revoke:
		return fixed + len(c.Name) + 9*len(c.Acks)
	case fsm.OpenSession:
		return 2*fixed + len(c.Label) + len(c.Node)
	default:
		return 4 * fixed
	}
}

func termsSize(t *fsm.Terms) (n int) {
	if t == nil {
		return 0
	}
	for _, name := range t.More {
		n += 5 + len(name)
	}
	return n + 32 + grantsSize(t.Holding)
}

func grantsSize(grants []fsm.GrantID) (n int) {
	for _, g := range grants {
		n += 16 + len(g.Name)
	}
	return n
}
