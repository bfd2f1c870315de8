package hooksql_test

import (
	"database/sql"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	// KillQueued and MoveQueued change the file without the store, like an application.
	files := &fileOf{}
	storetest.Exercise(t, func(t *testing.T) driver.Store {
		path := filepath.Join(t.TempDir(), "hookonce.db")
		store := openMigrated(t, path)
		files.set(store, path)
		return store
	}, storetest.Features{
		// An index refuses the second of two messages with one id.
		BadRow: func(c *driver.Claim) {
			twice := driver.NewMessage{ID: driver.MessageID(c.Key, 0, "twice"), Route: "twice", Destination: "to-billing"}
			c.Messages = append(slices.Clone(c.Messages), twice, twice)
		},
		KillQueued: func(t *testing.T, s driver.Store, key driver.Key, lastError string) {
			execPlain(t, files.get(s), `UPDATE hookonce_event_state
				SET state = 3, failed_at = unixepoch() * 1000000, last_error = ?, signature = ? WHERE key = ?`,
				lastError, driver.ErrorSignature(lastError), key[:])
		},
		MoveQueued: func(t *testing.T, s driver.Store, key driver.Key, state string) {
			processed := map[string]any{driver.StateRunning: nil, driver.StateDone: time.Now().UnixMicro()}[state]
			execPlain(t, files.get(s), `UPDATE hookonce_event_state
				SET state = CASE WHEN ?1 IS NULL THEN 1 ELSE 2 END, processed_at = ?1 WHERE key = ?2`, processed, key[:])
		},
		Damage: func(t *testing.T, s driver.Store, key driver.Key, how storetest.Damage) {
			if how == storetest.LastToken {
				execPlain(t, files.get(s), `UPDATE hookonce_message SET token = 9223372036854775807 WHERE event_key = ?`, key[:])
				return
			}
			end := map[storetest.Damage]int64{storetest.EndlessTimes: math.MaxInt64, storetest.BeginlessTimes: math.MinInt64}[how]
			execPlain(t, files.get(s), `UPDATE hookonce_event SET received_at = ?1, occurred_at = ?1 WHERE key = ?2`, end, key[:])
			execPlain(t, files.get(s), `UPDATE hookonce_message SET received_at = ?1, created_at = ?1 WHERE event_key = ?2`, end, key[:])
		},
		Drop: func(t *testing.T, s driver.Store, table string, key driver.Key) {
			_, trigger := storetest.DropRow(table, key)
			execPlain(t, files.get(s), trigger)
		},
		Refuse: func(t *testing.T, s driver.Store, table string, key driver.Key) (allow func()) {
			_, refusal := storetest.RefuseRow(table, key)
			execPlain(t, files.get(s), refusal.Begin)
			return func() { execPlain(t, files.get(s), refusal.End) }
		},
	})
}

func TestConformanceConcurrent(t *testing.T) {
	t.Parallel()
	storetest.ExerciseConcurrent(t, func(t *testing.T) (a, b driver.Store) {
		path := filepath.Join(t.TempDir(), "hookonce.db")
		return openMigrated(t, path), open(t, path)
	})
}

func TestConformanceMigrations(t *testing.T) {
	t.Parallel()
	storetest.ExerciseMigrations(t, func(t *testing.T) (a, b driver.Store) {
		path := filepath.Join(t.TempDir(), "hookonce.db")
		return open(t, path), open(t, path)
	})
}

// open opens a store on the file. A new file has no schema.
func open(t testing.TB, path string) *hooksql.Store {
	t.Helper()
	store, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return store
}

func openMigrated(t testing.TB, path string) *hooksql.Store {
	t.Helper()
	rig.MigratedSQLite(t, path)
	return open(t, path)
}

// onOwnPools returns a migrated store on pools that the test has made.
func onOwnPools(t *testing.T) (store *hooksql.Store, writer, reader *sql.DB) {
	t.Helper()
	store = rig.OpenSQLite(t)
	return store, store.Writer(), store.Reader()
}

// execPlain runs one statement on the file.
func execPlain(t testing.TB, path, query string, args ...any) {
	t.Helper()
	if _, err := openPlain(t, path).ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// openPlain opens a pool of one connection that can write.
func openPlain(t testing.TB, path string) *sql.DB {
	t.Helper()
	dsn, _, err := hooksql.SQLiteDSN(path)
	if err != nil {
		t.Fatal(err)
	}
	db := openDSN(t, dsn)
	db.SetMaxOpenConns(1)
	return db
}
