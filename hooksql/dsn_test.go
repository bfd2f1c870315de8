package hooksql_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/hooksql"
)

func TestSQLiteDSNRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, why string }{
		{"", "empty"},
		{":memory:", "lost"},
		{"file::memory:?cache=shared", "lost"},
		{"file:hookonce.db", "URI"},
		{"FILE:/tmp/hookonce.db?mode=memory", "URI"},
		{"hook\x00once.db", "NUL"},
	} {
		if _, _, err := hooksql.SQLiteDSN(c.path); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("SQLiteDSN(%q): got the error %v, want one that says %q", c.path, err, c.why)
		}
		if store, err := hooksql.OpenSQLite("sqlite", c.path); err == nil {
			t.Errorf("OpenSQLite(%q) succeeded", c.path)
			_ = store.Close()
		}
	}
}

// TestSQLiteDSNNamesThatFile opens files whose names have a meaning in a URI or a query, with both
// data source names, and looks for the file in its folder.
func TestSQLiteDSNNamesThatFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"plain.db", "with space.db", "q?mode=memory&x=1.db", "hash#tag.db", "percent%20.db", "100%.db",
		"a+b.db", "a&b=c;d.db", "[x]{y}.db", `back\slash.db`, `quo"te'.db`, "caf\u00e9.db", "\xff\xfe.db", "new\nline.db",
		"~home.db", "-dash.db", "co:lon.db", "_pragma=synchronous(OFF).db",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			writer, reader, err := hooksql.SQLiteDSN(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, writer, `CREATE TABLE t (x)`)
			if got := readOne(t, reader, `SELECT name FROM sqlite_schema`); got != "t" {
				t.Errorf("the reader sees %q, want the writer's table", got)
			}
			if got := readOne(t, reader, `PRAGMA synchronous`); got != "2" {
				t.Errorf("synchronous is %s, want 2", got)
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for _, entry := range entries {
				got[entry.Name()] = true
			}
			// The log and its index may be there too.
			delete(got, name+"-wal")
			delete(got, name+"-shm")
			if diff := cmp.Diff(map[string]bool{name: true}, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSQLiteDSNRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, path := range []string{"relative.db", "./dotted.db"} {
		writer, _, err := hooksql.SQLiteDSN(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, writer, `CREATE TABLE t (x)`)
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func write(t *testing.T, dsn, query string) {
	t.Helper()
	db := openDSN(t, dsn)
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

func readOne(t *testing.T, dsn, query string) string {
	t.Helper()
	var got string
	if err := openDSN(t, dsn).QueryRowContext(t.Context(), query).Scan(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

func openDSN(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}
