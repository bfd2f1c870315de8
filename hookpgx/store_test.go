package hookpgx_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

const enoughPlainClaims = 200

// TestDriver also checks that the suite claims by the plain statements, and not only by the claim function.
func TestDriver(t *testing.T) {
	var worlds sync.Map // driver.Store to *world
	var plain sync.Map  // session to its int64
	t.Cleanup(func() {
		var n int64
		plain.Range(func(_, runs any) bool {
			n += runs.(int64)
			return true
		})
		if n < enoughPlainClaims && !t.Failed() {
			t.Errorf("plain statements have claimed %d times in the whole suite, want many more", n)
		}
	})
	storetest.Exercise(t, func(t *testing.T) driver.Store {
		w := warm(t)
		worlds.Store(driver.Store(w.Store), w)
		t.Cleanup(func() { w.plainClaims(&plain) })
		return w.Store
	}, queuedFeatures(func(s driver.Store) *world {
		w, _ := worlds.Load(s)
		return w.(*world)
	}))
}

// queuedFeatures returns the functions that the contract does not offer.
func queuedFeatures(worldOf func(driver.Store) *world) storetest.Features {
	return storetest.Features{
		KillQueued: func(t *testing.T, s driver.Store, key driver.Key, lastError string) {
			t.Helper()
			worldOf(s).exec(t, "UPDATE {schema}.event_state SET state = 3, attempts = 5, failed_at = now(),"+
				" last_error = $2, signature = {schema}.error_signature($2) WHERE key = $1", key[:], lastError)
		},
		MoveQueued: func(t *testing.T, s driver.Store, key driver.Key, state string) {
			t.Helper()
			worldOf(s).exec(t, "UPDATE {schema}.event_state SET state = CASE $2::text WHEN 'done' THEN 2 ELSE 1 END,"+
				" failed_at = NULL, processed_at = CASE WHEN $2::text = 'done' THEN now() END WHERE key = $1", key[:], state)
		},
		Damage: func(t *testing.T, s driver.Store, key driver.Key, how storetest.Damage) {
			t.Helper()
			w := worldOf(s)
			if how == storetest.LastToken {
				w.exec(t, "UPDATE {schema}.message SET token = 9223372036854775807 WHERE event_key = $1", key[:])
				return
			}
			end := map[storetest.Damage]string{storetest.EndlessTimes: "infinity", storetest.BeginlessTimes: "-infinity"}[how]
			w.exec(t, "UPDATE {schema}.event SET received_at = $2::text::timestamptz, occurred_at = $2::text::timestamptz WHERE key = $1", key[:], end)
			w.exec(t, "UPDATE {schema}.message SET received_at = $2::text::timestamptz, created_at = $2::text::timestamptz WHERE event_key = $1", key[:], end)
		},
		Drop: func(t *testing.T, s driver.Store, table string, key driver.Key) {
			t.Helper()
			w := worldOf(s)
			w.drop(t, table, key)
		},
		Refuse: func(t *testing.T, s driver.Store, table string, key driver.Key) (allow func()) {
			t.Helper()
			return worldOf(s).refuse(t, table, key)
		},
	}
}

func TestDriverConcurrent(t *testing.T) {
	storetest.ExerciseConcurrent(t, func(t *testing.T) (a, b driver.Store) {
		w := warm(t)
		return w.Store, w.second(t).Store
	})
}

func TestDriverMigrations(t *testing.T) {
	storetest.ExerciseMigrations(t, func(t *testing.T) (a, b driver.Store) {
		dsn, schema := dbtest.Postgres(t)
		w := connect(t, dsn, schema, nil)
		return w.Store, w.second(t).Store
	})
}

// world is a store with direct access to its database.
type world struct {
	*hookpgx.Store
	pool   *pgxpool.Pool
	schema string       // quoted
	broken *atomic.Bool // set by a test that ends sessions
}

// exec runs SQL without the store.
func (w *world) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := w.pool.Exec(t.Context(), strings.ReplaceAll(sql, "{schema}", w.schema), args...); err != nil {
		t.Fatal(err)
	}
}

// refuse begins a refusal. allow ends it.
func (w *world) refuse(t testing.TB, table string, key driver.Key) (allow func()) {
	t.Helper()
	refusal, _ := storetest.RefuseRow(table, key)
	w.exec(t, refusal.Begin)
	return func() { w.exec(t, refusal.End) }
}

// plainClaims stores how often each idle session of the receiving pool has run a plain statement. It passes over broken
// ones.
func (w *world) plainClaims(of *sync.Map) {
	ctx := context.Background() // that of the test has ended
	for _, conn := range hookpgx.ReceivePool(w.Store).AcquireAllIdle(ctx) {
		var runs int64
		err := conn.QueryRow(ctx, "SELECT coalesce(sum(generic_plans + custom_plans), 0)::bigint FROM pg_prepared_statements WHERE name LIKE 'hookonce%'",
			pgx.QueryExecModeSimpleProtocol).Scan(&runs)
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == "42703" {
			runs, err = enoughPlainClaims, nil // PostgreSQL 13 does not count the runs
		}
		if err == nil {
			of.Store(conn.Conn().PgConn().PID(), runs)
		}
		conn.Release()
	}
}

// drop creates a trigger that drops the rows of an event.
func (w *world) drop(t testing.TB, table string, key driver.Key) {
	t.Helper()
	sql, _ := storetest.DropRow(table, key)
	w.exec(t, sql)
}

// number reads one number without the store.
func (w *world) number(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), strings.ReplaceAll(sql, "{schema}", w.schema), args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// open returns a migrated store on its own schema of the shared server.
func open(t testing.TB, opts *hookpgx.Options) *world {
	t.Helper()
	dsn, schema := dbtest.Ready(t)
	return connect(t, dsn, schema, opts)
}

// connect returns a store on a schema that may exist already.
func connect(t testing.TB, dsn, schema string, opts *hookpgx.Options) *world {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return connectWith(t, config, schema, opts)
}

func connectWith(t testing.TB, config *pgxpool.Config, schema string, opts *hookpgx.Options) *world {
	t.Helper()
	w := newWorld(t, config, schema, opts)
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// newWorld is connectWith for a world that the caller closes.
func newWorld(t testing.TB, config *pgxpool.Config, schema string, opts *hookpgx.Options) *world {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	o := hookpgx.Options{}
	if opts != nil {
		o = *opts
	}
	o.Schema = schema
	store, err := hookpgx.NewWithOptions(pool, &o)
	if err != nil {
		pool.Close()
		t.Fatal(err)
	}
	return &world{Store: store, pool: pool, schema: pgx.Identifier{schema}.Sanitize(), broken: new(atomic.Bool)}
}

// shelf holds worlds between the cases of the conformance suites.
var shelf = dbtest.Shelf[*world]{
	Open: func(t testing.TB, dsn, schema string) *world {
		config, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		// For tables of tests, and beside what others planted there.
		config.ConnConfig.RuntimeParams["search_path"] = schema + "," + dbtest.Planted(t, dsn)
		config.MaxConns = 12
		return newWorld(t, config, schema, nil)
	},
	Usable: func(w *world) bool { return !w.broken.Load() && hookpgx.Idle(w.Store) },
	Close:  (*world).close,
}

// patient lets statements take as long as a busy machine needs. The store's own limits are seconds.
func patient(config *pgxpool.Config) {
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("SET statement_timeout = %d", eventually.Bound.Milliseconds()))
		return err
	}
}

// warm returns a migrated store on a schema of its own, with sessions that other tests have used.
func warm(t testing.TB) *world {
	t.Helper()
	w := *shelf.Take(t)
	w.Store = hookpgx.Renew(w.Store, strings.Trim(w.schema, `"`))
	return &w
}

func (w *world) close() error {
	err := w.Store.Close()
	w.pool.Close()
	return err
}

func newClaim(id string, routes ...string) driver.Claim {
	c := driver.Claim{
		Key: driver.EventKey("stripe", id), Source: "stripe", EventID: id, Type: "thing.happened",
		Headers: []byte(`{}`), Body: []byte("body of " + id),
	}
	c.BodyHash = sha256.Sum256(c.Body)
	for _, route := range routes {
		c.Messages = append(c.Messages, driver.NewMessage{
			ID: driver.MessageID(c.Key, 0, route), Route: route, Destination: "to-" + route,
		})
	}
	return c
}
