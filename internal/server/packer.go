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
	propose func(ctx context.Context, entry []byte) error // returns once the entry is committed, or failed

	mu     sync.Mutex
	queue  []proposal
	bytes  int
	closed bool
	more   chan struct{} // of one: the queue is not empty
	done   chan struct{}
	flying sync.WaitGroup
}

// proposal is one command on its way. One of the functions is called, once, on some goroutine; both may be nil.
type proposal struct {
	cmd     fsm.Command
	written func()      // it has been applied here
	failed  func(error) // it will not be written, or that is unknown
	size    int
}

func newPacker(propose func(context.Context, []byte) error) *packer {
	return &packer{propose: propose, more: make(chan struct{}, 1), done: make(chan struct{})}
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

// run proposes until ctx ends, and waits for what is in flight.
func (p *packer) run(ctx context.Context) {
	defer close(p.done)
	slots := make(chan struct{}, packInFlight)
	for {
		select {
		case <-p.more:
		case <-ctx.Done():
			p.abort()
			p.flying.Wait()
			return
		}
		for {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				p.abort()
				p.flying.Wait()
				return
			}
			pack := p.take()
			if len(pack) == 0 {
				<-slots
				break
			}
			p.flying.Add(1)
			go func() {
				defer p.flying.Done()
				p.write(ctx, pack)
				<-slots
			}()
		}
	}
}

// take removes what goes into the next entry.
func (p *packer) take() []proposal {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, bytes := 0, 0
	for n < len(p.queue) && n < packCommands && (n == 0 || bytes+p.queue[n].size <= packBytes) {
		bytes += p.queue[n].size
		n++
	}
	pack := p.queue[:n:n]
	p.queue = p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil
	}
	p.bytes -= bytes
	return pack
}

func (p *packer) write(ctx context.Context, pack []proposal) {
	cmds := make([]fsm.Command, len(pack))
	size := 64
	for i := range pack {
		cmds[i] = pack[i].cmd
		size += pack[i].size
	}
	entry, err := wire.AppendEntry(make([]byte, 0, size), cmds)
	if err == nil {
		err = p.propose(ctx, entry)
	}
	if err != nil {
		failAll(pack, err)
		return
	}
	for i := range pack {
		if pack[i].written != nil {
			pack[i].written()
		}
	}
}

// abort fails what nobody will write any more.
func (p *packer) abort() {
	p.mu.Lock()
	p.closed = true
	rest := p.queue
	p.queue, p.bytes = nil, 0
	p.mu.Unlock()
	failAll(rest, errClosing)
}

func failAll(pack []proposal, err error) {
	for i := range pack {
		if pack[i].failed != nil {
			pack[i].failed(err)
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
