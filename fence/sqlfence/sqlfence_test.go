package sqlfence_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/coordcell/coord/fence"
	"github.com/coordcell/coord/fence/fencetest"
	"github.com/coordcell/coord/fence/sqlfence"
)

// The suite runs here against a stand-in, so that this module needs no driver; the examples run it against SQLite.
func TestGuard(t *testing.T) {
	for name, c := range map[string]struct {
		like fakeDB
		opts []sqlfence.Option
	}{
		"SQLite":     {like: sqliteLike},
		"PostgreSQL": {like: postgresLike, opts: []sqlfence.Option{sqlfence.PostgreSQL(), sqlfence.WithTable("app.fence_1")}},
		"MySQL":      {like: mysqlLike, opts: []sqlfence.Option{sqlfence.MySQL()}},
	} {
		t.Run(name, func(t *testing.T) {
			fencetest.Run(t, func(t *testing.T) (fence.Guard, func() fence.Guard) {
				fake := newFakeDB(c.like)
				open := func() fence.Guard { return guard(t, fake, c.opts...) }
				return open(), open
			})
		})
	}
}

func TestG4_TheTokenGoesWithTheTransaction(t *testing.T) {
	fake := newFakeDB(sqliteLike)
	g := guard(t, fake)
	failure := errors.New("constraint failed")
	err := g.Do(t.Context(), "r", 6, func(ctx context.Context) error {
		if sqlfence.Tx(ctx) == nil {
			t.Error("write finds no transaction")
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Fatal(err)
	}
	if row, ok := fake.tables["coord_fence"]["r"]; ok {
		t.Fatalf("a failed write left %+v", row)
	}
	for range 2 {
		if err := g.Do(t.Context(), "r", 5, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if row := fake.tables["coord_fence"]["r"]; row != (fakeRow{token: 5, writes: 2}) {
		t.Fatalf("after two writes with token 5: %+v", row)
	}
}

func TestG4_CheckInTheCallersTransaction(t *testing.T) {
	fake := newFakeDB(sqliteLike)
	guard(t, fake) // for the table
	db := fake.open(t)
	check := func(token fence.Token, commit bool) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if err := sqlfence.Check(t.Context(), tx, "r", token); err != nil || !commit {
			return err
		}
		return tx.Commit()
	}
	if err := check(9, false); err != nil { // rolled back: forgotten
		t.Fatal(err)
	}
	if err := check(5, true); err != nil {
		t.Fatal(err)
	}
	var stale *fence.StaleError
	if err := check(4, true); !errors.As(err, &stale) || *stale != (fence.StaleError{Resource: "r", Got: 4, Highest: 5}) {
		t.Fatalf("token 4 after 5: %v", err)
	}
	if err := check(0, true); !errors.Is(err, fence.ErrNoToken) {
		t.Fatalf("token 0: %v", err)
	}
}

func TestBadInput(t *testing.T) {
	fake := newFakeDB(sqliteLike)
	g := guard(t, fake)
	for name, c := range map[string]struct {
		resource string
		token    fence.Token
		want     string
	}{
		"token above BIGINT": {"r", math.MaxInt64 + 1, "9223372036854775807"},
		"long resource":      {strings.Repeat("x", sqlfence.MaxResource+1), 1, "512"},
		"not UTF-8":          {"a\xff", 1, "UTF-8"},
		"zero byte":          {"a\x00", 1, "zero byte"},
	} {
		err := g.Do(t.Context(), c.resource, c.token, func(context.Context) error {
			t.Errorf("%s: write was run", name)
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: error %v, want one that says %q", name, err, c.want)
		}
	}
	for _, table := range []string{"", "1a", "a b", "a;b", `a"b`, "a.b.c", "a.", ".a", "ä", strings.Repeat("x", 64)} {
		if _, err := sqlfence.New(fake.open(t), sqlfence.WithTable(table)); err == nil || !strings.Contains(err.Error(), "table") {
			t.Errorf("table %q: error %v", table, err)
		}
	}
}

func TestCreate(t *testing.T) {
	fake := newFakeDB(sqliteLike)
	fake.mayCreate = false
	if _, err := sqlfence.New(fake.open(t)); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("no table and no right to create one: error %v", err)
	}
	if _, err := sqlfence.New(fake.open(t), sqlfence.WithoutCreate()); err != nil {
		t.Errorf("WithoutCreate: %v", err)
	}
	fake.tables["coord_fence"] = make(map[string]fakeRow)
	if _, err := sqlfence.New(fake.open(t)); err != nil {
		t.Errorf("a table and no right to create one: %v", err)
	}
}

func TestTxOutsideOfDo(t *testing.T) {
	if tx := sqlfence.Tx(t.Context()); tx != nil {
		t.Fatal("a transaction from nowhere")
	}
}

func guard(t *testing.T, fake *fakeDB, opts ...sqlfence.Option) *sqlfence.Guard {
	t.Helper()
	g, err := sqlfence.New(fake.open(t), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
