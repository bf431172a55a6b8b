// Package peer is what a workload sees of a coordination service: one small set of interfaces that every service is
// brought under, by the means its own users have (its client library, its recipe for a lock).
package peer

import (
	"context"
	"errors"
	"time"
)

// Servers is how many server processes a replicated service gets.
const Servers = 3

// ErrUnsupported is returned for what a service plainly has not got.
var ErrUnsupported = errors.New("not possible with this service")

// NoValue is what a Get returns of a floor that keeps no values, but does what a read takes.
const NoValue = "\x00"

// Backend is one kind of service.
type Backend interface {
	// About says in one line what runs, and what is safe on disk when a call returns.
	About() string
	// Missing says in one sentence what this machine lacks to run it; "" if nothing.
	Missing() string
	// Version is that of the software, read from this machine.
	Version() string
	// Start brings up the server processes, each with a folder of its own below dir, and returns once clients can work.
	Start(ctx context.Context, dir string) (Cell, error)
	// Attach is the view of a cell that another process started, for its clients only.
	Attach(spec string) (Cell, error)
}

// Server is a Backend whose servers are this very program, started again with arguments of the backend's own.
type Server interface {
	Serve(ctx context.Context, args []string) error
}

// Cell is a running service.
type Cell interface {
	// Spec lets another process Attach.
	Spec() string
	// PIDs are the processes of the servers that run now.
	PIDs() []int
	// Leader is the number of the server that leads, and its process.
	Leader(ctx context.Context) (number, pid int, err error)
	// Kill is kill -9. It returns once the process is no more.
	Kill(number int) error
	// Restart starts a killed server on its old folder and waits until it takes part again.
	Restart(ctx context.Context, number int) error
	// Stop ends all servers.
	Stop()
	// Client is what one application process has of the service: a connection, or a pool of them.
	Client(ctx context.Context) (Client, error)
}

// Client is one application process's way into the cell. Its methods may be called concurrently.
type Client interface {
	// Session opens a session, kept alive by the service's own means (about every ttl/3) until Close.
	Session(ctx context.Context, ttl time.Duration) (Session, error)
	Put(ctx context.Context, key, value string) error
	// Get is the strongest read there is.
	Get(ctx context.Context, key string) (string, error)
	// Watch is one watcher of the keys below prefix: with a connection of its own where the service's clients do not
	// share one. It returns once it is armed, and lasts until ctx ends. event gets the value of each put, from one
	// goroutine.
	Watch(ctx context.Context, prefix string, event func(value string)) error
	// WatchDeletes tells of each of the keys, all below prefix, that goes. event may be called concurrently.
	WatchDeletes(ctx context.Context, prefix string, keys []string, event func(key string)) error
	// Renewals is how many session renewals have been acknowledged so far.
	Renewals(ctx context.Context) int64
	Close()
}

// Session is what locks and ephemeral keys belong to.
type Session interface {
	// Lock waits until the lock is held.
	Lock(ctx context.Context, name string) (Lock, error)
	// PutEphemeral writes a key that goes when the session ends.
	PutEphemeral(ctx context.Context, key, value string) error
	Close(ctx context.Context) error
}

// Lock is a held lock.
type Lock interface {
	Unlock(ctx context.Context) error
}

// Lacks is for cells with which a workload makes no sense at all.
type Lacks interface{ Lacks(workload string) bool }

// Warm is for cells that are slow at first (a JVM): how long to work unmeasured before anything is measured.
type Warm interface{ Warm() time.Duration }
