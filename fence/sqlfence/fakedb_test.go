package sqlfence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strings"
	"testing"
)

// fakeDB is as much of a database as the guard's statements need: transactions that run one at a time, and are undone
// by a rollback. It takes the statements of one dialect and fails on every other.
type fakeDB struct {
	placeholder string        // what a parameter looks like
	ifAbsent    string        // what an INSERT that may find its key looks like, with %s for the rest
	turn        chan struct{} // holds one element while no transaction runs
	tables      map[string]map[string]fakeRow
	mayCreate   bool
}

type fakeRow struct{ token, writes int64 }

var (
	sqliteLike   = fakeDB{placeholder: `\?`, ifAbsent: `^INSERT INTO %s ON CONFLICT DO NOTHING$`}
	postgresLike = fakeDB{placeholder: `\$\d`, ifAbsent: `^INSERT INTO %s ON CONFLICT DO NOTHING$`}
	mysqlLike    = fakeDB{placeholder: `\?`, ifAbsent: `^INSERT IGNORE INTO %s$`}
)

func newFakeDB(like fakeDB) *fakeDB {
	like.turn = make(chan struct{}, 1)
	like.turn <- struct{}{}
	like.tables = make(map[string]map[string]fakeRow)
	like.mayCreate = true
	return &like
}

func (f *fakeDB) open(t *testing.T) *sql.DB {
	db := sql.OpenDB(f)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func (f *fakeDB) Connect(context.Context) (driver.Conn, error) { return &fakeConn{db: f}, nil }
func (f *fakeDB) Driver() driver.Driver                        { return nil }

// run executes one statement and returns the rows it found or changed.
func (f *fakeDB) run(query string, args []driver.NamedValue) (found []int64, changed int64, err error) {
	match := func(pattern string) string {
		pattern = strings.ReplaceAll(pattern, "?", f.placeholder)
		if m := regexp.MustCompile(pattern).FindStringSubmatch(query); m != nil {
			return m[1]
		}
		return ""
	}
	text := func(i int) string { return args[i].Value.(string) }
	number := func(i int) int64 { return args[i].Value.(int64) }

	if table := match(`^CREATE TABLE IF NOT EXISTS (\S+) \(`); table != "" {
		if !f.mayCreate {
			return nil, 0, errors.New("permission denied")
		}
		if f.tables[table] == nil {
			f.tables[table] = make(map[string]fakeRow)
		}
		return nil, 0, nil
	}
	if table := match(`^SELECT resource, token, writes FROM (\S+) WHERE 1 = 0$`); table != "" {
		if f.tables[table] == nil {
			return nil, 0, fmt.Errorf("no such table: %s", table)
		}
		return nil, 0, nil
	}
	if table := match(`^UPDATE (\S+) SET token = ?, writes = writes \+ 1 WHERE resource = ? AND token <= ?$`); table != "" {
		row, ok := f.tables[table][text(1)]
		if !ok || row.token > number(2) {
			return nil, 0, nil
		}
		f.tables[table][text(1)] = fakeRow{number(0), row.writes + 1}
		return nil, 1, nil
	}
	if table := match(fmt.Sprintf(f.ifAbsent, `(\S+) \(resource, token, writes\) VALUES \(?, ?, 1\)`)); table != "" {
		if _, ok := f.tables[table][text(0)]; ok {
			return nil, 0, nil
		}
		f.tables[table][text(0)] = fakeRow{number(1), 1}
		return nil, 1, nil
	}
	if table := match(`^SELECT token FROM (\S+) WHERE resource = ?$`); table != "" {
		if row, ok := f.tables[table][text(0)]; ok {
			return []int64{row.token}, 0, nil
		}
		return nil, 0, nil
	}
	return nil, 0, fmt.Errorf("syntax error: %s", query)
}

type fakeConn struct {
	db     *fakeDB
	before map[string]map[string]fakeRow // the state that a rollback returns to; nil outside of a transaction
}

func (c *fakeConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	select {
	case <-c.db.turn:
	case <-ctx.Done():
		return nil, errors.New("interrupted") // as drivers do, and not ctx's error
	}
	c.before = make(map[string]map[string]fakeRow)
	for name, table := range c.db.tables {
		c.before[name] = maps.Clone(table)
	}
	return c, nil
}

func (c *fakeConn) Commit() error {
	c.before = nil
	c.db.turn <- struct{}{}
	return nil
}

func (c *fakeConn) Rollback() error {
	c.db.tables = c.before
	return c.Commit()
}

func (c *fakeConn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	_, changed, err := c.run(query, args)
	return driver.RowsAffected(changed), err
}

func (c *fakeConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	found, _, err := c.run(query, args)
	return &fakeRows{found}, err
}

func (c *fakeConn) run(query string, args []driver.NamedValue) ([]int64, int64, error) {
	if c.before == nil { // a transaction of its own
		<-c.db.turn
		defer func() { c.db.turn <- struct{}{} }()
	}
	return c.db.run(query, args)
}

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not supported") }
func (c *fakeConn) Begin() (driver.Tx, error)           { return nil, errors.New("not supported") }
func (c *fakeConn) Close() error                        { return nil }

type fakeRows struct{ tokens []int64 }

func (r *fakeRows) Columns() []string { return []string{"token"} }
func (r *fakeRows) Close() error      { return nil }
func (r *fakeRows) Next(row []driver.Value) error {
	if len(r.tokens) == 0 {
		return io.EOF
	}
	row[0], r.tokens = r.tokens[0], r.tokens[1:]
	return nil
}
