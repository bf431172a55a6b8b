// Package sqlfence guards what is written to a SQL database: the highest token that a resource has accepted is a row of
// the same database, checked and raised by a conditional UPDATE in the same transaction as the write. Both are
// committed, or neither is.
//
// In a transaction of your own, call [Check], first of all. Or leave the transaction to [Guard.Do], which is a
// fence.Guard, and find it with [Tx].
//
//	guard, err := sqlfence.New(db)
//	...
//	err = guard.Do(ctx, "jobs/7", lock.Token(), func(ctx context.Context) error {
//		_, err := sqlfence.Tx(ctx).ExecContext(ctx, "INSERT INTO runs ...")
//		return err
//	})
//
// # The table
//
// New creates it. Where the program may not, create this one and say WithoutCreate:
//
//	CREATE TABLE coord_fence (
//		resource VARCHAR(512) NOT NULL PRIMARY KEY, -- what is written to: often the lock's name
//		token    BIGINT       NOT NULL,             -- the highest accepted
//		writes   BIGINT       NOT NULL              -- how many transactions it has let through
//	)
//
// A row is never deleted: to forget a token is to let former holders in again. In MySQL give resource a binary
// collation, or names that differ in case alone are one resource.
//
// # Why it is right
//
// The decision is made by UPDATE … SET token = T WHERE resource = R AND token <= T, and by nothing else: one row was
// changed, or none. Three things make it safe with other transactions at work.
//
// The order. An UPDATE that changed the row holds it until its transaction ends, so a second one on the same resource
// waits, then reads what the first has committed, and decides by that. SQLite runs one writing transaction at a time.
// PostgreSQL (READ COMMITTED, its default) locks the row and evaluates WHERE again on the new version. MySQL
// (InnoDB) reads the latest committed row in an UPDATE, at any isolation level. Under REPEATABLE READ or SERIALIZABLE
// PostgreSQL fails the later transaction instead: nothing is written, try again.
//
// The first write. When the UPDATE found no row, there may be none. The INSERT that follows does nothing where there is
// one by now: it waits for another transaction that is inserting the same key, and if that commits, the UPDATE is made
// once more and meets its row. InnoDB may find two first writers in a deadlock and abort one: again nothing is written.
//
// The answer. MySQL reports the rows that an UPDATE really changed, and an equal token would change none. So each one
// raises writes as well.
//
// SQLite is what this project's tests run; PostgreSQL 15 has passed the same suite by hand; for MySQL there is the
// argument alone.
//
// A transaction that has read before it calls Check may have to fail in SQLite (SQLITE_BUSY_SNAPSHOT), because the
// database has moved on since. Hence Check first. Give SQLite a busy timeout, or a transaction fails at once when another is
// writing.
package sqlfence
