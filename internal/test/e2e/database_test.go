package e2e

import (
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the tests' own sessions
	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

// database belongs to one test alone.
type database struct {
	store string // "sqlite" or "postgres"
	url   string // for the gateway
	dsn   string // for sessions of the test
}

// eachStore runs a test on both stores, each with a database of its own.
func eachStore(t *testing.T, test func(t *testing.T, db *database)) {
	onStores(t, test, "sqlite", "postgres")
}

// anyStore is eachStore for tests that no store can change. A plain run has them on SQLite alone.
func anyStore(t *testing.T, test func(t *testing.T, db *database)) {
	if group.Long() {
		eachStore(t, test)
		return
	}
	onStores(t, test, "sqlite")
}

func onStores(t *testing.T, test func(t *testing.T, db *database), stores ...string) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			test(t, newDatabase(t, store))
		})
	}
}

func newDatabase(t testing.TB, store string) *database {
	t.Helper()
	if store == "sqlite" {
		path := filepath.Join(t.TempDir(), "hookonce.db")
		return &database{store, "sqlite:" + path, "file:" + path + "?_pragma=busy_timeout(10000)"}
	}
	dsn, _ := dbtest.Postgres(t)
	return postgresDatabase(t, dsn)
}

// postgresDatabase creates a database on the server of dsn, and an unprivileged role that owns it,
// for the gateway.
func postgresDatabase(t testing.TB, dsn string) *database {
	t.Helper()
	server, err := url.Parse(dsn)
	if err != nil || server.Scheme == "" {
		t.Fatalf("these tests make databases of their own and need the DSN of the server as a URL, not %q", dsn)
	}
	name := "e2e_" + randomHex()
	root := openDB(t, "pgx", dsn)
	mustExec(t, root, "CREATE ROLE "+name+" LOGIN PASSWORD '"+databasePassword+"'")
	mustExec(t, root, "GRANT "+name+" TO CURRENT_USER")
	mustExec(t, root, "CREATE DATABASE "+name+" OWNER "+name)
	t.Cleanup(func() {
		mustExec(t, root, "DROP DATABASE "+name+" WITH (FORCE)")
		mustExec(t, root, "DROP ROLE "+name)
	})
	mine := *server
	mine.Path = "/" + name
	db := &database{store: "postgres", dsn: mine.String()}
	mine.User = url.UserPassword(name, databasePassword)
	db.url = mine.String()
	return db
}

func randomHex() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// open opens a session of the test, as an operator's tool would.
func (d *database) open(t testing.TB) *sql.DB {
	t.Helper()
	driver := map[string]string{"sqlite": "sqlite", "postgres": "pgx"}[d.store]
	return openDB(t, driver, d.dsn)
}

func openDB(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("closing the test's session: %v", err)
		}
	})
	return db
}

// table returns the name of a table in this store.
func (d *database) table(name string) string {
	if d.store == "sqlite" {
		return "hookonce_" + name
	}
	return "hookonce." + name
}

// age sets the times of all events 90 days back, beyond the default windows.
func (d *database) age(t testing.TB) {
	t.Helper()
	earlier := map[string]string{"sqlite": " - 90 * 86400000000", "postgres": " - interval '90 days'"}[d.store]
	for _, column := range []string{
		"event.received_at", "message.sent_at", "message.failed_at", "event_state.processed_at", "event_state.failed_at", "delivery_count.last_at", "history.at",
	} {
		table, column, _ := strings.Cut(column, ".")
		mustExec(t, d.open(t), "UPDATE "+d.table(table)+" SET "+column+" = "+column+earlier)
	}
}

// mustExec runs a statement with simple arguments.
func mustExec(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(statement, args...); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}

// number returns the single number that a query selects.
func number(t testing.TB, db *sql.DB, query string, args ...any) int {
	t.Helper()
	var n int
	if err := db.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
