package history

import "time"

// Kind is what a client did.
type Kind string

// The calls of the public API, and four things that are no calls of it: Check and Alive ask the client's own process
// without the network, Write goes to a resource that checks tokens, and Expired is the client's note that it found a
// session of its own to have ended.
const (
	Open     Kind = "open"     // NewSession: Session, TTL
	Close    Kind = "close"    // Session.Close
	Alive    Kind = "alive"    // Session.Remaining: OK if above 0
	Expired  Kind = "expired"  // Session.Err was not nil
	Lock     Kind = "lock"     // Lock, with or without a longest wait: Token
	TryLock  Kind = "trylock"  // Token
	Unlock   Kind = "unlock"   // Token
	Check    Kind = "check"    // Lock.Check or Leadership.Check: OK if nil
	Lookup   Kind = "lookup"   // Holder, Token, Queue
	Campaign Kind = "campaign" // Token is the epoch, Value what was proclaimed with it
	Proclaim Kind = "proclaim" // Token, Value
	Resign   Kind = "resign"   // Token
	Leader   Kind = "leader"   // Holder, Token, Value
	Put      Kind = "put"      // Value, If, Revision
	Delete   Kind = "delete"   // If, Revision
	Get      Kind = "get"      // Value, Revision: of the key's last change, 0 if there is no such key
	Write    Kind = "write"    // to a resource that checks tokens: Token, Value
)

// Outcome is what a client knows of a call of its own.
type Outcome string

const (
	OK      Outcome = "ok"      // it took effect
	Refused Outcome = "refused" // it had no effect and never will
	Unknown Outcome = "unknown" // it may have had an effect, or may have one yet
)

// Op is one call. The fields that its Kind does not name are zero.
type Op struct {
	ID      int           `json:"id"`             // unique within a history
	Client  int           `json:"client"`         // a client makes one call at a time
	Node    string        `json:"node,omitempty"` // the name of the server it was made on
	Kind    Kind          `json:"kind"`
	Name    string        `json:"name,omitempty"` // of the lock, election, key or resource
	Session uint64        `json:"session,omitempty"`
	Lasting bool          `json:"lasting,omitempty"` // a Put of a key that stays when Session ends: a node's own, not ephemeral
	TTL     time.Duration `json:"ttl,omitempty"`

	If     Condition `json:"if,omitzero"`
	Value  string    `json:"value,omitempty"`  // written or read; every value that is written is written once only
	Token  uint64    `json:"token,omitempty"`  // granted, presented, or found
	Holder uint64    `json:"holder,omitempty"` // the session found to hold the lock; 0: nobody does
	Queue  []uint64  `json:"queue,omitempty"`  // the sessions found waiting, first to last

	Revision uint64 `json:"revision,omitempty"`

	Call    time.Duration `json:"call"`
	Return  time.Duration `json:"return"` // Pending while it has not returned
	Outcome Outcome       `json:"outcome,omitempty"`
	Err     string        `json:"err,omitempty"`
}

// Pending is the Return of a call that has not returned: its process may have been killed.
const Pending time.Duration = -1

// Condition is what a Put or a Delete asks for. The zero value asks for nothing.
type Condition struct {
	Absent   bool   `json:"absent,omitempty"`   // no such key
	Revision uint64 `json:"revision,omitempty"` // the key was last changed there
	Lock     string `json:"lock,omitempty"`     // held with Token
	Token    uint64 `json:"token,omitempty"`
}

// Batch is what a watch delivered at once, or how it ended. The batches of one watcher are in the order of the record.
type Batch struct {
	Watcher  int           `json:"watcher"` // unique within a history: one call of Watch
	Node     string        `json:"node,omitempty"`
	Key      string        `json:"key"`
	Prefix   bool          `json:"prefix,omitempty"`
	From     uint64        `json:"from,omitempty"` // the revision that the watch was asked to begin at; 0: at its snapshot or at whatever comes next
	Snapshot bool          `json:"snapshot,omitempty"`
	Revision uint64        `json:"revision,omitempty"`
	More     bool          `json:"more,omitempty"`
	Events   []Event       `json:"events,omitempty"`
	At       time.Duration `json:"at"`
	End      bool          `json:"end,omitempty"` // the watch ended, with Err
	Err      string        `json:"err,omitempty"`
}

// Event is one change of a key.
type Event struct {
	Type     string `json:"type"` // put, delete, expire
	Key      string `json:"key"`
	Value    string `json:"value,omitempty"`
	Revision uint64 `json:"revision"`
	Session  uint64 `json:"session,omitempty"`
}

// History is a whole record: calls in the order of their starts, batches in the order of their arrival.
type History struct {
	Ops     []Op
	Batches []Batch
}
