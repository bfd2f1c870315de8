package hookpgx_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// TestMigrationBesidePlanted migrates beside planted functions and operators. No view, column or index may keep one. The
// conformance suite runs beside them too.
func TestMigrationBesidePlanted(t *testing.T) {
	t.Parallel()
	dsn, schema := dbtest.Postgres(t)
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = "public," + dbtest.Planted(t, dsn)
	w := connectWith(t, config, schema, nil)
	if _, err := hookmigrate.Up(t.Context(), w.Store); err != nil {
		t.Fatal(err)
	}
	if n := w.number(t, `SELECT count(*)::int FROM pg_depend d
		LEFT JOIN pg_proc p ON d.refclassid = 'pg_proc'::regclass::oid AND p.oid = d.refobjid
		LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass::oid AND o.oid = d.refobjid
		WHERE 'planted'::regnamespace::oid IN (p.pronamespace, o.oprnamespace)
			AND d.classid NOT IN ('pg_proc'::regclass::oid, 'pg_operator'::regclass::oid)`); n > 0 {
		t.Errorf("%d objects of the schema depend on planted ones", n)
	}
}

// TestPlanters has roles that may create in a schema of the search path.
func TestPlanters(t *testing.T) {
	t.Parallel()
	dsn, schema := dbtest.Ready(t)
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	role := strings.Replace(schema, "ready_", "planter_", 1)
	config.ConnConfig.RuntimeParams["search_path"] = schema
	w := connectWith(t, config, schema, nil)
	w.exec(t, "CREATE ROLE "+role)
	t.Cleanup(func() {
		if _, err := w.pool.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	for grant, want := range map[string][]string{
		"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC, " + role: nil,
		"GRANT CREATE ON SCHEMA {schema} TO " + role:            {"role " + role + " may create in schema " + schema},
		"GRANT CREATE ON SCHEMA {schema} TO PUBLIC":             {"every role may create in schema " + schema},
	} {
		w.exec(t, grant)
		got, err := w.Planters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", grant, diff)
		}
		w.exec(t, "REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC, "+role)
	}
}
