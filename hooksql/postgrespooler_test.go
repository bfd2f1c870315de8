package hooksql_test

import (
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// TestPostgresPooler holds all that concerns poolers.
func TestPostgresPooler(t *testing.T) {
	group.Need(t, "pooler")
	t.Parallel()
	t.Run("Driver", poolerDriver)
	t.Run("Work", poolerWork)
	t.Run("Open", poolerOpen)
}

// behindBouncer returns the DSN of a PgBouncer that hands each transaction to another session.
func behindBouncer(t testing.TB, dsn, schema string) string {
	t.Helper()
	bouncer := dbtest.StartBouncer(t, dsn, dbtest.BouncerOptions{
		Mode: "transaction", PoolSize: 40, OnServer: "SET search_path TO " + schema, Config: []string{"max_client_conn = 1000"},
	})
	return withParameter(t, bouncer.DSN(), "default_query_exec_mode", "cache_describe")
}

// poolerDriver runs the cases of the conformance suite that concern poolers behind PgBouncer. A long
// run has all cases.
func poolerDriver(t *testing.T) {
	t.Parallel()
	exercisePostgres(t, func(t testing.TB) *postgresWorld {
		dsn, schema := dbtest.Ready(t)
		return connectPostgres(t, behindBouncer(t, dsn, schema), schema)
	})
}

// poolerWork does the same with the suite of handlers' transactions.
func poolerWork(t *testing.T) {
	t.Parallel()
	harness := postgresHarness(behindBouncer)
	harness.Transport = true
	storetest.ExerciseWork(t, harness)
}

// poolerOpen opens the plain DSN of a PgBouncer.
func poolerOpen(t *testing.T) {
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	for _, mode := range []string{"session", "transaction"} {
		t.Run(mode, func(t *testing.T) {
			bouncer := dbtest.StartBouncer(t, server.DSN(), dbtest.BouncerOptions{Mode: mode})
			store, err := hooksql.OpenPostgres("pgx", bouncer.DSN())
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			if _, err := hookmigrate.Up(t.Context(), store); err != nil {
				t.Fatal(err)
			}
			w := &postgresWorld{store, bouncer.DSN(), hooksql.DefaultSchema, nil}
			for _, id := range []string{"one", "two", "three"} {
				w.mustClaim(t, true, queued(mode+id))
				run, err := store.Take(t.Context(), &driver.TakeParams{Source: "stripe", Types: []string{"*"}, Limit: 1, HandlerTimeout: time.Minute})
				if err != nil || run == nil {
					t.Fatalf("Take: got %v and the error %v, want a run", run, err)
				}
				if _, err := run.Tx().ExecContext(t.Context(), "SELECT $1::int", 1); err != nil {
					t.Errorf("a handler's statement: %v", err)
				}
				if err := run.Finish(t.Context(), outcome(run, driver.WorkSucceeded)); err != nil {
					t.Errorf("Finish: %v", err)
				}
			}
		})
	}
}
