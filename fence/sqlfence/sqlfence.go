package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/coordcell/coord/fence"
)

// MaxResource is the longest name of a resource, in bytes.
const MaxResource = 512

// Check lets tx go on if t is not below the highest token that resource has accepted, and raises that to t. It belongs at
// the beginning of tx: its answer holds until tx ends, and goes with it if it is rolled back. After an error roll tx back.
//
// It speaks to SQLite, about the table coord_fence; a Guard's own Check does what its options say.
//
// Errors: fence.ErrNoToken; fence.ErrStale (a fence.StaleError); ctx's error; a resource whose name is longer than
// MaxResource or no UTF-8 text; a token that does not fit a BIGINT; and the database's.
func Check(ctx context.Context, tx *sql.Tx, resource string, t fence.Token) error {
	s := config{table: defaultTable}.statements()
	return s.check(ctx, tx, resource, t)
}

// Guard is a fence.Guard for what is written to a database.
type Guard struct {
	db *sql.DB
	statements
}

var _ fence.Guard = (*Guard)(nil)

// New returns a guard for db, and creates its table if there is none. db stays the caller's to close.
//
// Errors: an option that is malformed, and the database's.
func New(db *sql.DB, opts ...Option) (*Guard, error) {
	c := config{table: defaultTable, create: true}
	for _, o := range opts {
		o.apply(&c)
	}
	if !validTable(c.table) {
		return nil, fmt.Errorf("sqlfence: table %q: want a name of letters, digits and underscores, at most %d long, with at most one dot", c.table, maxIdentifier)
	}
	g := &Guard{db: db, statements: c.statements()}
	if !c.create {
		return g, nil
	}
	if _, err := db.Exec(g.create); err != nil {
		// Two processes that create it at once may disturb each other, and one that finds it may lack the right to create.
		if _, missing := db.Exec(g.probe); missing != nil {
			return nil, fmt.Errorf("sqlfence: create table %s: %w", c.table, err)
		}
	}
	return g, nil
}

// Check is the function Check with the guard's table and dialect.
func (g *Guard) Check(ctx context.Context, tx *sql.Tx, resource string, t fence.Token) error {
	return g.check(ctx, tx, resource, t)
}

// Do implements fence.Guard: write runs in a transaction, which it finds with Tx, and which is committed if it returns
// nil and rolled back otherwise, the memory of t included. write must neither commit nor roll back by itself.
//
// Where Do returns an error of the commit itself, the database may have made it nonetheless.
func (g *Guard) Do(ctx context.Context, resource string, t fence.Token, write func(ctx context.Context) error) error {
	if t == 0 {
		return fence.ErrNoToken
	}
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return wrap(ctx, resource, err)
	}
	defer tx.Rollback() // after a commit it does nothing; it also ends what a panic of write leaves open
	if err := g.check(ctx, tx, resource, t); err != nil {
		return err
	}
	if err := write(context.WithValue(ctx, txKey{}, tx)); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return wrap(ctx, resource, err)
	}
	return nil
}

// Tx returns the transaction of the Do whose write was given ctx; nil outside of one.
func Tx(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(txKey{}).(*sql.Tx)
	return tx
}

type txKey struct{}

func (s *statements) check(ctx context.Context, tx *sql.Tx, resource string, t fence.Token) error {
	switch {
	case t == 0:
		return fence.ErrNoToken
	case t > math.MaxInt64:
		return fmt.Errorf("sqlfence: token %d: above %d, the highest of a BIGINT", t, int64(math.MaxInt64))
	case len(resource) > MaxResource:
		return fmt.Errorf("sqlfence: resource: a name of %d bytes: at most %d", len(resource), MaxResource)
	case !utf8.ValidString(resource) || strings.ContainsRune(resource, 0):
		return fmt.Errorf("sqlfence: resource %q: want UTF-8 text without a zero byte", resource)
	}
	token := int64(t)
	for _, attempt := range []struct {
		query string
		args  []any
	}{
		{s.update, []any{token, resource, token}},
		{s.insert, []any{resource, token}},
		{s.update, []any{token, resource, token}},
	} {
		changed, err := exec(ctx, tx, attempt.query, attempt.args...)
		if err != nil {
			return wrap(ctx, resource, err)
		}
		if changed {
			return nil
		}
	}
	stale := &fence.StaleError{Resource: resource, Got: t}
	// The refusal stands, whatever this finds: Highest is for people.
	_ = tx.QueryRowContext(ctx, s.highest, resource).Scan(&stale.Highest)
	return stale
}

func exec(ctx context.Context, tx *sql.Tx, query string, args ...any) (changed bool, err error) {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// wrap adds ctx's error where a driver has put its own in its place ("interrupted", "transaction is done").
func wrap(ctx context.Context, resource string, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("sqlfence: resource %q: %w: %w", resource, ended, err)
	}
	return fmt.Errorf("sqlfence: resource %q: %w", resource, err)
}
