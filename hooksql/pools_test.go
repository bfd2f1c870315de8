package hooksql_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
)

// A program writes its own tables through the store's pool while claims and runs of handlers use it.
// A pool of its own would get SQLITE_BUSY.
func TestOwnTables(t *testing.T) {
	t.Parallel()
	store := openMigrated(t, filepath.Join(t.TempDir(), "hookonce.db"))
	ctx := t.Context()
	if _, err := store.Writer().ExecContext(ctx, "CREATE TABLE orders (id TEXT PRIMARY KEY) STRICT"); err != nil {
		t.Fatal(err)
	}
	const n = 30
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			if _, err := store.Writer().ExecContext(ctx, "INSERT INTO orders VALUES (?)", fmt.Sprint("own ", i)); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		for i := range n {
			key := driver.EventKey("lab", fmt.Sprint(i))
			claim := driver.Claim{Key: key, Source: "lab", EventID: fmt.Sprint(i), Headers: []byte("{}"), Work: driver.WorkQueued}
			if _, err := store.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{claim}}); err != nil {
				t.Error(err)
				return
			}
			runOne(t, store, fmt.Sprint("handled ", i))
		}
	})
	wg.Wait()
	var count int
	if err := store.Reader().QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&count); err != nil || count != 2*n {
		t.Errorf("%d orders, %v; want %d", count, err, 2*n)
	}
	if _, err := store.Reader().ExecContext(ctx, "DELETE FROM orders"); err == nil {
		t.Error("the reader may write")
	}
}

// runOne takes one event into a run that inserts an order.
func runOne(t *testing.T, store *hooksql.Store, order string) {
	run, err := store.Take(t.Context(), &driver.TakeParams{Source: "lab", Types: []string{"*"}, Limit: 1})
	if err != nil || run == nil {
		t.Errorf("Take: %v, %v", run, err)
		return
	}
	_, err = run.Tx().ExecContext(t.Context(), "INSERT INTO orders VALUES (?)", order)
	if err == nil {
		err = run.Finish(t.Context(), &driver.FinishParams{
			Results: []driver.WorkResult{{Key: run.Events()[0].Key, Outcome: driver.WorkSucceeded}},
		})
	}
	if err != nil {
		t.Error(err)
		_ = run.Abandon(t.Context())
	}
}

// Close closes the pools that OpenSQLite opened, and leaves those of the caller open.
func TestClosePools(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	opened, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	writerDSN, readerDSN, err := hooksql.SQLiteDSN(path)
	if err != nil {
		t.Fatal(err)
	}
	var pools [2]*sql.DB
	for i, dsn := range []string{writerDSN, readerDSN} {
		if pools[i], err = sql.Open("sqlite", dsn); err != nil {
			t.Fatal(err)
		}
		defer pools[i].Close()
	}
	given := hooksql.NewSQLite(pools[0], pools[1])
	if given.Writer() != pools[0] || given.Reader() != pools[1] {
		t.Error("NewSQLite does not use the pools it was given")
	}
	if _, err := hookmigrate.Up(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	for _, store := range []*hooksql.Store{opened, given} {
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if opened.Writer().PingContext(t.Context()) == nil || opened.Reader().PingContext(t.Context()) == nil {
		t.Error("a pool of OpenSQLite is open after Close")
	}
	if err := pools[0].PingContext(t.Context()); err != nil {
		t.Errorf("a pool of the caller is closed: %v", err)
	}
}
