package coord

import (
	"bytes"
	"context"
	"fmt"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/wire"
)

// KeyValue is a key as it stands.
type KeyValue struct {
	Key              string
	Value            []byte
	Created, Changed Revision
	Session          SessionID // whose ephemeral key it is; 0: a plain one
}

// Listing is a part of the keys, sorted, as they were at one revision.
type Listing struct {
	Revision Revision
	Keys     []KeyValue
	More     bool // there are others behind the last one
}

// ReadOption is an option of Get and List.
type ReadOption interface{ readOption(*readOptions) }

type readOptions struct {
	stale bool
	limit int
	after string
}

type readOptionFunc func(*readOptions)

func (f readOptionFunc) readOption(o *readOptions) { f(o) }

// Stale answers from this node's replica, however old it is, without asking anybody. Without it reads are linearizable:
// they see every change that was acknowledged to anybody before the call.
func Stale() ReadOption { return readOptionFunc(func(o *readOptions) { o.stale = true }) }

// WithLimit lists at most n items, up to Limits.List, which is the default (0).
func WithLimit(n int) ReadOption { return readOptionFunc(func(o *readOptions) { o.limit = n }) }

// WithAfter lists what comes after key: pass the last key of a Listing to go on.
func WithAfter(key string) ReadOption { return readOptionFunc(func(o *readOptions) { o.after = key }) }

// WriteOption is an option of Put and Delete.
type WriteOption interface{ writeOption(*writeOptions) }

type writeOptions struct {
	absent   bool
	revision *Revision
}

type writeOptionFunc func(*writeOptions)

func (f writeOptionFunc) writeOption(o *writeOptions) { f(o) }

// IfRevision makes the write fail with ErrConflict unless the key's last change was r, which must be above 0.
func IfRevision(r Revision) WriteOption {
	return writeOptionFunc(func(o *writeOptions) { o.revision = &r })
}

// IfAbsent makes a Put fail with ErrConflict if the key exists. On Delete it is ErrInvalid.
func IfAbsent() WriteOption {
	return writeOptionFunc(func(o *writeOptions) { o.absent = true })
}

// precondition is what the options demand of the key.
func precondition(opts []WriteOption) (fsm.Precondition, error) {
	var o writeOptions
	for _, opt := range opts {
		opt.writeOption(&o)
	}
	cond := fsm.Precondition{Absent: o.absent}
	switch {
	case o.revision == nil:
	case o.absent:
		return cond, fmt.Errorf("%w: IfAbsent together with IfRevision(%d)", ErrInvalid, *o.revision)
	case *o.revision == 0:
		return cond, fmt.Errorf("%w: IfRevision(0): must be above 0; for a key that does not exist use IfAbsent", ErrInvalid)
	default:
		cond.At = *o.revision
	}
	return cond, nil
}

// Condition is a condition of a Txn.
type Condition struct{ c fsm.Condition }

// KeyAt holds if the key's last change was rev.
func KeyAt(key string, rev Revision) Condition {
	return Condition{fsm.Condition{Kind: fsm.KeyAt, Key: key, Revision: rev}}
}

// KeyAbsent holds if there is no such key.
func KeyAbsent(key string) Condition {
	return Condition{fsm.Condition{Kind: fsm.KeyAbsent, Key: key}}
}

// ValueIs holds if the key exists and has this value.
func ValueIs(key string, value []byte) Condition {
	return Condition{fsm.Condition{Kind: fsm.ValueIs, Key: key, Value: value}}
}

// HeldBy holds if the lock name is held under this token, by a session that has not ended. Lock.Held makes one. It
// makes a Txn on the cell's own keys safe against former holders, as a guard does for other resources.
func HeldBy(name string, t Token) Condition {
	return Condition{fsm.Condition{Kind: fsm.HeldBy, Key: name, Revision: Revision(t)}}
}

// Op is an operation of a Txn.
type Op struct{ op fsm.Op }

// OpPut writes a key.
func OpPut(key string, value []byte) Op {
	return Op{fsm.Op{Kind: fsm.OpPut, Key: key, Value: value}}
}

// OpDelete deletes a key. That there is none is no error: its result says Found false.
func OpDelete(key string) Op { return Op{fsm.Op{Kind: fsm.OpDelete, Key: key}} }

// OpGet reads a key, as the operations before it have left it.
func OpGet(key string) Op { return Op{fsm.Op{Kind: fsm.OpGet, Key: key}} }

// Txn is performed in one step of the log: Then if all conditions hold, Else otherwise.
type Txn struct {
	If         []Condition
	Then, Else []Op
}

// TxnResult says what a Txn did.
type TxnResult struct {
	Succeeded bool // all conditions held
	Revision  Revision
	Results   []OpResult // one a performed operation, in order
}

// OpResult is what an operation found, wrote or removed.
type OpResult struct {
	Found bool
	KeyValue
}

// Get reads a key. Errors: ErrKeyNotFound, ErrInvalid, ErrTooLarge (key), ErrNoLeader (ctx ended), ErrClosed.
func (n *Node) Get(ctx context.Context, key string, opts ...ReadOption) (KeyValue, error) {
	var o readOptions
	for _, opt := range opts {
		opt.readOption(&o)
	}
	err := n.limits.CheckName("key", key)
	if err == nil && (o.limit != 0 || o.after != "") {
		err = fmt.Errorf("%w: WithLimit and WithAfter are for List", ErrInvalid)
	}
	var a wire.ReadAnswer
	if err == nil {
		a, err = n.srv.Read(ctx, wire.Read{Kind: wire.ReadKey, Name: key, Stale: o.stale})
	}
	if err == nil && len(a.Keys) == 0 {
		err = ErrKeyNotFound
	}
	if err != nil {
		return KeyValue{}, wrap(err, "get %q", key)
	}
	return keyValue(a.Keys[0]), nil
}

// List lists the keys that begin with prefix, sorted, at most Limits.List of them. Errors: ErrInvalid, ErrTooLarge
// (prefix, WithAfter), ErrLimit (WithLimit), ErrNoLeader (ctx ended), ErrClosed.
func (n *Node) List(ctx context.Context, prefix string, opts ...ReadOption) (Listing, error) {
	var o readOptions
	for _, opt := range opts {
		opt.readOption(&o)
	}
	err := n.limits.CheckPrefix("prefix", prefix)
	if err == nil {
		err = n.limits.CheckPrefix("WithAfter", o.after)
	}
	if err == nil && o.limit < 0 {
		err = fmt.Errorf("%w: WithLimit(%d): must be 0 … %d", ErrInvalid, o.limit, n.limits.List)
	}
	if err == nil && o.limit > n.limits.List {
		err = fmt.Errorf("%w: WithLimit(%d): must be 0 … Limits.List, %d", ErrLimit, o.limit, n.limits.List)
	}
	if o.limit == 0 {
		o.limit = n.limits.List
	}
	var a wire.ReadAnswer
	if err == nil {
		a, err = n.srv.Read(ctx, wire.Read{Kind: wire.ReadList, Name: prefix, After: o.after, Limit: o.limit, Stale: o.stale})
	}
	if err != nil {
		return Listing{}, wrap(err, "list %q", prefix)
	}
	l := Listing{Revision: a.Revision, Keys: make([]KeyValue, len(a.Keys)), More: a.More}
	for i, kv := range a.Keys {
		l.Keys[i] = keyValue(kv)
	}
	return l, nil
}

// Put writes a plain key: it belongs to no session, whoever owned it before. It returns the revision of the change.
// Errors: ErrConflict (options), ErrInvalid, ErrTooLarge (key, value), ErrLimit (keys), ErrNoLeader or
// ErrOutcomeUnknown (ctx ended), ErrClosed.
func (n *Node) Put(ctx context.Context, key string, value []byte, opts ...WriteOption) (Revision, error) {
	return n.put(ctx, nil, false, key, value, opts)
}

// Delete deletes a key. It returns the revision of the change. Errors: ErrKeyNotFound, and as Put.
func (n *Node) Delete(ctx context.Context, key string, opts ...WriteOption) (Revision, error) {
	rev, err := n.delete(ctx, key, opts)
	return rev, wrap(err, "delete %q", key)
}

// Txn performs t as one step of the log. What it puts are plain keys. Errors: ErrInvalid (malformed, contradictory),
// ErrTooLarge (names, values, what the operations return), ErrLimit (operations, keys), ErrNoLeader or ErrOutcomeUnknown (ctx ended), ErrClosed.
func (n *Node) Txn(ctx context.Context, t Txn) (TxnResult, error) {
	return n.txn(ctx, nil, false, t)
}

// change makes a change under s, or under the node's own session if s is nil.
func (n *Node) change(ctx context.Context, s *caller.Session, build func(fsm.Change) fsm.Command) (fsm.Result, error) {
	if s == nil {
		return n.calls.Change(ctx, build)
	}
	return s.Change(ctx, build)
}

func (n *Node) put(ctx context.Context, s *caller.Session, ephemeral bool, key string, value []byte, opts []WriteOption) (Revision, error) {
	cond, err := precondition(opts)
	if err == nil {
		err = n.limits.CheckName("key", key)
	}
	if err == nil {
		err = n.limits.CheckValue("value", value)
	}
	if err != nil {
		return 0, wrap(err, "put %q", key)
	}
	kept := bytes.Clone(value) // the change may be on its way for longer than this call
	res, err := n.change(ctx, s, func(c fsm.Change) fsm.Command {
		return fsm.Put{Change: c, Key: key, Value: kept, Ephemeral: ephemeral, If: cond}
	})
	if err == nil {
		err = n.outcome(res)
	}
	return res.Revision, wrap(err, "put %q", key)
}

func (n *Node) delete(ctx context.Context, key string, opts []WriteOption) (Revision, error) {
	cond, err := precondition(opts)
	if err == nil && cond.Absent {
		err = fmt.Errorf("%w: Delete with IfAbsent", ErrInvalid)
	}
	if err == nil {
		err = n.limits.CheckName("key", key)
	}
	if err != nil {
		return 0, err
	}
	res, err := n.change(ctx, nil, func(c fsm.Change) fsm.Command {
		return fsm.Delete{Change: c, Key: key, If: cond}
	})
	if err == nil {
		err = n.outcome(res)
	}
	return res.Revision, err
}

func (n *Node) txn(ctx context.Context, s *caller.Session, ephemeral bool, t Txn) (TxnResult, error) {
	cmd := fsm.Txn{Ephemeral: ephemeral}
	for _, c := range t.If {
		c.c.Value = bytes.Clone(c.c.Value)
		cmd.If = append(cmd.If, c.c)
	}
	cmd.Then, cmd.Else = operations(t.Then), operations(t.Else)
	if err := n.limits.CheckTxn(cmd); err != nil {
		return TxnResult{}, wrap(err, "txn")
	}
	res, err := n.change(ctx, s, func(c fsm.Change) fsm.Command {
		cmd.Change = c
		return cmd
	})
	if err == nil {
		err = n.outcome(res)
	}
	if err != nil {
		return TxnResult{}, wrap(err, "txn")
	}
	out := TxnResult{Succeeded: res.Succeeded, Revision: res.Revision}
	for _, r := range res.Ops {
		out.Results = append(out.Results, OpResult{Found: r.Found, KeyValue: keyValue(r.KV)})
	}
	return out, nil
}

// operations copies: a change may be on its way for longer than the call that made it.
func operations(ops []Op) (out []fsm.Op) {
	for _, op := range ops {
		op.op.Value = bytes.Clone(op.op.Value)
		out = append(out, op.op)
	}
	return out
}

// keyValue copies: what the state holds is shared with every reader and must not be written to.
func keyValue(kv fsm.KeyValue) KeyValue {
	return KeyValue{Key: kv.Key, Value: bytes.Clone(kv.Value), Created: kv.Created, Changed: kv.Changed, Session: kv.Session}
}
