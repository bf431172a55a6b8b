package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/failstop"
	"github.com/coordcell/coord/internal/hub"
	"github.com/coordcell/coord/transport"
)

// Config says what client to start. The public package has checked it and filled in the defaults.
type Config struct {
	Name, Cell, Zone string
	Join             []string
	ElectionTimeout  time.Duration
	MaxTTL           time.Duration
	Logger           *slog.Logger
	Network          transport.Network

	// LeaderChanged is told what happens. It must not block.
	LeaderChanged func(leader string, term uint64)
}

// leadership is who leads, as servers tell it.
type leadership struct {
	leader string
	term   uint64
}

// Client is one node. All methods may be called concurrently.
type Client struct {
	cfg  Config
	id   string
	name string
	log  *slog.Logger

	mux    *transport.Mux
	calls  *calls.Exchange
	caller *caller.Caller

	book   book
	place  place
	proofs proofs
	pump   hub.Pump
	told   leadership // to cfg.LeaderChanged; of stayAttached

	*caller.Life
	stop context.Context // ends when the node begins to stop
}

// Start begins to look for the cell's servers in the background.
func Start(ctx context.Context, cfg Config) (*Client, error) {
	var random [24]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, id: hex.EncodeToString(random[:16]), Life: caller.NewLife(), place: newPlace(),
	}
	if c.name = cfg.Name; c.name == "" {
		c.name = caller.DefaultName(c.id)
	}
	c.log = cfg.Logger.With("node", c.name)
	c.stop = c.Lasting()
	if err := c.open(ctx, binary.BigEndian.Uint64(random[16:])); err != nil {
		c.Halt()
		return nil, err
	}
	c.Go(c.caller.Run)
	c.Go(c.stayAttached)
	return c, nil
}

func (c *Client) open(ctx context.Context, boot uint64) error {
	endpoint, err := c.cfg.Network.Listen(ctx, "")
	if err != nil {
		return err
	}
	c.mux, err = transport.NewMux(endpoint, transport.MuxConfig{
		Cell: c.cfg.Cell, Node: c.id, Boot: boot, LearnCellID: true, Logger: c.log,
	})
	if err != nil {
		endpoint.Close()
		return fmt.Errorf("%w: %w", caller.ErrInvalid, err)
	}
	c.calls = calls.New(calls.Config{
		Mux: c.mux, Directory: &c.book, Switch: failstop.New(), Logger: c.log, Timeout: c.cfg.ElectionTimeout, Client: true,
		Handler: func(_ context.Context, req *calls.Request) { req.Fail(calls.ErrUnknownMethod) }, // nobody calls a client
	})
	c.caller = caller.New(caller.Config{
		Cell: c, Node: c.id, Name: c.name, ElectionTimeout: c.cfg.ElectionTimeout, MaxTTL: c.cfg.MaxTTL,
		Now: c.mux.Now, Stop: c.stop, Stopped: c.Stopped, Go: c.Go, Logger: c.log,
	})
	return nil
}

// Caller makes the calls of this process.
func (c *Client) Caller() *caller.Caller { return c.caller }

// ID is the node's id, another one at each start.
func (c *Client) ID() string { return c.id }

// Name is what people call it.
func (c *Client) Name() string { return c.name }

// Addr is "": nobody can reach it.
func (c *Client) Addr() string { return "" }

// Shutdown ends the sessions of this process and stops. When ctx ends first it stops at once.
func (c *Client) Shutdown(ctx context.Context) error {
	err := c.Leave(ctx, c.caller, nil)
	c.end(caller.ErrClosed)
	return err
}

// Close stops at once.
func (c *Client) Close() error {
	c.end(caller.ErrClosed)
	return nil
}

// end stops the node because of err, once, and waits until it has stopped: first nobody may act on what this process
// holds any more, then callers that wait are let go.
func (c *Client) end(err error) {
	c.End(err, func() {
		c.caller.End()
		c.Halt()
	}, c.release)
}

func (c *Client) release() {
	c.pump.Close()
	if err := c.mux.Close(); err != nil {
		c.log.Debug("closing", "part", "network", "error", err)
	}
	if err := c.calls.Close(); err != nil {
		c.log.Debug("closing", "part", "calls", "error", err)
	}
}

// LimitError is the error for a change that the cell has refused because of a limit. Its values are the cell's.
func (c *Client) LimitError(l fsm.Limit) error { return caller.LimitError(c.place.last().Params, l) }
