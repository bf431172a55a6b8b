package raftnode

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// streams remembers every open connection of a raft.StreamLayer, because raft's NetworkTransport closes neither those
// that it has accepted nor those in its pool when it is closed.
type streams struct {
	raft.StreamLayer
	mu     sync.Mutex
	closed bool
	open   map[*stream]struct{}
}

func newStreams(l raft.StreamLayer) *streams {
	return &streams{StreamLayer: l, open: make(map[*stream]struct{})}
}

func (s *streams) Accept() (net.Conn, error) {
	c, err := s.StreamLayer.Accept()
	if err != nil {
		return nil, err
	}
	return s.track(c)
}

func (s *streams) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	c, err := s.StreamLayer.Dial(addr, timeout)
	if err != nil {
		return nil, err
	}
	return s.track(c)
}

func (s *streams) track(c net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	t := &stream{Conn: c, of: s}
	s.open[t] = struct{}{}
	return t, nil
}

// closeAll closes every connection, and each that is opened later at once.
func (s *streams) closeAll() {
	s.mu.Lock()
	s.closed = true
	open := s.open
	s.open = make(map[*stream]struct{})
	s.mu.Unlock()
	for c := range open {
		_ = c.Conn.Close()
	}
}

type stream struct {
	net.Conn
	of *streams
}

func (c *stream) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
