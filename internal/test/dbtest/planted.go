package dbtest

import (
	_ "embed"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// plantedSQL makes the schema planted.
//
//go:embed planted.sql
var plantedSQL string

// Planted returns the name of a schema of the server. Its functions and operators are better matches than those of
// pg_catalog for statements that do not name the schema of a function, and all of them fail. Everybody who may create in a
// schema of the search path can plant such ones. It has the functions that the project's files name.
func Planted(t testing.TB, dsn string) (schema string) {
	t.Helper()
	names, err := calledNames()
	if err != nil {
		t.Fatalf("dbtest: reading the names of functions: %v", err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "SELECT set_config('planted.names', $1, false)", strings.Join(names, ",")); err != nil {
		t.Fatalf("dbtest: planting functions: %v", err)
	}
	if _, err := conn.Exec(t.Context(), plantedSQL); err != nil {
		t.Fatalf("dbtest: planting functions: %v", err)
	}
	return "planted"
}

var calledName = regexp.MustCompile(`\b([a-z_0-9]+)\(`)

// calledNames returns the names in front of a parenthesis in the files of the project that are no tests.
var calledNames = sync.OnceValues(func() ([]string, error) {
	_, file, _, _ := runtime.Caller(0)
	names := map[string]bool{}
	for _, folder := range []string{"hookmigrate", "hookpgx", "hooksql", "internal/pgsession", "internal/pgstore", "internal/platform", "cmd"} {
		err := filepath.WalkDir(filepath.Join(filepath.Dir(file), "../../..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".sql") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range calledName.FindAllStringSubmatch(string(text), -1) {
				names[m[1]] = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
})
