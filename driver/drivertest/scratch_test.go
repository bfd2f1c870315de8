package drivertest_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/driver/drivertest"
	"github.com/hookonce/hookonce/hooksql"
)

func openPath(t *testing.T, path string) *hooksql.Store {
	s, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

type store struct {
	driver.Store
	path string
}

func raw(t *testing.T, path, stmt string, args ...any) {
	w, _, err := hooksql.SQLiteDSN(path)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", w)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(stmt, args...); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T) driver.Store {
	path := filepath.Join(t.TempDir(), "x.db")
	s := openPath(t, path)
	if _, err := s.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw(t, path, `CREATE TRIGGER bad BEFORE INSERT ON hookonce_event WHEN NEW.type = 'bad' BEGIN SELECT RAISE(ABORT, 'bad'); END`)
	return store{s, path}
}

func TestSQLite(t *testing.T) {
	drivertest.Exercise(t, open, drivertest.Features{
		BadRow: func(c *driver.Claim) { c.Type = "bad" },
		KillQueued: func(t *testing.T, s driver.Store, key driver.Key, lastError string) {
			raw(t, s.(store).path, `UPDATE hookonce_event_state SET state=3, failed_at=?, last_error=? WHERE key=?`, time.Now().UnixMicro(), lastError, key[:])
		},
	})
}

func TestSQLiteConcurrent(t *testing.T) {
	drivertest.ExerciseConcurrent(t, func(t *testing.T) (driver.Store, driver.Store) {
		path := filepath.Join(t.TempDir(), "x.db")
		a, b := openPath(t, path), openPath(t, path)
		if _, err := a.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		return a, b
	})
}

func TestSQLiteMigrations(t *testing.T) {
	drivertest.ExerciseMigrations(t, func(t *testing.T) (driver.Store, driver.Store) {
		path := filepath.Join(t.TempDir(), "x.db")
		return openPath(t, path), openPath(t, path)
	})
}
