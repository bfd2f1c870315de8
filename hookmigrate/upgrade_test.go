package hookmigrate_test

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// databases make an empty database, and return a function that opens another store on it.
var databases = map[string]func(*testing.T) func() driver.Store{
	"sqlite": func(t *testing.T) func() driver.Store {
		t.Helper()
		path := filepath.Join(t.TempDir(), "hookonce.db")
		return func() driver.Store {
			store, err := hooksql.OpenSQLite("sqlite", path)
			return closing(t, store, err)
		}
	},
	"pgx": func(t *testing.T) func() driver.Store {
		t.Helper()
		dsn, schema := dbtest.Postgres(t)
		return func() driver.Store {
			pool, err := pgxpool.New(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			store, err := hookpgx.NewWithOptions(pool, &hookpgx.Options{Schema: schema})
			return closing(t, store, err)
		}
	},
	"database/sql on postgres": func(t *testing.T) func() driver.Store {
		t.Helper()
		dsn, schema := dbtest.Postgres(t)
		return func() driver.Store {
			pool, err := sql.Open("pgx", dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pool.Close() })
			store, err := hooksql.NewPostgresWithOptions(pool, &hooksql.PostgresOptions{Schema: schema})
			return closing(t, store, err)
		}
	},
}

func closing(t *testing.T, store driver.Store, err error) driver.Store {
	t.Helper()
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

// oneMore returns the shipped steps and one more, whose SQL ends with last.
func oneMore(t *testing.T, last string) (files fstest.MapFS, added driver.Migration) {
	t.Helper()
	files = fstest.MapFS{}
	shipped := os.DirFS(".")
	names, err := fs.Glob(shipped, "*/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(shipped, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	for folder, s := range map[string]struct {
		shipped      []driver.Migration
		alter, write string
	}{
		"postgres": {
			hookmigrate.Postgres("x"), "ALTER TABLE {schema}.event ADD COLUMN color text NOT NULL DEFAULT 'blue';",
			"INSERT INTO {schema}.schema_migration (version, name, hash) VALUES (%d, '%s', '{hash}');",
		},
		"sqlite": {
			hookmigrate.SQLite(), "ALTER TABLE hookonce_event ADD COLUMN color TEXT NOT NULL DEFAULT 'blue';",
			"INSERT INTO hookonce_schema_migration (version, name, hash, applied_at) VALUES (%d, '%s', '{hash}', 0);",
		},
	} {
		added = driver.Migration{Version: len(s.shipped) + 1, Name: "color"}
		text := s.alter + "\n" + fmt.Sprintf(s.write, added.Version, added.Name) + "\n" + last
		files[fmt.Sprintf("%s/%04d_%s.sql", folder, added.Version, added.Name)] = &fstest.MapFile{Data: []byte(text)}
	}
	return files, added
}

// openWith opens a store of a program that has other files.
func openWith(files fs.FS, open func() driver.Store) driver.Store {
	defer hookmigrate.ReplaceFiles(files)()
	return open()
}

// TestUpgrade upgrades a database that holds an event from the shipped steps to one more.
func TestUpgrade(t *testing.T) { //nolint:paralleltest // it replaces the files
	files, added := oneMore(t, "")
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			open := database(t)
			older, newer := open(), openWith(files, open)
			wantUp(t, older, older.Migrations()...)
			wantClaimed(t, older, "evt_1", true)

			wantSchemaError(t, "Check before the upgrade", hookmigrate.Check(t.Context(), newer),
				fmt.Sprintf("step %d (color) has not been applied", added.Version))
			upTogether(t, added, newer, openWith(files, open))
			wantUp(t, newer)
			if err := hookmigrate.Check(t.Context(), newer); err != nil {
				t.Errorf("Check after the upgrade: %v", err)
			}
			wantClaimed(t, newer, "evt_1", false)
			wantClaimed(t, newer, "evt_2", true)

			wantSchemaError(t, "Check by the older program", hookmigrate.Check(t.Context(), older), "upgrade hookonce")
			_, err := hookmigrate.Up(t.Context(), older)
			wantSchemaError(t, "Up by the older program", err, "upgrade hookonce")
			_, err = older.Apply(t.Context())
			wantSchemaError(t, "Apply by the older program", err, "upgrade hookonce")
			wantStatus(t, older, append(stepsOf(older, true), hookmigrate.Step{Version: added.Version, Applied: true, Unknown: true}))
			wantStatus(t, newer, stepsOf(newer, true))
		})
	}
}

// TestOtherBuild has a database whose step another build made, before the first release, also one before
// steps recorded their hash. Nothing must use it, and the error says why.
func TestOtherBuild(t *testing.T) { //nolint:paralleltest // it replaces the files
	other, _ := oneMore(t, "")
	for name, file := range other {
		file.Data = append(file.Data, "\n-- edited\n"...)
		if strings.Contains(name, "0002") {
			delete(other, name)
		}
	}
	early := fstest.MapFS{}
	for name, file := range other {
		text := string(file.Data)
		for _, cut := range []string{"	hash       text NOT NULL, -- of the text of the step\n", "    hash       TEXT    NOT NULL, -- of the text of the step\n", ", hash", ", '{hash}'"} {
			text = strings.ReplaceAll(text, cut, "")
		}
		early[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, database := range databases {
		for build, files := range map[string]fs.FS{"another": other, "an early": early} {
			t.Run(name+", "+build+" build", func(t *testing.T) {
				open := database(t)
				theirs, ours := openWith(files, open), open()
				if _, err := theirs.Apply(t.Context()); err != nil {
					t.Fatal(err)
				}
				engine, err := hookonce.NewEngine(ours, &hookonce.Config{})
				if err != nil {
					t.Fatal(err)
				}
				_, up := hookmigrate.Up(t.Context(), ours)
				_, apply := ours.Apply(t.Context())
				for what, err := range map[string]error{
					"Check": hookmigrate.Check(t.Context(), ours), "Up": up, "Apply": apply, "Ready": engine.Ready(t.Context()),
				} {
					wantSchemaError(t, what, err, "step 1 (init) was made by another build; it is not upgradable before the first release")
				}
				wantStatus(t, ours, []hookmigrate.Step{{Version: 1, Name: "init", Applied: true, OtherBuild: true}})
			})
		}
	}
}

// TestEmptyToNewest applies all steps at once.
func TestEmptyToNewest(t *testing.T) { //nolint:paralleltest // it replaces the files
	files, _ := oneMore(t, "")
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			store := openWith(files, database(t))
			wantUp(t, store, store.Migrations()...)
			wantStatus(t, store, stepsOf(store, true))
			wantClaimed(t, store, "evt_1", true)
		})
	}
}

// TestFailingStep has a step that fails at its end. All steps of one call are one transaction, so nothing of
// any of them stays.
func TestFailingStep(t *testing.T) { //nolint:paralleltest // it replaces the files
	broken, added := oneMore(t, "SELECT no_such_column;")
	mended, _ := oneMore(t, "")
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			open := database(t)
			failing := openWith(broken, open)
			wantFailedStep := func() {
				t.Helper()
				_, err := hookmigrate.Up(t.Context(), failing)
				if want := fmt.Sprintf("step %d (color)", added.Version); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Up: got the error %v, want it to name %s", err, want)
				}
			}
			wantFailedStep()
			wantStatus(t, failing, stepsOf(failing, false))

			shipped := open()
			wantUp(t, shipped, shipped.Migrations()...)
			wantClaimed(t, shipped, "evt_1", true)
			wantFailedStep()
			wantStatus(t, shipped, stepsOf(shipped, true))
			wantClaimed(t, shipped, "evt_1", false)

			last := openWith(mended, open)
			wantUp(t, last, last.Migrations()[added.Version-1])
			wantClaimed(t, last, "evt_1", false)
		})
	}
}

// upTogether calls Up eight times concurrently: one caller applies the step, the others none.
func upTogether(t *testing.T, added driver.Migration, stores ...driver.Store) {
	t.Helper()
	const callers = 8
	var (
		group sync.WaitGroup
		took  [callers][]driver.Migration
		errs  [callers]error
	)
	start := make(chan struct{})
	for i := range callers {
		group.Go(func() {
			<-start
			took[i], errs[i] = hookmigrate.Up(t.Context(), stores[i%len(stores)])
		})
	}
	close(start)
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatalf("Up: %v", err)
	}
	var all []int
	for _, steps := range took {
		for _, step := range steps {
			all = append(all, step.Version)
		}
	}
	if diff := cmp.Diff([]int{added.Version}, all); diff != "" {
		t.Errorf("applied by all callers (-want +got):\n%s", diff)
	}
}

func wantUp(t *testing.T, store driver.Store, want ...driver.Migration) {
	t.Helper()
	steps, err := hookmigrate.Up(t.Context(), store)
	if diff := cmp.Diff(want, steps); err != nil || diff != "" {
		t.Fatalf("Up: error %v, steps differ (-want +got):\n%s", err, diff)
	}
}

func wantSchemaError(t *testing.T, what string, err error, hint string) {
	t.Helper()
	if !errors.Is(err, driver.ErrSchema) || !strings.Contains(err.Error(), hint) {
		t.Errorf("%s: got the error %v, want %v with the hint %q", what, err, driver.ErrSchema, hint)
	}
}

func wantStatus(t *testing.T, store driver.Store, want []hookmigrate.Step) {
	t.Helper()
	steps, err := hookmigrate.Status(t.Context(), store)
	if diff := cmp.Diff(want, steps); err != nil || diff != "" {
		t.Errorf("Status: error %v, steps differ (-want +got):\n%s", err, diff)
	}
}

// stepsOf returns the steps of the store's program, all of them applied or none.
func stepsOf(store driver.Store, applied bool) []hookmigrate.Step {
	var steps []hookmigrate.Step
	for _, m := range store.Migrations() {
		steps = append(steps, hookmigrate.Step{Version: m.Version, Name: m.Name, Applied: applied})
	}
	return steps
}

func wantClaimed(t *testing.T, store driver.Store, id string, claimed bool) {
	t.Helper()
	body := []byte("{}")
	results, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{{
		Key: driver.EventKey("stripe", id), Source: "stripe", EventID: id, Headers: []byte("{}"), Body: body, BodyHash: sha256.Sum256(body),
	}}})
	if err != nil || results[0].Claimed != claimed {
		t.Errorf("Claim of %s: got %+v and the error %v, want claimed: %v", id, results, err, claimed)
	}
}
