package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/cancel"
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

// shutdownStep bounds how long a client tries to end its sessions before it goes.
const shutdownStep = 5 * time.Second

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

	stop    context.Context // ends when the node begins to stop
	halt    context.CancelFunc
	mu      sync.Mutex
	tasks   sync.WaitGroup // see Go
	ending  bool           // no further tasks
	err     error          // why it has stopped
	done    chan struct{}
	leaving chan struct{} // of one: the first Shutdown fills it, for good
}

// Start begins to look for the cell's servers in the background.
func Start(ctx context.Context, cfg Config) (*Client, error) {
	var random [24]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, id: hex.EncodeToString(random[:16]), done: make(chan struct{}), leaving: make(chan struct{}, 1),
		place: newPlace(),
	}
	if c.name = cfg.Name; c.name == "" {
		c.name = defaultName(c.id)
	}
	c.log = cfg.Logger.With("node", c.name)
	c.stop, c.halt = context.WithCancel(context.Background())
	if err := c.open(ctx, binary.BigEndian.Uint64(random[16:])); err != nil {
		c.halt()
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

// Go runs f on a goroutine that Close waits for. False: the node is stopping, and f will not be run.
func (c *Client) Go(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return false
	}
	c.tasks.Go(f)
	return true
}

// ID is the node's id, another one at each start.
func (c *Client) ID() string { return c.id }

// Name is what people call it.
func (c *Client) Name() string { return c.name }

// Addr is "": nobody can reach it.
func (c *Client) Addr() string { return "" }

// Stopping is closed when the node begins to stop.
func (c *Client) Stopping() <-chan struct{} { return c.stop.Done() }

// Done is closed when the node has stopped.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says why the node has stopped; nil while it has not.
func (c *Client) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Stopped is the error of a call that finds the node stopping: ErrClosed, with the reason if there is another one.
func (c *Client) Stopped() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil && !errors.Is(c.err, caller.ErrClosed) {
		return fmt.Errorf("%w: %w", caller.ErrClosed, c.err)
	}
	return caller.ErrClosed
}

// Shutdown ends the sessions of this process and stops. When ctx ends first it stops at once.
func (c *Client) Shutdown(ctx context.Context) error {
	err := c.farewell(ctx)
	c.end(caller.ErrClosed)
	return err
}

// farewell tells the cell of the sessions' ends. Without a leader it cannot, and does not try for long.
func (c *Client) farewell(ctx context.Context) error {
	select {
	case c.leaving <- struct{}{}:
	case <-c.stop.Done(): // the first call has done what could be done
		return nil
	case <-ctx.Done():
		return cancel.Reason(ctx)
	}
	if c.stop.Err() != nil {
		return nil
	}
	bounded, done := context.WithTimeout(ctx, max(shutdownStep, 4*c.cfg.ElectionTimeout))
	defer done()
	c.caller.Leave(bounded)
	if ctx.Err() != nil {
		return cancel.Reason(ctx)
	}
	return nil
}

// Close stops at once.
func (c *Client) Close() error {
	c.end(caller.ErrClosed)
	return nil
}

// end stops the node because of err, once, and waits until it has stopped: first nobody may act on what this process
// holds any more, then callers that wait are let go.
func (c *Client) end(err error) {
	c.mu.Lock()
	first := !c.ending
	if first {
		c.err, c.ending = err, true
	}
	c.mu.Unlock()
	if first {
		c.caller.End()
		c.halt()
		c.tasks.Wait()
		c.pump.Close()
		if err := c.mux.Close(); err != nil {
			c.log.Debug("closing", "part", "network", "error", err)
		}
		if err := c.calls.Close(); err != nil {
			c.log.Debug("closing", "part", "calls", "error", err)
		}
		close(c.done)
	}
	<-c.done
}

// LimitError is the error for a change that the cell has refused because of a limit. Its values are the cell's.
func (c *Client) LimitError(l fsm.Limit) error { return caller.LimitError(c.place.last().Params, l) }

// defaultName is the host's name and a part of the node's id.
func defaultName(id string) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	return host[:min(len(host), 100)] + "-" + id[:6]
}
