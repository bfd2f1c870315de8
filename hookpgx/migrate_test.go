package hookpgx_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestConcurrentMigrations(t *testing.T) {
	t.Parallel()
	dsn, schema := dbtest.Postgres(t)
	w := connect(t, dsn, schema, nil)
	stores := []*world{w, w.second(t)}
	applied := 0
	var mu sync.Mutex
	concurrently(t, 4, func(me int) error {
		store := stores[me%2]
		steps, err := hookmigrate.Up(t.Context(), store)
		mu.Lock()
		defer mu.Unlock()
		applied += len(steps)
		return err
	})
	if want := len(w.Migrations()); applied != want {
		t.Errorf("%d steps were applied, want %d", applied, want)
	}
	if err := hookmigrate.Check(t.Context(), w); err != nil {
		t.Error(err)
	}
}

func TestWrongSchema(t *testing.T) {
	t.Parallel()
	dsn, schema := dbtest.Postgres(t)
	w := connect(t, dsn, schema, nil)
	wantSchemaError := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, driver.ErrSchema) || errors.Is(err, driver.ErrCommitUnknown) {
			t.Errorf("%s: got the error %v, want %v", call, err, driver.ErrSchema)
		}
	}
	wantSchemaError("Check without tables", hookmigrate.Check(t.Context(), w))
	_, err := w.Claim(t.Context(), claimOf(newClaim("evt_1")))
	wantSchemaError("Claim without tables", err)
	_, err = w.Events(t.Context(), &driver.EventFilter{})
	wantSchemaError("Events without tables", err)

	if _, err := hookmigrate.Up(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	w.exec(t, "INSERT INTO {schema}.schema_migration (version, name, hash) VALUES (99, 'later', '')")
	wantSchemaError("Check of a newer schema", hookmigrate.Check(t.Context(), w))
	_, err = w.Apply(t.Context())
	wantSchemaError("Apply on a newer schema", err)
	steps, err := hookmigrate.Status(t.Context(), w)
	var want []hookmigrate.Step
	for _, m := range w.Migrations() {
		want = append(want, hookmigrate.Step{Version: m.Version, Name: m.Name, Applied: true})
	}
	want = append(want, hookmigrate.Step{Version: 99, Applied: true, Unknown: true})
	if diff := cmp.Diff(want, steps); err != nil || diff != "" {
		t.Errorf("Status: error %v, steps differ (-want +got):\n%s", err, diff)
	}
}

// TestSchemaOfOperator migrates a schema that an operator created for a role without the right to
// create one, beside another schema in the same database.
func TestSchemaOfOperator(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	dsn, schema := dbtest.Postgres(t)
	role := schema + "_role"
	quoted := `"` + schema + `"`
	w.exec(t, "CREATE ROLE "+role+" LOGIN PASSWORD 'test only'")
	t.Cleanup(func() {
		if _, err := w.pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	w.exec(t, "CREATE SCHEMA "+quoted+" AUTHORIZATION "+role)

	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.User, config.ConnConfig.Password = role, "test only"
	other := connectWith(t, config, schema, nil)
	if _, err := hookmigrate.Up(t.Context(), other); err != nil {
		t.Fatalf("migrating as a role that may not create schemas: %v", err)
	}
	w.mustClaim(t, true, newClaim("evt_1"))
	other.mustClaim(t, true, newClaim("evt_1"))
}

// Bodies are compressed by lz4 where the server has it.
func TestCompression(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	want := map[string]string{"headers": "", "body": ""}
	rows, err := w.pool.Query(t.Context(), "SELECT 'l' FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)")
	if err != nil {
		t.Fatal(err)
	}
	if rows.Next() {
		want = map[string]string{"headers": "l", "body": "l"}
	}
	rows.Close()
	got := make(map[string]string)
	for name := range want {
		var method string
		err := w.pool.QueryRow(t.Context(), "SELECT attcompression::text FROM pg_attribute WHERE attrelid = ($1 || '.event')::regclass AND attname = $2",
			w.schema, name).Scan(&method)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = method
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("compression of the table event (-want +got):\n%s", diff)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	dsn, _ := dbtest.Postgres(t)
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for _, opts := range []hookpgx.Options{
		{Schema: "pg_hookonce"},
		{Schema: "Hookonce"},
		{Schema: `a"b`},
		{Schema: "1a"},
		{Schema: strings.Repeat("a", 64)},
		{Schema: "a b"},
		{ReceiveConns: -1},
		{AdminConns: 1001},
	} {
		if _, err := hookpgx.NewWithOptions(pool, &opts); err == nil {
			t.Errorf("New with %+v: no error", opts)
		}
	}
	if _, err := hookpgx.NewWithOptions(nil, nil); err == nil {
		t.Error("New without a pool: no error")
	}
	store, err := hookpgx.NewWithOptions(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("Close closed the caller's pool: %v", err)
	}
}
