package wire

import (
	"time"

	"github.com/coordcell/coord/fsm"
)

// ReadKind says what a Read asks for. Each number is for ever.
type ReadKind uint8

const (
	ReadKey  ReadKind = 1 // one key
	ReadList ReadKind = 2 // the keys that begin with a prefix
	ReadLock ReadKind = 3 // who holds a lock and who waits for it
)

// Read asks a server for a part of the state.
type Read struct {
	Kind  ReadKind
	Name  string // the key, the prefix or the lock
	After string // of a list: only what comes after this key
	Limit int    // of a list: at most so many keys
	Stale bool   // as the server has it, however old that is
}

// ReadAnswer is what a Read has found.
type ReadAnswer struct {
	Revision fsm.Revision
	Keys     []fsm.KeyValue // sorted; of ReadKey one at most
	More     bool           // there are others behind the last key
	Lock     fsm.LockView
	Held     []time.Duration // by each holder, as long as the server has seen it
	Waited   []time.Duration // by each waiter, the same
}
