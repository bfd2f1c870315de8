package proof

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql on PostgreSQL
	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// The variants: an API on a database.
const (
	withPgx    = "pgx"
	withSQL    = "sql"
	withSQLite = "sqlite"
)

// poolSize is how many connections of its own a worker process has.
const poolSize = 8

// run opens the database of the variant, and serves.
func (w *worker) run() error {
	ctx := context.Background()
	switch w.Variant {
	case withPgx:
		config, err := pgxpool.ParseConfig(w.Database)
		if err != nil {
			return err
		}
		config.MaxConns = poolSize
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return err
		}
		defer pool.Close()
		store := hookpgx.New(pool)
		defer store.Close()
		return serve(w, store, func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
			_, err := tx.Exec(ctx, insertPostgres, ev.ID, ev.Generation, os.Getpid())
			return err
		})
	case withSQL:
		pool, err := sql.Open("pgx", w.Database)
		if err != nil {
			return err
		}
		defer pool.Close()
		// One pool for hookonce and the handlers.
		pool.SetMaxOpenConns(2 * poolSize)
		pool.SetMaxIdleConns(2 * poolSize)
		return serve(w, hooksql.NewPostgres(pool), insertWith(insertPostgres))
	case withSQLite:
		store, err := hooksql.OpenSQLite("sqlite", w.Database)
		if err != nil {
			return err
		}
		defer store.Close()
		return serve(w, store, insertWith(insertSQLite))
	}
	return fmt.Errorf("no variant is called %q", w.Variant)
}

const (
	insertPostgres = `INSERT INTO effects (event_id, generation, process) VALUES ($1, $2, $3)`
	insertSQLite   = `INSERT INTO effects (event_id, generation, process) VALUES (?, ?, ?)`
	// No constraint keeps an effect from being written twice.
	createEffects = `CREATE TABLE effects (event_id text NOT NULL, generation integer NOT NULL, process integer NOT NULL)`
)

func insertWith(statement string) insertFunc[*sql.Tx] {
	return func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		_, err := tx.ExecContext(ctx, statement, ev.ID, ev.Generation, os.Getpid())
		return err
	}
}

// database belongs to one test alone, with the schema and the table of effects.
type database struct {
	variant string
	address string  // for workers
	session *sql.DB // for the test
}

func newDatabase(t testing.TB, variant string) *database {
	t.Helper()
	if variant == withSQLite {
		return newDatabaseOn(t, variant, filepath.Join(t.TempDir(), "proof.db"))
	}
	return newDatabaseOn(t, variant, createDatabase(t))
}

// newDatabaseOn makes the tables in an empty database at an address, or in a new file.
func newDatabaseOn(t testing.TB, variant, address string) *database {
	t.Helper()
	if variant == withSQLite {
		store, err := hooksql.OpenSQLite("sqlite", address)
		if err != nil {
			t.Fatal(err)
		}
		migrate(t, store)
		db := &database{variant, address, openSession(t, "sqlite", "file:"+address+"?_pragma=busy_timeout(10000)")}
		db.exec(t, createEffects)
		db.exec(t, refuseOnSQLite)
		return db
	}
	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	migrate(t, hookpgx.New(pool))
	db := &database{variant, address, openSession(t, "pgx", address)}
	db.exec(t, createEffects)
	db.exec(t, createRefusals)
	return db
}

// createRefusals has the database refuse some changes of first attempts: that an event becomes done, and that a message is
// leased or becomes sent. The sequence refusals counts them, as no rollback undoes a sequence.
const createRefusals = `
CREATE SEQUENCE hookonce.asked;
CREATE SEQUENCE hookonce.refusals;
CREATE FUNCTION hookonce.refuse_some() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF nextval('hookonce.asked') % 50 = 0 THEN
		RAISE EXCEPTION 'refusal %', nextval('hookonce.refusals');
	END IF;
	RETURN NEW;
END
$$;
CREATE TRIGGER refuse_some BEFORE UPDATE ON hookonce.event_state
	FOR EACH ROW WHEN (NEW.state = 2 AND OLD.attempts = 0) EXECUTE FUNCTION hookonce.refuse_some();
CREATE TRIGGER refuse_some BEFORE UPDATE ON hookonce.message
	FOR EACH ROW WHEN (NEW.state = 1 AND OLD.attempts = 0 OR NEW.state = 2 AND OLD.attempts = 1) EXECUTE FUNCTION hookonce.refuse_some();`

// refuseOnSQLite refuses the same changes by chance. An undone statement counts nothing here.
const refuseOnSQLite = `
CREATE TRIGGER refuse_done BEFORE UPDATE ON hookonce_event_state
	WHEN NEW.state = 2 AND OLD.attempts = 0 AND random() % 20 = 0 BEGIN SELECT RAISE(ABORT, 'refusal'); END;
CREATE TRIGGER refuse_message BEFORE UPDATE ON hookonce_message
	WHEN (NEW.state = 1 AND OLD.attempts = 0 OR NEW.state = 2 AND OLD.attempts = 1) AND random() % 20 = 0
	BEGIN SELECT RAISE(ABORT, 'refusal'); END;`

// createDatabase creates a database on the tests' server, and returns its DSN.
func createDatabase(t testing.TB) string {
	t.Helper()
	dsn, _ := dbtest.Postgres(t)
	server, err := url.Parse(dsn)
	if err != nil || server.Scheme == "" {
		t.Fatalf("these tests make databases of their own and need the DSN of the server as a URL, not %q", dsn)
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	name := "proof_" + hex.EncodeToString(random[:])
	root := &database{session: openSession(t, "pgx", dsn)}
	root.exec(t, "CREATE DATABASE "+name)
	t.Cleanup(func() { root.exec(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	server.Path = "/" + name
	return server.String()
}

// migrate makes the schema, and closes the store.
func migrate(t testing.TB, store driver.Store) {
	t.Helper()
	defer store.Close()
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
}

func openSession(t testing.TB, driverName, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driverName, dsn)
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

// exec runs a statement.
func (d *database) exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := d.session.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// table returns the name of a table or view of hookonce.
func (d *database) table(name string) string {
	if d.variant == withSQLite {
		return "hookonce_" + name
	}
	return "hookonce." + name
}

// number returns the single number that a query selects.
func (d *database) number(t testing.TB, query string, args ...any) int {
	t.Helper()
	var n int
	if err := d.session.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// rows scans each row of a query into dest and then calls f.
func (d *database) rows(t testing.TB, query string, dest []any, f func()) {
	t.Helper()
	rows, err := d.session.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		f()
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}
