package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "modernc.org/sqlite"

	"github.com/coordcell/coord/fence"
	"github.com/coordcell/coord/fence/sqlfence"
)

// Ledger is the database in which each run is recorded. Nothing in its tables forbids a run to be recorded twice: that it
// is not, is the work of the lock and the guard alone, and what the demonstration checks.
type Ledger struct {
	db    *sql.DB
	guard *sqlfence.Guard
}

// Run is one record: who ran the job of that minute, by right of which token.
type Run struct {
	Job    string
	Minute time.Time
	Runner string
	Token  fence.Token
}

const schema = `
CREATE TABLE IF NOT EXISTS runs (
	id     INTEGER PRIMARY KEY AUTOINCREMENT, -- the order in which they were accepted
	job    TEXT    NOT NULL,
	minute TEXT    NOT NULL,
	runner TEXT    NOT NULL,
	token  INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS runs_by_job ON runs (job, minute);
CREATE TABLE IF NOT EXISTS refused (
	job     TEXT    NOT NULL,
	minute  TEXT    NOT NULL,
	runner  TEXT    NOT NULL,
	token   INTEGER NOT NULL,
	highest INTEGER NOT NULL                  -- the token that had been accepted by then
);`

const minuteFormat = "2006-01-02 15:04"

// openLedger opens the database at path and creates its tables where they are missing. A transaction waits as long as busy
// for those of other processes.
func openLedger(path string, busy time.Duration) (*Ledger, error) {
	dsn := fmt.Sprintf("file:%s?_txlock=immediate&_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)", path, busy.Milliseconds())
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	db.SetMaxOpenConns(1) // SQLite has one writer: let those of this process queue here, rather than poll its lock
	if _, err = db.Exec(schema); err == nil {
		var guard *sqlfence.Guard
		if guard, err = sqlfence.New(db); err == nil {
			return &Ledger{db: db, guard: guard}, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("database %s: %w", path, err), db.Close())
}

func (l *Ledger) Close() error { return l.db.Close() }

// TakeOver shuts out every earlier runner of the job, and returns the last minute that one of them recorded; zero if none
// did. The order matters: a predecessor that could still write would make the answer old.
func (l *Ledger) TakeOver(ctx context.Context, job string, t fence.Token) (last time.Time, err error) {
	err = l.guard.Do(ctx, resource(job), t, func(ctx context.Context) (err error) {
		last, err = lastRun(ctx, sqlfence.Tx(ctx), job)
		return err
	})
	return last, err
}

// Record writes r, in one transaction with the check of its token. A stale one is refused: fence.ErrStale.
func (l *Ledger) Record(ctx context.Context, r Run) error {
	return l.guard.Do(ctx, resource(r.Job), r.Token, func(ctx context.Context) error {
		_, err := sqlfence.Tx(ctx).ExecContext(ctx, "INSERT INTO runs (job, minute, runner, token) VALUES (?, ?, ?, ?)",
			r.Job, r.Minute.Format(minuteFormat), r.Runner, int64(r.Token))
		return err
	})
}

// NoteRefused keeps what the guard refused, for the check at the end.
func (l *Ledger) NoteRefused(ctx context.Context, r Run, highest fence.Token) error {
	_, err := l.db.ExecContext(ctx, "INSERT INTO refused (job, minute, runner, token, highest) VALUES (?, ?, ?, ?, ?)",
		r.Job, r.Minute.Format(minuteFormat), r.Runner, int64(r.Token), int64(highest))
	return err
}

// Idle reports whether no other process is in the middle of a transaction and r is not recorded yet. It writes nothing.
func (l *Ledger) Idle(ctx context.Context, r Run) (bool, error) {
	tx, err := l.db.BeginTx(ctx, nil) // takes the one write lock, or gives up after busy
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	last, err := lastRun(ctx, tx, r.Job)
	return err == nil && last.Before(r.Minute), err
}

// Runs returns all records in the order in which they were accepted.
func (l *Ledger) Runs(ctx context.Context) ([]Run, error) {
	return l.read(ctx, "SELECT job, minute, runner, token FROM runs ORDER BY id")
}

// Refused returns what NoteRefused has kept.
func (l *Ledger) Refused(ctx context.Context) ([]Run, error) {
	return l.read(ctx, "SELECT job, minute, runner, token FROM refused WHERE token < highest")
}

func (l *Ledger) read(ctx context.Context, query string) ([]Run, error) {
	rows, err := l.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var runs []Run
	for rows.Next() {
		var r Run
		var minute string
		if err := rows.Scan(&r.Job, &minute, &r.Runner, &r.Token); err != nil {
			return nil, err
		}
		if r.Minute, err = time.Parse(minuteFormat, minute); err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, rows.Err()
}

func lastRun(ctx context.Context, tx *sql.Tx, job string) (time.Time, error) {
	var minute sql.NullString
	err := tx.QueryRowContext(ctx, "SELECT max(minute) FROM runs WHERE job = ?", job).Scan(&minute)
	if err != nil || !minute.Valid {
		return time.Time{}, err
	}
	return time.Parse(minuteFormat, minute.String)
}

// resource is what the guard and the elections call a job.
func resource(job string) string { return "job/" + job }
