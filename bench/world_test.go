package bench

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// serverSettings are those of a small tuned server. Durability is PostgreSQL's default: every
// commit waits for the disk.
var serverSettings = []string{
	"shared_buffers=1GB", "max_wal_size=8GB", "min_wal_size=1GB", "checkpoint_timeout=15min", "max_connections=300",
}

// newServer starts a PostgreSQL with its data on the disk.
func newServer(t testing.TB, env ...string) *dbtest.Server {
	t.Helper()
	return dbtest.StartServer(t, &dbtest.Options{Config: serverSettings, OnDisk: true, Env: env})
}

// newDatabase creates an empty database on a server and returns its DSN.
func newDatabase(t testing.TB, server *dbtest.Server, name string) string {
	t.Helper()
	execute(t, server.DSN(), "CREATE DATABASE "+name)
	dsn, err := url.Parse(server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	dsn.Path = "/" + name
	return dsn.String()
}

// execute runs each statement by itself.
func execute(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// count returns the number that a query yields.
func count(t testing.TB, dsn, query string) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var n int
	if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// emptyTables empties the tables of the gateway and of the baselines, so that every measurement starts
// alike.
const emptyTables = `DO $$ BEGIN
	IF to_regclass('hookonce.event') IS NOT NULL THEN
		TRUNCATE hookonce.event, hookonce.event_state, hookonce.message, hookonce.attempt, hookonce.delivery_count;
	END IF;
	IF to_regclass('byhand.event') IS NOT NULL THEN
		TRUNCATE byhand.event, byhand.event_state;
	END IF;
	IF to_regclass('webhook_events') IS NOT NULL THEN
		TRUNCATE webhook_events;
	END IF;
END $$`

// gatewaySettings returns settings of a gateway whose events wait for an SQL consumer: a claim
// writes two rows.
func gatewaySettings(database, more string) string {
	return fmt.Sprintf(`database: %q
sources:
  %s:
    provider: stripe
    secrets: [%q]
    consume: sql
%s`, database, sourceName, secret, more)
}
