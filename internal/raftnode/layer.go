package raftnode

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// Network carries raft's streams between nodes that know each other by their ids.
type Network interface {
	Dial(ctx context.Context, id string) (net.Conn, error)
	// Accept returns net.ErrClosed after Close.
	Accept() (net.Conn, error)
	Close() error
}

// Streams shows raft a Network in which an address is a node's id.
func Streams(id string, network Network) raft.StreamLayer { return &layer{network, nodeAddr(id)} }

type layer struct {
	Network
	self nodeAddr
}

func (l *layer) Addr() net.Addr { return l.self }

func (l *layer) Dial(id raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return l.Network.Dial(ctx, string(id))
}

type nodeAddr string

func (nodeAddr) Network() string  { return "coord" }
func (a nodeAddr) String() string { return string(a) }
