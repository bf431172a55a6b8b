package server

import (
	"errors"
	"io"
	"sync"
	"syscall"

	"github.com/coordcell/coord/transport"
)

// processes knows of each other server the process that opened streams for raft to this one last. A leader always has
// some open. When its process dies, whatever kills it, the operating system ends them at once; while it lives, frozen or
// not, they stay, and nobody hears anything.
type processes struct {
	mu   sync.Mutex
	last map[string]*process // by node id
	lost chan struct{}       // of one: a process has lost its last stream
}

// process is one start of a server.
type process struct {
	boot  uint64
	open  int  // its streams that are
	ended bool // since it last opened one, its end of one has been closed or reset
}

// processesKept bounds the servers that are remembered; members of a cell come and go.
const processesKept = 64

func newProcesses() *processes {
	return &processes{last: make(map[string]*process), lost: make(chan struct{}, 1)}
}

// gone tells which process of a server opened streams last, and whether all of them have been ended from its side.
func (ps *processes) gone(id string) (boot uint64, gone bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.last[id]
	if p == nil {
		return 0, false
	}
	return p.boot, p.open == 0 && p.ended
}

// follow notes a stream that a process has opened, and how it ends.
func (ps *processes) follow(c *transport.Conn) *processStream {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	peer := c.Peer()
	p := ps.last[peer.Node]
	if p == nil || p.boot != peer.Boot {
		p = &process{boot: peer.Boot}
		ps.forgetSome()
		ps.last[peer.Node] = p
	}
	p.open++
	p.ended = false
	return &processStream{Conn: c, of: ps, process: p}
}

// forgetSome makes room. Under mu.
func (ps *processes) forgetSome() {
	for id, p := range ps.last {
		if len(ps.last) < processesKept {
			return
		}
		if p.open == 0 {
			delete(ps.last, id)
		}
	}
}

// processStream is a stream that tells who has ended it. Raft always reads from one that it has accepted, unless it is
// about to write.
type processStream struct {
	*transport.Conn
	of      *processes
	process *process
	over    bool // guarded by of.mu
}

func (c *processStream) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.check(err)
	return n, err
}

func (c *processStream) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.check(err)
	return n, err
}

func (c *processStream) Close() error {
	c.end(false)
	return c.Conn.Close()
}

// check looks for an end that comes from the other side. Silence, and what this side concludes from it, is none.
func (c *processStream) check(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		c.end(true)
	}
}

func (c *processStream) end(byPeer bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	c.process.open--
	c.process.ended = c.process.ended || byPeer
	if c.process.open > 0 || !c.process.ended {
		return
	}
	select {
	case c.of.lost <- struct{}{}:
	default:
	}
}
