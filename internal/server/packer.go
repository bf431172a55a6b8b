package server

import (
	"context"
	"errors"
	"sync"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/wire"
)

const (
	packCommands = 2048      // commands in one entry
	packBytes    = 512 << 10 // of commands in one entry, but for a single larger one
	packQueued   = 64 << 20  // bytes that may wait to be packed; beyond it a caller is refused
	packInFlight = 2         // entries proposed and not yet committed
)

// errBusy refuses a change because too many wait already.
var errBusy = errors.New("too many changes wait to be written")

// packer puts many changes into one log entry. What gathers while earlier entries are being written travels together
// in the next one, so that throughput is bound by bytes and not by disk syncs, while a lone change leaves at once.
// Nobody waits here for the outcome: that comes from the state machine.
type packer struct {
	// start has an entry written. It returns when the next one may follow, and calls done when this one has been
	// applied here, or has failed.
	start func(entry []byte, done func(error))

	mu     sync.Mutex
	queue  []proposal
	bytes  int
	flying map[*pack]struct{}
	closed bool
	more   chan struct{} // of one: the queue is not empty
}

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
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosing
	}
	if p.bytes+q.size > packQueued {
		return errBusy
	}
	p.queue = append(p.queue, q)
	p.bytes += q.size
	if len(p.queue) == 1 {
		select {
		case p.more <- struct{}{}:
		default:
		}
	}
	return nil
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
	n, bytes := 0, 0
	for n < len(p.queue) && n < packCommands && (n == 0 || bytes+p.queue[n].size <= packBytes) {
		bytes += p.queue[n].size
		n++
	}
	if n == 0 {
		return nil
	}
	next := &pack{proposals: p.queue[:n:n]}
	p.queue = p.queue[n:]
	p.bytes -= bytes
	p.flying[next] = struct{}{}
	return next
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
	rest, flying := p.queue, p.flying
	p.queue, p.bytes, p.flying = nil, 0, nil
	p.mu.Unlock()
	failAll(rest, errClosing)
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
		return fixed + len(c.Name) + len(c.Data) + 9*len(c.Acks)
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
	case fsm.OpenSession:
		return 2*fixed + len(c.Label) + len(c.Node)
	default:
		return 4 * fixed
	}
}
