package pgstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// connectTo returns a connection to a server of its own, which finds nothing but PostgreSQL's own catalog
// without the name of a schema.
func connectTo(t *testing.T) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(dbtest.StartServer(t, nil).DSN())
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["search_path"] = "pg_catalog"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func migrate(t *testing.T, conn *pgx.Conn, schema string) {
	t.Helper()
	for _, step := range hookmigrate.Postgres(schema) {
		run(t, conn, step.SQL)
	}
}

func texts(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A distributed PostgreSQL may keep each schema on another node. So no object of a schema depends on one of
// another schema. Constraints, triggers and defaults have no schema of their own: their identity names it.
func TestNoDependencySpansSchemas(t *testing.T) {
	t.Parallel()
	conn := connectTo(t)
	migrate(t, conn, "east")
	migrate(t, conn, "west")
	spanning := func() []string {
		return texts(t, conn, `
SELECT DISTINCT o.type || ' ' || o.identity || ' -> ' || r.type || ' ' || r.identity
FROM pg_depend d
CROSS JOIN LATERAL pg_identify_object(d.classid, d.objid, d.objsubid) o
CROSS JOIN LATERAL pg_identify_object(d.refclassid, d.refobjid, d.refobjsubid) r
WHERE (o.schema = 'east' OR o.identity ~ '\meast\.') AND d.refclassid <> 'pg_namespace'::regclass
	AND NOT coalesce(r.schema IN ('east', 'pg_catalog'), r.identity ~ '\meast\.', false)
	AND r.type NOT IN ('language', 'access method', 'role')
ORDER BY 1`)
	}
	if diff := spanning(); len(diff) > 0 {
		t.Errorf("dependencies on other schemas: %q", diff)
	}
	run(t, conn, "ALTER TABLE east.attempt ADD CONSTRAINT planted FOREIGN KEY (message_id) REFERENCES west.message (id)")
	run(t, conn, "CREATE VIEW east.planted AS SELECT key FROM west.event")
	run(t, conn, "CREATE SEQUENCE west.numbers")
	run(t, conn, "ALTER TABLE east.event ADD COLUMN planted bigint DEFAULT nextval('west.numbers')")
	if n := len(spanning()); n < 3 {
		t.Errorf("%d of three planted dependencies were found: %q", n, spanning())
	}
}

// spanning returns those of the statements that need more than the one schema that exists, with the error. conn finds
// nothing without the name of a schema, so a statement that can be prepared names that schema alone.
func spanning(t *testing.T, conn *pgx.Conn, statements []string) map[string]error {
	t.Helper()
	found := make(map[string]error)
	for _, sql := range statements {
		if _, err := conn.PgConn().Prepare(t.Context(), "", sql, nil); err != nil {
			found[sql] = err
		}
	}
	return found
}

// Every statement that New prepares names its schema, and no other one.
func TestStatementsNeedOneSchema(t *testing.T) {
	t.Parallel()
	conn := connectTo(t)
	migrate(t, conn, "east")
	var all []string
	for _, st := range New("east", Pools{}).statements {
		all = append(all, st.SQL)
	}
	for sql, err := range spanning(t, conn, all) {
		t.Errorf("%v:\n%s", err, sql)
	}
	if len(all) < 100 {
		t.Errorf("only %d statements were seen", len(all))
	}
}

// The functions of a schema find nothing without the name of a schema, and name no other one.
func TestFunctionsNeedOneSchema(t *testing.T) {
	t.Parallel()
	conn := connectTo(t)
	migrate(t, conn, "east")
	migrate(t, conn, "west")
	bodies := func(schema string) []string {
		return texts(t, conn, `
SELECT replace(p.proname || coalesce(array_to_string(p.proconfig, ' '), '') || p.prosrc, '"' || $1 || '"', '"schema"')
FROM pg_proc p WHERE p.pronamespace = $1::regnamespace ORDER BY p.proname, p.prosrc`, schema)
	}
	east := bodies("east")
	if diff := cmp.Diff(east, bodies("west")); diff != "" {
		t.Errorf("the functions of two schemas differ:\n%s", diff)
	}
	for _, body := range east {
		for _, other := range []string{"east.", "west.", `"east"`, `"west"`, "public.", "hookonce."} {
			if strings.Contains(body, other) {
				t.Errorf("a function names %s:\n%s", other, body)
			}
		}
	}
	open := texts(t, conn, `SELECT proname::text FROM pg_proc
		WHERE pronamespace = 'east'::regnamespace AND prolang <> (SELECT oid FROM pg_language WHERE lanname = 'sql')
			AND NOT coalesce(proconfig @> ARRAY['search_path=pg_catalog, pg_temp'], false)`)
	if len(open) > 0 {
		t.Errorf("functions without a fixed search_path: %q", open)
	}
}

// The only advisory lock is that of migrations. Each schema has its own.
func TestMigrationsOfTwoSchemasDoNotWait(t *testing.T) {
	t.Parallel()
	conn := connectTo(t)
	run(t, conn, "BEGIN")
	keys := func() string {
		return strings.Join(texts(t, conn, "SELECT classid || ' ' || objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() ORDER BY 1"), ", ")
	}
	seen := map[string]bool{}
	for i, schema := range []string{"east", "west"} {
		if _, err := conn.Exec(t.Context(), migrateLockSQL, schema); err != nil {
			t.Fatal(err)
		}
		seen[keys()] = true
		if n := len(strings.Split(keys(), ", ")); n != i+1 {
			t.Errorf("%d locks for %d schemas", n, i+1)
		}
	}
	if len(seen) != 2 {
		t.Errorf("the schemas share a lock: %s", fmt.Sprint(seen))
	}
}

// An update of glibc or ICU changes the order of texts, and an index that is sorted by the old order is corrupt.
// Only the order of bytes never changes.
func TestIndexesSortTextsByBytes(t *testing.T) {
	t.Parallel()
	conn := connectTo(t)
	create := "CREATE DATABASE other TEMPLATE template0"
	if texts(t, conn, "SHOW server_version_num")[0] >= "150000" {
		create += " LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
	}
	run(t, conn, create)
	config := conn.Config()
	config.Database = "other"
	other, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close(t.Context()) })
	migrate(t, other, "east")
	indexed := func(condition string) []string {
		return texts(t, other, `
SELECT DISTINCT i.indexrelid::regclass || ' ' || c.collname
FROM pg_index i
JOIN pg_class t ON t.oid = i.indrelid AND t.relnamespace = 'east'::regnamespace
CROSS JOIN LATERAL unnest(i.indcollation) AS used (oid)
JOIN pg_collation c ON c.oid = used.oid
WHERE `+condition)
	}
	if len(indexed("c.collname = 'C'")) == 0 {
		t.Error("no index has a text")
	}
	if found := indexed("c.collname <> 'C'"); len(found) > 0 {
		t.Errorf("indexes with another order than that of bytes: %q", found)
	}
}

// A session of a client may have turned standard_conforming_strings off.
func TestFunctionsPinTheMeaningOfBackslashes(t *testing.T) {
	t.Parallel()
	conn := connectTo(t)
	migrate(t, conn, "east")
	const sql = `SELECT proname FROM pg_proc WHERE pronamespace = 'east'::regnamespace AND strpos(prosrc, '\') > 0`
	if len(texts(t, conn, sql)) == 0 {
		t.Error("no function has a backslash")
	}
	if found := texts(t, conn, sql+` AND ('standard_conforming_strings=on' = ANY (proconfig)) IS NOT TRUE`); len(found) > 0 {
		t.Errorf("functions that do not pin the setting: %q", found)
	}
}
