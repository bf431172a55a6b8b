package coord

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/wire"
)

// LockInfo is a lock as somebody who looks sees it.
type LockInfo struct {
	Name    string
	Holders []Holder // none: it is free. Several: readers, or holders of slots
	Queue   []Waiter // in order
	Slots   int      // how many slots it has; 0: nobody holds or asks for one
	Freeing bool     // its holder's session has ended, and it will be with the next in a moment; or it was lost, and is kept back for its WithLockDelay
}

// Holder is one holder of a lock.
type Holder struct {
	Session SessionID
	Label   string
	Token   Token
	Slot    int
	Shared  bool
	Data    []byte
	Held    time.Duration // as long as the server that answered has seen it
}

// Waiter is one that waits for a lock.
type Waiter struct {
	Session SessionID
	Label   string
	Shared  bool
	Waited  time.Duration // as long as the server that answered has seen it
}

// SessionInfo is a session as somebody who looks sees it.
type SessionInfo struct {
	ID      SessionID
	Label   string
	Node    string // id of the node it is on
	TTL     time.Duration
	Locks   int // names that it holds
	Keys    int // ephemeral ones
	Waiting int // requests of it in queues
}

// String says who holds it and how many wait.
func (i LockInfo) String() string {
	if len(i.Holders) == 0 {
		return fmt.Sprintf("%q: free, %d waiting", i.Name, len(i.Queue))
	}
	h := i.Holders[0]
	more := ""
	if n := len(i.Holders) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%q: held by session %d %q with token %v%s, %d waiting", i.Name, h.Session, h.Label, h.Token, more, len(i.Queue))
}

// Lookup says who holds name and who waits for it, in order, as of a moment after the call. A free name has no holders,
// which is no error. Errors: ErrInvalid, ErrTooLarge, ErrNoLeader (ctx ended), ErrClosed.
func (n *Node) Lookup(ctx context.Context, name string) (LockInfo, error) {
	if err := n.limits.CheckName("lock name", name); err != nil {
		return LockInfo{}, wrap(err, "look up %q", name)
	}
	info, err := n.lookup(ctx, name)
	return info, wrap(err, "look up %q", name)
}

func (n *Node) lookup(ctx context.Context, name string) (LockInfo, error) {
	a, err := n.srv.Read(ctx, wire.Read{Kind: wire.ReadLock, Name: name})
	if err != nil {
		return LockInfo{}, err
	}
	return lockInfo(name, a.Lock, a.Held, a.Waited), nil
}

func lockInfo(name string, v fsm.LockView, held, waited []time.Duration) LockInfo {
	info := LockInfo{Name: name, Slots: v.Slots, Freeing: v.Freeing}
	for i, h := range v.Holders {
		info.Holders = append(info.Holders, Holder{
			Session: h.Session, Label: h.Label, Token: Token(h.Token), Slot: h.Slot, Shared: h.Shared,
			Data: bytes.Clone(h.Data), Held: held[i],
		})
	}
	for i, w := range v.Queue {
		info.Queue = append(info.Queue, Waiter{Session: w.Session, Label: w.Label, Shared: w.Shared, Waited: waited[i]})
	}
	return info
}

// Locks yields the locks in use whose names begin with prefix, sorted by name. It reads them in parts, each as of a moment
// after it was asked for: each lock is shown as it was at one moment, all together perhaps never were so. An error is the
// last that it yields. Errors: ErrTooLarge (prefix), ErrNoLeader (ctx ended), ErrClosed.
func (n *Node) Locks(ctx context.Context, prefix string) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		err := n.limits.CheckPrefix("prefix", prefix)
		for after, more := "", true; more && err == nil; {
			var a wire.ReadAnswer
			if a, err = n.srv.Read(ctx, wire.Read{Kind: wire.ReadLocks, Name: prefix, After: after}); err != nil {
				break
			}
			for _, l := range a.Locks {
				info := lockInfo(l.Name, l.Lock, l.Held, l.Waited)
				if l.Large {
					if info, err = n.lookup(ctx, l.Name); err != nil {
						break
					}
				}
				if !yield(info, nil) {
					return
				}
				after = l.Name
			}
			more = a.More && len(a.Locks) > 0
		}
		if err != nil {
			yield(LockInfo{}, wrap(err, "locks %q", prefix))
		}
	}
}

// Sessions yields the open sessions of the cell, the nodes' own left out, by rising id. As with Locks they are read in
// parts. Errors: ErrNoLeader (ctx ended), ErrClosed.
func (n *Node) Sessions(ctx context.Context) iter.Seq2[SessionInfo, error] {
	return func(yield func(SessionInfo, error) bool) {
		for after, more := SessionID(0), true; more; {
			a, err := n.srv.Read(ctx, wire.Read{Kind: wire.ReadSessions, After: strconv.FormatUint(uint64(after), 10)})
			if err != nil {
				yield(SessionInfo{}, wrap(err, "sessions"))
				return
			}
			for _, x := range a.Sessions {
				after = x.ID
				if !yield(SessionInfo{x.ID, x.Label, x.Node, time.Duration(x.TTL), x.Uses.Locks, x.Uses.Keys, x.Uses.Waiting}, nil) {
					return
				}
			}
			more = a.More && len(a.Sessions) > 0
		}
	}
}
