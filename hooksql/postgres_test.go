package hooksql_test

import (
	"cmp"
	"database/sql"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	exercisePostgres(t, openPostgres)
}

func exercisePostgres(t *testing.T, open func(t testing.TB) *postgresWorld) {
	t.Helper()
	var worlds sync.Map // driver.Store to *postgresWorld
	storetest.Exercise(t, func(t *testing.T) driver.Store {
		w := open(t)
		worlds.Store(driver.Store(w.PostgresStore), w)
		return w.PostgresStore
	}, storetest.Features{
		KillQueued: func(t *testing.T, s driver.Store, key driver.Key, lastError string) {
			t.Helper()
			w, _ := worlds.Load(s)
			w.(*postgresWorld).exec(t, "UPDATE {schema}.event_state SET state = 3, attempts = 5, failed_at = now(),"+
				" last_error = $2, signature = {schema}.error_signature($2) WHERE key = $1", key[:], lastError)
		},
		MoveQueued: func(t *testing.T, s driver.Store, key driver.Key, state string) {
			t.Helper()
			w, _ := worlds.Load(s)
			w.(*postgresWorld).exec(t, "UPDATE {schema}.event_state SET state = CASE $2::text WHEN 'done' THEN 2 ELSE 1 END,"+
				" failed_at = NULL, processed_at = CASE WHEN $2::text = 'done' THEN now() END WHERE key = $1", key[:], state)
		},
		Damage: func(t *testing.T, s driver.Store, key driver.Key, how storetest.Damage) {
			t.Helper()
			w, _ := worlds.Load(s)
			if how == storetest.LastToken {
				w.(*postgresWorld).exec(t, "UPDATE {schema}.message SET token = 9223372036854775807 WHERE event_key = $1", key[:])
				return
			}
			end := map[storetest.Damage]string{storetest.EndlessTimes: "infinity", storetest.BeginlessTimes: "-infinity"}[how]
			w.(*postgresWorld).exec(t, "UPDATE {schema}.event SET received_at = $2::text::timestamptz, occurred_at = $2::text::timestamptz WHERE key = $1", key[:], end)
			w.(*postgresWorld).exec(t, "UPDATE {schema}.message SET received_at = $2::text::timestamptz, created_at = $2::text::timestamptz WHERE event_key = $1", key[:], end)
		},
		Drop: func(t *testing.T, s driver.Store, table string, key driver.Key) {
			t.Helper()
			w, _ := worlds.Load(s)
			trigger, _ := storetest.DropRow(table, key)
			w.(*postgresWorld).exec(t, trigger)
		},
		Refuse: func(t *testing.T, s driver.Store, table string, key driver.Key) (allow func()) {
			t.Helper()
			w, _ := worlds.Load(s)
			return w.(*postgresWorld).refuse(t, table, key)
		},
		Transport: true,
	})
}

func TestPostgresConcurrent(t *testing.T) {
	t.Parallel()
	storetest.ExerciseConcurrent(t, func(t *testing.T) (a, b driver.Store) {
		w := openPostgres(t)
		return w.PostgresStore, w.second(t).PostgresStore
	}, storetest.Features{Transport: true})
}

func TestPostgresMigrations(t *testing.T) {
	t.Parallel()
	storetest.ExerciseMigrations(t, func(t *testing.T) (a, b driver.Store) {
		dsn, schema := dbtest.Postgres(t)
		w := connectPostgres(t, dsn, schema)
		return w.PostgresStore, w.second(t).PostgresStore
	})
}

// postgresWorld is a store with direct access to its database.
type postgresWorld struct {
	*hooksql.PostgresStore
	dsn, schema string
	db          *sql.DB
}

// openPostgres returns a migrated store on its own schema of the shared server, with its own
// receiving pool.
func openPostgres(t testing.TB) *postgresWorld {
	t.Helper()
	dsn, schema := dbtest.Ready(t)
	w := connectPostgres(t, dsn, schema)
	return w
}

// connectPostgres returns a store on a schema that may exist already.
func connectPostgres(t testing.TB, dsn, schema string) *postgresWorld {
	t.Helper()
	return newPostgres(t, dsn, openPool(t, dsn, 8), &hooksql.PostgresOptions{
		Schema: schema, Receive: openPool(t, dsn, 6), Admin: openPool(t, dsn, 4),
	})
}

func newPostgres(t testing.TB, dsn string, db *sql.DB, opts *hooksql.PostgresOptions) *postgresWorld {
	t.Helper()
	store, err := hooksql.NewPostgresWithOptions(db, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &postgresWorld{store, dsn, opts.Schema, db}
}

// openPool returns a pool of at most conns connections; 0 means no limit.
func openPool(t testing.TB, dsn string, conns int) *sql.DB {
	t.Helper()
	pool, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(cmp.Or(conns, 4)) // a new session makes its plans again
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

func (w *postgresWorld) migrate(t testing.TB) {
	t.Helper()
	if _, err := hookmigrate.Up(t.Context(), w.PostgresStore); err != nil {
		t.Fatalf("migrating: %v", err)
	}
}

// second returns another store on the same schema.
func (w *postgresWorld) second(t testing.TB) *postgresWorld {
	t.Helper()
	return connectPostgres(t, w.dsn, w.schema)
}

func (w *postgresWorld) sql(text string) string {
	return strings.ReplaceAll(text, "{schema}", `"`+w.schema+`"`)
}

// exec runs SQL without the store.
func (w *postgresWorld) exec(t testing.TB, text string, args ...any) {
	t.Helper()
	if _, err := w.db.ExecContext(t.Context(), w.sql(text), args...); err != nil {
		t.Fatal(err)
	}
}

// refuse begins a refusal. allow ends it.
func (w *postgresWorld) refuse(t testing.TB, table string, key driver.Key) (allow func()) {
	t.Helper()
	refusal, _ := storetest.RefuseRow(table, key)
	w.exec(t, refusal.Begin)
	return func() { w.exec(t, refusal.End) }
}

// number reads one number without the store.
func (w *postgresWorld) number(t testing.TB, text string, args ...any) (n int) {
	t.Helper()
	if err := w.db.QueryRowContext(t.Context(), w.sql(text), args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
