package hooksql_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// TestConformanceWork runs the conformance suite of handlers' transactions.
func TestConformanceWork(t *testing.T) {
	t.Parallel()
	storetest.ExerciseWork(t, workHarness())
}

func workHarness() storetest.Harness[*sql.Tx] {
	files := &workFiles{}
	return storetest.Harness[*sql.Tx]{
		Open: func(t *testing.T) driver.Driver[*sql.Tx] { return files.create(t) },
		Second: func(t *testing.T, d driver.Driver[*sql.Tx]) driver.Driver[*sql.Tx] {
			file := files.of(d)
			store := open(t, file.path)
			files.all.Store(store, file)
			return store
		},
		Effect:   effect,
		Fail:     func(ctx context.Context, tx *sql.Tx) error { return effectOf(ctx, tx, nil) }, // NOT NULL
		Commit:   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		Rollback: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		Begin: func(t *testing.T, d driver.Driver[*sql.Tx]) (tx *sql.Tx, commit, rollback func() error) {
			tx, err := openDSN(t, files.of(d).dsn()).BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return tx, tx.Commit, func() error {
				if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
					return err
				}
				return nil
			}
		},
		Effects: func(t *testing.T, d driver.Driver[*sql.Tx]) map[string]int { return files.of(d).effects(t) },
		Interrupt: func(t *testing.T, d driver.Driver[*sql.Tx], run driver.Run[*sql.Tx]) {
			run.Sever()
			files.of(d).interrupted(t, run)
		},
		Drop: func(t *testing.T, d driver.Driver[*sql.Tx], table string, key driver.Key) {
			_, trigger := storetest.DropRow(table, key)
			files.of(d).exec(t, trigger)
		},
		Refuse: func(t *testing.T, d driver.Driver[*sql.Tx], table string, key driver.Key) (allow func()) {
			_, refusal := storetest.RefuseRow(table, key)
			files.of(d).exec(t, refusal.Begin)
			return func() { files.of(d).exec(t, refusal.End) }
		},
		NextTells:             true,
		SwallowedErrorCommits: true,
	}
}

// workFiles holds the files of drivers.
type workFiles struct {
	all sync.Map
}

// workFile is a file with a table effects, and the application's pool on it.
type workFile struct {
	path string
	db   *sql.DB
}

func (f *workFiles) create(t *testing.T) *hooksql.Store {
	t.Helper()
	file := &workFile{path: filepath.Join(t.TempDir(), "hookonce.db")}
	store := openMigrated(t, file.path)
	file.db = openDSN(t, file.dsn())
	file.exec(t, `CREATE TABLE effects (name TEXT NOT NULL) STRICT`)
	f.all.Store(store, file)
	return store
}

func (f *workFiles) of(d driver.Driver[*sql.Tx]) *workFile {
	file, ok := f.all.Load(d)
	if !ok {
		panic("unknown driver")
	}
	return file.(*workFile)
}

// dsn is an application's data source name, without _txlock.
func (f *workFile) dsn() string { return "file:" + f.path + "?_pragma=busy_timeout(20000)" }

func (f *workFile) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := f.db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

func effect(ctx context.Context, tx *sql.Tx, name string) error { return effectOf(ctx, tx, name) }

func effectOf(ctx context.Context, tx *sql.Tx, name any) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO effects (name) VALUES (?)`, name)
	return err
}

// effects counts the committed rows of the table effects by their name.
func (f *workFile) effects(t testing.TB) map[string]int {
	t.Helper()
	return countEffects(t, f.db, `SELECT name, count(*) FROM effects GROUP BY name`)
}

// interrupted lets the time of a run be over.
func (f *workFile) interrupted(t testing.TB, run driver.Run[*sql.Tx]) {
	t.Helper()
	for _, e := range run.Events() {
		f.exec(t, `UPDATE hookonce_event_state SET due_at = 0 WHERE key = ?`, e.Key[:])
	}
}
