package dbtest

import (
	_ "embed"
	"testing"

	"github.com/jackc/pgx/v5"
)

// plantedSQL makes the schema planted.
//
//go:embed planted.sql
var plantedSQL string

// Planted returns the name of a schema of the server. Its functions and operators are better matches than those of
// pg_catalog for statements that do not name the schema of a function, and all of them fail. Everybody who may create in a
// schema of the search path can plant such ones.
func Planted(t testing.TB, dsn string) (schema string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), plantedSQL); err != nil {
		t.Fatalf("dbtest: planting functions: %v", err)
	}
	return "planted"
}
