package examplestest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// Postgres makes a database that belongs to this test alone. It returns the URL for the program,
// and a pool for the test, which db uses too.
func Postgres(t testing.TB) (databaseURL string, pool *pgxpool.Pool, db *sql.DB) {
	t.Helper()
	dsn, _ := dbtest.Postgres(t)
	server, err := url.Parse(dsn)
	if err != nil || server.Scheme == "" {
		t.Fatalf("the DSN of the server must be a URL, not %q", dsn)
	}
	name := "example_" + strings.ToLower(rand.Text())
	onServer(t, dsn, "CREATE DATABASE "+name)
	t.Cleanup(func() { onServer(t, dsn, "DROP DATABASE "+name+" WITH (FORCE)") })
	server.Path = "/" + name
	databaseURL = server.String()
	pool, err = pgxpool.New(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db = stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = db.Close() }) // db does not close the pool
	return databaseURL, pool, db
}

func onServer(t testing.TB, dsn, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}

// Exec runs a statement.
func Exec(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Counts returns the rows of a query: a name and a number each.
func Counts(t testing.TB, db *sql.DB, query string) map[string]int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	counts := make(map[string]int)
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		counts[name] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return counts
}
