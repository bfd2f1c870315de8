package hooksql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/pgsession"
	"github.com/hookonce/hookonce/internal/pgstore"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// testDB is a DB that shows the latest transaction of its client.
type testDB struct {
	*pgsession.DB
	pool   *sql.DB
	latest *postgresRunTx
}

func newTestDB(pool *sql.DB) *testDB {
	db := &testDB{pool: pool}
	db.DB = pgsession.New(&observedClient{&postgresClient{pool: pool, cut: pool, link: &postgresLink{}}, &db.latest})
	return db
}

// observedClient stores the latest transaction of BeginRun.
type observedClient struct {
	*postgresClient
	latest **postgresRunTx
}

func (c *observedClient) BeginRun(ctx context.Context) (pgsession.RunTx, bool, error) {
	tx, broken, err := c.postgresClient.BeginRun(ctx)
	if err == nil {
		*c.latest = tx.(*postgresRunTx)
	}
	return tx, broken, err
}

// testTx is a transaction with the views of the store and of the handler.
type testTx struct {
	pgstore.Tx
	tx  *sql.Tx
	pid int32
}

// openTxDB returns a DB on the shared server, with a table named effects.
func openTxDB(t *testing.T) (db *testDB, table string) {
	t.Helper()
	dsn, schema := dbtest.Postgres(t)
	pool := poolOf(t, dsn)
	table = schema + ".effects"
	if _, err := pool.ExecContext(t.Context(), "CREATE SCHEMA "+schema+"; CREATE TABLE "+table+" (name text)"); err != nil {
		t.Fatal(err)
	}
	return newTestDB(pool), table
}

func begin(t *testing.T, db *testDB) *testTx {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &testTx{tx, db.latest.tx, db.latest.pid}
}

func mustExec(t *testing.T, tx *testTx, query string, args ...any) {
	t.Helper()
	if _, err := tx.tx.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// wantIdle fails unless all connections return to the pool, or are closed.
func wantIdle(t *testing.T, db *testDB) {
	t.Helper()
	eventually.True(t, "no connection is in use", func() bool {
		if err := db.pool.PingContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return db.pool.Stats().InUse == 0
	})
}

func count(t *testing.T, db *testDB, table string) (n int) {
	t.Helper()
	if err := db.pool.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPostgresTxStatus has a handler break the rules of its transaction. Status must tell, and the
// next transaction must not be affected.
func TestPostgresTxStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do   func(t *testing.T, db *testDB, tx *testTx)
		want pgstore.TxStatus
	}{
		"nothing":   {func(*testing.T, *testDB, *testTx) {}, pgstore.TxOpen},
		"savepoint": {sent("SAVEPOINT a; ROLLBACK TO SAVEPOINT a"), pgstore.TxOpen},
		"failed statement": {func(t *testing.T, _ *testDB, tx *testTx) {
			if _, err := tx.tx.ExecContext(t.Context(), "SELECT 1/0"); err == nil {
				t.Error("the division succeeded")
			}
		}, pgstore.TxFailed},
		"commit":                  {func(_ *testing.T, _ *testDB, tx *testTx) { _ = tx.tx.Commit() }, pgstore.TxEnded},
		"rollback":                {func(_ *testing.T, _ *testDB, tx *testTx) { _ = tx.tx.Rollback() }, pgstore.TxEnded},
		"commit as SQL":           {sent("COMMIT"), pgstore.TxEnded},
		"rollback as SQL":         {sent("ROLLBACK"), pgstore.TxEnded},
		"another one by commit":   {sent("COMMIT; BEGIN"), pgstore.TxEnded},
		"another one by rollback": {sent("ROLLBACK AND CHAIN"), pgstore.TxEnded},
		"rows left open": {func(t *testing.T, _ *testDB, tx *testTx) {
			rows, err := tx.tx.QueryContext(t.Context(), "SELECT n FROM generate_series(1, 100000) AS s (n)") //nolint:sqlclosecheck,rowserrcheck // that is the point
			if err != nil || !rows.Next() {
				t.Errorf("no rows: %v", err)
			}
		}, pgstore.TxBusy},
		"session ended": {func(t *testing.T, db *testDB, tx *testTx) {
			if _, err := db.pool.ExecContext(t.Context(), "SELECT pg_terminate_backend($1::int, 30000)", tx.pid); err != nil {
				t.Error(err)
			}
		}, pgstore.TxLost},
		"severed": {func(_ *testing.T, _ *testDB, tx *testTx) { tx.Sever() }, pgstore.TxLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, _ := openTxDB(t)
			tx := begin(t, db)
			test.do(t, db, tx)
			for range 2 {
				if got := tx.Status(t.Context()); got != test.want {
					t.Errorf("the status is %v, want %v", got, test.want)
				}
			}
			tx.Rollback(t.Context())
			tx.Rollback(t.Context())
			wantIdle(t, db)
			next := begin(t, db)
			if got := next.Status(t.Context()); got != pgstore.TxOpen {
				t.Errorf("the status of the next transaction is %v, want %v", got, pgstore.TxOpen)
			}
			if err := next.Commit(t.Context()); err != nil {
				t.Errorf("committing the next transaction: %v", err)
			}
			wantIdle(t, db)
		})
	}
}

// sent returns a function that sends SQL without arguments.
func sent(query string) func(*testing.T, *testDB, *testTx) {
	return func(t *testing.T, _ *testDB, tx *testTx) { mustExec(t, tx, query) }
}

// TestPostgresTxOutlivesBegin ends the context of Begin, which bounds Begin alone.
func TestPostgresTxOutlivesBegin(t *testing.T) {
	t.Parallel()
	db, table := openTxDB(t)
	ctx, cancel := context.WithCancel(t.Context())
	opened, err := db.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	tx := &testTx{Tx: opened, tx: db.latest.tx}
	mustExec(t, tx, "INSERT INTO "+table+" VALUES ($1)", "a")
	if err := tx.Commit(ctx); !errors.Is(err, context.Canceled) || db.Outcome(err) != pgstore.NotSent {
		t.Errorf("Commit under a context that had ended: got the error %v, want it not sent", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Errorf("Commit: %v", err)
	}
	tx.Rollback(t.Context())
	if n := count(t, db, table); n != 1 {
		t.Errorf("%d rows were committed, want 1", n)
	}

	if _, err := db.Begin(ctx); !errors.Is(err, context.Canceled) || db.Outcome(err) != pgstore.NotSent {
		t.Errorf("Begin under a context that had ended: got the error %v, want it not sent", err)
	}
	wantIdle(t, db)
}

// TestPostgresTxSever cuts off a transaction under a statement that no context ends.
func TestPostgresTxSever(t *testing.T) {
	t.Parallel()
	db, table := openTxDB(t)
	tx := begin(t, db)
	mustExec(t, tx, "INSERT INTO "+table+" VALUES ($1)", "a")
	stuck := stick(t, db, tx)
	tx.Sever()
	tx.Sever()
	if err := eventually.Receive(t, "the statement ends", stuck); err == nil {
		t.Error("the statement ended without an error")
	}
	if _, err := tx.tx.ExecContext(t.Context(), "INSERT INTO "+table+" VALUES ($1)", "b"); err == nil {
		t.Error("a statement succeeded after the transaction was severed")
	}
	if err := tx.Commit(t.Context()); err == nil {
		t.Error("the transaction was committed after it was severed")
	}
	tx.Rollback(t.Context())
	wantIdle(t, db)
	if n := count(t, db, table); n != 0 {
		t.Errorf("%d rows were committed, want none", n)
	}
}

// stick starts a statement in the transaction that lasts until its session ends, and returns when
// the statement runs.
func stick(t *testing.T, db *testDB, tx *testTx) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := tx.tx.ExecContext(context.WithoutCancel(t.Context()), "SELECT pg_sleep(3600)")
		ended <- err
	}()
	eventually.True(t, "the statement runs", func() (running bool) {
		if err := db.pool.QueryRowContext(t.Context(),
			"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND state = 'active')", tx.pid).Scan(&running); err != nil {
			t.Fatal(err)
		}
		return running
	})
	return ended
}

// TestPostgresTxLeftRunning has a handler that left a statement running in a goroutine. Every call
// on the transaction ends with its context.
func TestPostgresTxLeftRunning(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(ctx context.Context, tx *testTx) error{
		"status": func(ctx context.Context, tx *testTx) error { return fmt.Errorf("status %v", tx.Status(ctx)) },
		"query": func(ctx context.Context, tx *testTx) error {
			rows, err := tx.Query(ctx, "SELECT 1")
			if err == nil {
				rows.Close()
			}
			return err
		},
		"script": func(ctx context.Context, tx *testTx) error { return tx.Script(ctx, "SELECT 1") },
		"commit": func(ctx context.Context, tx *testTx) error { return tx.Commit(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, table := openTxDB(t)
			tx := begin(t, db)
			mustExec(t, tx, "INSERT INTO "+table+" VALUES ($1)", "a")
			stuck := stick(t, db, tx)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := do(ctx, tx); err == nil {
				t.Error("no error")
			}
			tx.Rollback(t.Context())
			<-stuck
			wantIdle(t, db)
			if n := count(t, db, table); n != 0 {
				t.Errorf("%d rows were committed, want none", n)
			}
		})
	}
}

// TestPostgresTxSeverRaces severs transactions while they are used and committed. The outcome of
// the error of Commit must be true.
func TestPostgresTxSeverRaces(t *testing.T) {
	t.Parallel()
	db, table := openTxDB(t)
	outcomes := map[string]pgstore.Outcome{} // of failed commits, by row
	rounds := group.Rounds(16, 40)
	for i := range rounds {
		tx := begin(t, db)
		row := fmt.Sprint(i)
		var wg sync.WaitGroup
		wg.Go(func() {
			for range i % 4 {
				_, _ = tx.tx.ExecContext(t.Context(), "SELECT $1::int", 1)
			}
			tx.Sever()
		})
		_, err := tx.tx.ExecContext(t.Context(), "INSERT INTO "+table+" VALUES ($1)", row)
		if err != nil {
			outcomes[row] = pgstore.NotSent
		} else {
			tx.Status(t.Context())
			if err := tx.Commit(t.Context()); err != nil {
				outcomes[row] = db.Outcome(err)
			}
		}
		tx.Rollback(t.Context())
		wg.Wait()
	}
	wantIdle(t, db)
	for i := range rounds {
		row := fmt.Sprint(i)
		n := count(t, db, table+" WHERE name = '"+row+"'")
		switch outcome, failed := outcomes[row]; {
		case !failed && n != 1:
			t.Errorf("row %s was committed and is not there", row)
		case failed && outcome != pgstore.Unknown && n != 0:
			t.Errorf("row %s is there, although the outcome of its commit is %v", row, outcome)
		}
	}
}

// TestPostgresTxShared uses transactions while goroutines that handlers left behind use them too.
// Either all rows come, or there is an error.
func TestPostgresTxShared(t *testing.T) {
	t.Parallel()
	db, _ := openTxDB(t)
	for range 100 {
		tx := begin(t, db)
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 20 {
				_, _ = tx.tx.ExecContext(t.Context(), "SELECT $1::int", 1)
			}
		})
		for range 10 {
			rows, err := tx.Query(t.Context(), "SELECT n FROM generate_series(1, 3) AS s (n)")
			if err != nil {
				continue
			}
			n := 0
			for rows.Next() {
				n++
			}
			if err := rows.Err(); err == nil && n != 3 {
				t.Errorf("%d rows came without an error, want 3", n)
			}
			rows.Close()
		}
		wg.Wait()
		tx.Rollback(t.Context())
	}
	wantIdle(t, db)
}
