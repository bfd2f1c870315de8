package hooksql_test

import (
	"os"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// behindBouncer returns the DSN of a PgBouncer that hands each transaction to another session.
func behindBouncer(t testing.TB, dsn, schema string) string {
	t.Helper()
	bouncer := dbtest.StartBouncer(t, dsn, dbtest.BouncerOptions{
		Mode: "transaction", PoolSize: 40, OnServer: "SET search_path TO " + schema, Config: []string{"max_client_conn = 1000"},
	})
	return withParameter(t, bouncer.DSN(), "default_query_exec_mode", "cache_describe")
}

// TestPostgresPooler runs the conformance suite behind PgBouncer.
func TestPostgresPooler(t *testing.T) {
	t.Parallel()
	soakOnly(t)
	exercisePostgres(t, func(t testing.TB) *postgresWorld {
		dsn, schema := dbtest.Postgres(t)
		w := connectPostgres(t, behindBouncer(t, dsn, schema), schema)
		w.migrate(t)
		return w
	})
}

// TestPostgresPoolerWork runs the conformance suite of handlers' transactions behind PgBouncer.
func TestPostgresPoolerWork(t *testing.T) {
	t.Parallel()
	soakOnly(t)
	storetest.ExerciseWork(t, postgresHarness(behindBouncer))
}

// TestOpenPostgresBehindPooler opens the plain DSN of a PgBouncer.
func TestOpenPostgresBehindPooler(t *testing.T) {
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

// soakOnly leaves the whole suites to "make soak". Package hookpgx runs them behind PgBouncer in every
// run, and TestOpenPostgresBehindPooler takes the same ways through this package.
func soakOnly(t *testing.T) {
	t.Helper()
	if os.Getenv("HOOKONCE_SOAK") == "" {
		t.Skip(`runs under "make soak"`)
	}
}
