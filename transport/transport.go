package transport

import (
	"context"
	"errors"
	"net"
	"time"
)

// errOnlyDials is why an endpoint without an address sends no packet.
var errOnlyDials = errors.New("the endpoint only dials")

// Network is where nodes listen and dial: TCP, or a Memory for tests.
type Network interface {
	// Listen opens an endpoint at addr, host:port, for streams and for packets alike; port 0 picks one. If addr is
	// "", the endpoint only dials: it has no address, nobody can reach it, and it holds no socket but its streams.
	Listen(ctx context.Context, addr string) (Endpoint, error)
}

// Endpoint is one node's place on a Network. Its methods may be called concurrently.
type Endpoint interface {
	// Addr is the address it listens on, host:port, port filled in; "" if it only dials.
	Addr() string
	// Accept waits for the next incoming stream, for ever if it only dials. After Close it returns net.ErrClosed.
	Accept() (net.Conn, error)
	// Dial opens a stream to addr; ctx bounds the attempt only.
	Dial(ctx context.Context, addr string) (net.Conn, error)
	// WritePacket sends one datagram, which may be lost, doubled or overtaken. It does not wait for the far end. An
	// endpoint that only dials sends none: an error.
	WritePacket(b []byte, addr string) error
	// ReadPacket waits for the next datagram and says where it came from, for ever if it only dials. After Close it
	// returns net.ErrClosed.
	ReadPacket(b []byte) (n int, from string, err error)
	// Now is the endpoint's lease clock: it counts the time that really passes, also while the machine sleeps,
	// from an arbitrary start, and is never set.
	Now() time.Duration
	// Close ends the endpoint and every stream that it accepted or dialled.
	Close() error
}
