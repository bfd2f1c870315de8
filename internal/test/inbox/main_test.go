package inbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/provider"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// library is the database of a user of the library, with a table of effects. The table has no
// unique constraint, so a second effect shows.
type library[T any] struct {
	db       driver.Driver[T]
	insert   func(ctx context.Context, tx T, name string) error
	fail     func(ctx context.Context, tx T) error // runs a statement that the database refuses
	commit   func(ctx context.Context, tx T) error
	rollback func(ctx context.Context, tx T) error
	begin    func(t *testing.T) (tx T, commit func() error) // rolled back at the end of the test
	read     func(t *testing.T) []string                    // the effects, sorted
	exec     func(t *testing.T, text string, args ...any)   // on hookonce's own tables; PostgreSQL only

	swallows bool // a transaction can commit after a failed statement
}

func onPGX(t testing.TB) *library[pgx.Tx] { return onPGXOf(t, 10) }

// onPGXOf has a pool of that size on every machine. The default depends on the processors.
func onPGXOf(t testing.TB, conns int32) *library[pgx.Tx] {
	dsn, schema := dbtest.Ready(t)
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db, err := hookpgx.NewWithOptions(pool, &hookpgx.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	table := pgx.Identifier{schema, "effects"}.Sanitize()
	exec := func(text string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, text); return err }
	}
	if _, err := pool.Exec(t.Context(), "CREATE TABLE "+table+" (name text NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	return &library[pgx.Tx]{
		db: db,
		insert: func(ctx context.Context, tx pgx.Tx, name string) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES ($1)", name)
			return err
		},
		fail: exec("INSERT INTO " + table + " VALUES (NULL)"), commit: exec("COMMIT"), rollback: exec("ROLLBACK"),
		begin: func(t *testing.T) (pgx.Tx, func() error) {
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tx.Rollback(context.Background()) })
			return tx, func() error { return tx.Commit(context.Background()) }
		},
		read: func(t *testing.T) []string {
			rows, err := pool.Query(t.Context(), "SELECT name FROM "+table+" ORDER BY name COLLATE \"C\"")
			if err != nil {
				t.Fatal(err)
			}
			names, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			return names
		},
		exec: func(t *testing.T, text string, args ...any) {
			text = strings.ReplaceAll(text, "{schema}", pgx.Identifier{schema}.Sanitize())
			if _, err := pool.Exec(t.Context(), text, args...); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func onSQLite(t testing.TB) *library[*sql.Tx] {
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	migrate(t, db)
	writer, reader, err := hooksql.SQLiteDSN(path)
	if err != nil {
		t.Fatal(err)
	}
	// SQLiteDSN asks for one connection. It may have to wait for the store's own writer, and these
	// tests do not retry, so the busy timeout is long.
	app, err := sql.Open("sqlite", writer+"&_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	app.SetMaxOpenConns(1)
	t.Cleanup(func() { app.Close() })
	if _, err := app.ExecContext(t.Context(), "CREATE TABLE effects (name TEXT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	look, err := sql.Open("sqlite", reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { look.Close() })
	return &library[*sql.Tx]{
		db: db,
		insert: func(ctx context.Context, tx *sql.Tx, name string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", name)
			return err
		},
		fail: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (NULL)")
			return err
		},
		commit:   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		rollback: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		begin: func(t *testing.T) (*sql.Tx, func() error) {
			tx, err := app.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tx.Rollback() })
			return tx, tx.Commit
		},
		read: func(t *testing.T) []string {
			rows, err := look.QueryContext(t.Context(), "SELECT name FROM effects ORDER BY name")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			var names []string
			for rows.Next() {
				var name string
				if err := rows.Scan(&name); err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			return names
		},
		swallows: true,
	}
}

// migrate creates the tables of hookonce.
func migrate(t testing.TB, db driver.Store) {
	t.Helper()
	if _, err := hookmigrate.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

// libraryTest is a test that runs on every database.
type libraryTest[T any] struct {
	name string
	run  func(t *testing.T, l *library[T])
}

// runLibraryTests runs each test in parallel, with a database of its own.
func runLibraryTests[T any](t *testing.T, open func(testing.TB) *library[T], tests []libraryTest[T]) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open(t))
		})
	}
}

// quickRetry allows three attempts, without a delay.
var quickRetry = hookonce.Retry{Attempts: 3, First: time.Microsecond, Max: time.Microsecond}

// inbox returns an Inbox for the source gh. It is not running.
func inbox[T any](t testing.TB, l *library[T], mux *hookonce.Mux[T], change func(*hookonce.Config)) *hookonce.Inbox[T] {
	t.Helper()
	cfg := &hookonce.Config{
		Sources: []hookonce.Source{{
			Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second,
		}},
		Retry: quickRetry,
		// The default for SQLite, a second, is too short for a busy machine.
		HandlerTimeout: 30 * time.Second,
		Logger:         slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(cfg)
	}
	in, err := hookonce.New(l.db, mux, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Drain)
	return in
}

// deliverAll delivers one event for each id.
func deliverAll[T any](t *testing.T, in *hookonce.Inbox[T], ids ...string) {
	t.Helper()
	for _, id := range ids {
		if diff := cmp.Diff(ok, deliver(in, delivery(id, `{"id":"`+id+`"}`))); diff != "" {
			t.Fatalf("delivering %s (-want +got):\n%s", id, diff)
		}
	}
}

// outcome holds the fields of an ended event that tests compare.
type outcome struct {
	State, Note string
	Attempts    int
	Generation  int
	LastError   string // the event's error contains it
}

// ended waits until an event is done, dead or skipped, and returns it.
func ended[T any](t *testing.T, l *library[T], id string) *driver.EventDetail {
	t.Helper()
	var ev *driver.EventDetail
	eventually.True(t, "event "+id+" has ended", func() bool {
		var err error
		if ev, err = l.db.Event(t.Context(), "gh", id); err != nil {
			t.Fatal(err)
		}
		return slices.Contains([]string{driver.StateDone, driver.StateDead, driver.StateSkipped}, ev.State)
	})
	return ev
}

// wantOutcome waits until an event has ended, and compares its outcome.
func wantOutcome[T any](t *testing.T, l *library[T], id string, want outcome) {
	t.Helper()
	ev := ended(t, l, id)
	got := outcome{ev.State, ev.Note, ev.Attempts, ev.Generation, ev.LastError}
	if want.LastError != "" && strings.Contains(got.LastError, want.LastError) {
		got.LastError = want.LastError
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event %s (-want +got):\n%s", id, diff)
	}
}

var done = outcome{State: "done", Attempts: 1}

// wantEffects compares all effects, in any order.
func wantEffects[T any](t *testing.T, l *library[T], want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, l.read(t), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// ids returns n ids: e00, e01 and so on.
func ids(n int) []string {
	all := make(map[string]bool)
	for i := range n {
		all[fmt.Sprintf("e%02d", i)] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// effectOf returns a handler that inserts the event's id.
func effectOf[T any](l *library[T]) hookonce.HandlerFunc[T] {
	return func(ctx context.Context, tx T, ev *hookonce.Event) error { return l.insert(ctx, tx, ev.ID) }
}

// sent is a Sender that records its messages.
type sent struct {
	mu  sync.Mutex
	all []*hookonce.Outgoing
	got chan struct{}
}

func newSent() *sent { return &sent{got: make(chan struct{}, 1000)} }

func (s *sent) Send(_ context.Context, m *hookonce.Outgoing) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, m)
	s.got <- struct{}{}
	return nil
}
